//! Rating queue, as a page and over the API.

use super::*;
use crate::support::stores;

/// Sessions with these scores; their alerts are `AlertA`, `AlertB` and so on.
async fn sessions(server: &Server, totals: &[u8]) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for (name, total) in ('A'..).zip(totals) {
        let fields = json!({"alert_type": format!("Alert{name}")});
        let session = server.session_with(fields).await;
        let job = server.queued(session).await;
        server.succeed(job, *total).await;
        ids.push(session);
    }
    ids
}

async fn queue(server: &Server, query: &str) -> Vec<Uuid> {
    let found = server
        .json_of(&format!("/api/v1/annotations?{query}"))
        .await;
    let items = found["items"].as_array().unwrap().iter();
    items
        .map(|item| serde_json::from_value(item["session_id"].clone()).unwrap())
        .collect()
}

#[tokio::test]
async fn rated_session_leaves_the_queue_and_shows_the_judge_score() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let ids = sessions(&server, &[70, 31, 96]).await;
        server.session().await;
        let path = "/annotate?order=low_score&by=ann";
        let page = browser.page(path).await;
        in_order(
            &page,
            &[
                "3 sessions",
                "<b>ann</b>",
                "AlertB",
                "data-key=\"1\"",
                "Out of memory.",
            ],
        );
        for score in ["badge", "/ 100", "failed</a>"] {
            assert!(
                !page.contains(score),
                "{score} shows before the rating: {page}"
            );
        }
        let skipped = browser.page(&format!("{path}&skip=1")).await;
        in_order(&skipped, &["AlertA"]);

        let rated = ids[1].to_string();
        let fields = [
            ("session_id", rated.as_str()),
            ("rating", "weak"),
            ("comment", "It guessed."),
            ("by", "ann"),
            ("order", "low_score"),
        ];
        let sent = browser.form("/annotate", &fields).await;
        let to = format!("/annotate?order=low_score&by=ann&rated={rated}");
        assert_eq!(
            (sent.status, sent.location.as_deref()),
            (303, Some(to.as_str()))
        );
        let parts = [
            "2 sessions",
            "You have rated AlertB",
            "rating-failed",
            "31<",
            "<b>weak</b> by ann",
            "It guessed.",
            "AlertA",
        ];
        in_order(&browser.page(&to).await, &parts);
        let score = browser.page(&format!("/sessions/{rated}/score")).await;
        in_order(
            &score,
            &["<b>weak</b> by ann (of the session)", "It guessed."],
        );
        let only = browser.page("/sessions?rated=true").await;
        in_order(&only, &["AlertB"]);
        assert!(
            !only.contains("AlertA") && !only.contains("AlertC"),
            "{only}"
        );
        assert_eq!(
            queue(&server, "by=ann&order=low_score").await,
            [ids[0], ids[2]]
        );
        assert_eq!(queue(&server, "by=bob&limit=500").await.len(), 3);
        let strange = server.get("/annotate?order=%3Cb%3E");
        assert_eq!(browser.send(strange).await.status, 422);
    }
    let server = Server::with(guarded()).await;
    server.scored_by("e-token-of-a-test").await;
    let reader = Browser::signed_in(&server, "r-token-of-a-test").await;
    let page = reader.page("/annotate").await;
    in_order(&page, &["Your token may only read."]);
    assert!(!page.contains("data-key"), "{page}");
}

#[tokio::test]
async fn queue_is_a_sample_or_sorted_by_disagreement() {
    for db in stores().await {
        let server = Server::over(db).await;
        let ids = sessions(&server, &[80, 80, 80]).await;
        // One judge differs from itself by 20, two raters by more.
        let again = server
            .post(&score_path(ids[2]))
            .json(&json!({"force_rescore": true}));
        let job = job_id(&json_of(again.send().await.unwrap(), 202).await);
        server.succeed(job, 60).await;
        let people = [(ids[1], "ann", "failed"), (ids[1], "bob", "near_perfect")];
        let same = [(ids[0], "ann", "good"), (ids[0], "bob", "good")];
        for (session, by, word) in people.into_iter().chain(same) {
            let path = format!("/api/v1/sessions/{session}/ratings");
            let rating = server.post(&path).json(&json!({"rating": word, "by": by}));
            json_of(rating.send().await.unwrap(), 201).await;
        }
        let disagreed = queue(&server, "by=eve&order=disagreement").await;
        assert_eq!(disagreed, [ids[1], ids[2], ids[0]]);
        let sample = queue(&server, "by=eve").await;
        assert_eq!(sample, queue(&server, "by=max&order=sample").await);
        assert_eq!(sample[..2], queue(&server, "by=eve&limit=2").await);

        let found = server.json_of("/api/v1/analytics/raters").await;
        let pair = &found["items"][0];
        let scale = &pair["scales"][0];
        assert_eq!((&pair["a"], &pair["b"]), (&json!("ann"), &json!("bob")));
        assert_eq!(
            (&scale["n"], &scale["raw"]),
            (&json!(2), &json!(0.5)),
            "{found:#}"
        );
        assert!(scale["kappa_quadratic"]["value"].is_number(), "{found:#}");
        let page = Browser::of(&server).page("/annotate").await;
        in_order(
            &page,
            &[
                "Agreement between raters",
                "ann and bob",
                "2 ratings by 2 people",
            ],
        );
    }
}
