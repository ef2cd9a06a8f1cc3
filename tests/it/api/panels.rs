//! Repeats and juries over HTTP: results from several scores of one session.

use gavel::job::BatchPlace;

use super::*;

/// Judges of a panel, each with its total; `None`: no vote.
type Votes = &'static [(&'static str, Option<u8>)];

/// Starts a batch of panels: for each session the judges and their votes.
async fn panels(server: &Server, purpose: Purpose, asked: &[(Uuid, Votes)]) -> Uuid {
    let batch = crate::support::new_batch(Kind::Session, SystemClock.now());
    let batch_id = batch.batch_id;
    server.store().batches().begin(&batch).await.unwrap();
    let (mut items, mut given) = (Vec::new(), Vec::new());
    for (session, judges) in asked {
        for (judge, total) in *judges {
            let item = NewJob {
                purpose,
                judge: Some((*judge).to_owned()),
                batch: Some(BatchPlace {
                    batch_id,
                    item_no: items.len() as i64,
                }),
                ..server.new_bulk(*session)
            };
            given.extend(total.map(|total| (item.job_id, total)));
            items.push(item);
        }
    }
    server
        .store()
        .batches()
        .add_items(batch_id, &items)
        .await
        .unwrap();
    server.store().batches().start(batch_id).await.unwrap();
    for (job, total) in given {
        server.succeed(job, total).await;
    }
    batch_id
}

/// Jury of three judges on three sessions, one with a single vote so far.
async fn jury() -> (Server, Uuid, [Uuid; 3]) {
    let server = Server::with(Setup::default()).await;
    let mut sessions = [
        server.session().await,
        server.session().await,
        server.session().await,
    ];
    sessions.sort_unstable();
    let asked: [(Uuid, Votes); 3] = [
        (
            sessions[0],
            &[("mild", Some(80)), ("mid", Some(70)), ("hard", Some(60))],
        ),
        (
            sessions[1],
            &[("mild", Some(72)), ("mid", Some(70)), ("hard", Some(68))],
        ),
        (
            sessions[2],
            &[("mild", Some(90)), ("mid", None), ("hard", None)],
        ),
    ];
    let batch = panels(&server, Purpose::Jury, &asked).await;
    (server, batch, sessions)
}

#[tokio::test]
async fn each_jury_judge_is_compared_with_human_ratings() {
    let (server, batch, sessions) = jury().await;
    for (session, total) in [(sessions[0], 80), (sessions[1], 72)] {
        let path = format!("/api/v1/sessions/{session}/ratings");
        let rating = json!({"total": total, "by": "ann"});
        let given = server.request(Method::POST, &path).json(&rating);
        assert!(given.send().await.unwrap().status().is_success());
    }
    let path = format!("/api/v1/batches/{batch}/spread");
    let found = server.json_of(&path).await;
    let of = |name: &str| {
        let judges = found["summary"]["judges"].as_array().unwrap();
        let judge = judges.iter().find(|judge| judge["judge"] == name).unwrap();
        let scales = judge["agreement"].as_array().unwrap();
        assert_eq!(scales.len(), 1, "{judge:#}");
        let scale = &scales[0];
        ["n", "raters", "scores", "raw", "mean_difference"].map(|field| scale[field].clone())
    };
    assert_eq!(json!(of("mild")), json!([2, 1, 2, 1.0, 0.0]));
    assert_eq!(json!(of("hard")), json!([2, 1, 2, 0.5, -12.0]));
    let rated = server.json_of("/api/v1/sessions?rated=true").await;
    assert_eq!(rated["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn jury_has_a_median_a_disagreement_flag_and_no_current_score() {
    let (server, batch, sessions) = jury().await;
    let path = format!("/api/v1/batches/{batch}/spread");
    let found = server.json_of(&path).await;
    assert_eq!(
        (&found["purpose"], &found["simulated"]),
        (&json!("jury"), &json!(false))
    );
    let first = &found["items"][0];
    assert_eq!(
        (&first["session_id"], &first["asked"]),
        (&json!(sessions[0]), &json!(3))
    );
    assert_eq!(
        (
            &first["median"],
            &first["rating"],
            &first["sd"],
            &first["range"]
        ),
        (&json!(70.0), &json!("adequate"), &json!(10.0), &json!(20.0))
    );
    assert_eq!(
        (&first["flips"], &first["flipped"], &first["flags"]),
        (&json!(1), &json!(true), &json!(["jury_disagreement"]))
    );
    let votes: Vec<(&str, u64)> = first["scores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|vote| {
            (
                vote["judge"].as_str().unwrap(),
                vote["total"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(votes, [("mild", 80), ("mid", 70), ("hard", 60)]);
    assert_eq!(
        (&found["items"][1]["flags"], &found["items"][1]["flipped"]),
        (&json!([]), &json!(false))
    );
    let third = &found["items"][2];
    assert_eq!(
        (&third["median"], &third["sd"], &third["asked"]),
        (&json!(90.0), &Value::Null, &json!(3))
    );
    for session in sessions {
        let answer = server.get(&score_path(session)).send().await.unwrap();
        problem_of(answer, 404, "not-scored").await;
    }
    // A single vote is marked as one, and can't be used as a score.
    let job = job_id(&first["scores"][0]);
    let vote = server.store().scores().of_jobs(&[job]).await.unwrap()[0].score_id;
    let score = server.json_of(&format!("/api/v1/scores/{vote}")).await;
    assert_eq!(
        (&score["purpose"], &score["superseded_at"]),
        (&json!("jury"), &Value::Null)
    );
    let page = server.get(&format!("/scores/{vote}"));
    let page = page.header("accept", "text/html").send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(page.contains("one vote of a jury") && !page.contains("Score again"));
}

#[tokio::test]
async fn panel_summary_covers_all_sessions_and_items_are_paged() {
    let (server, batch, _) = jury().await;
    let path = format!("/api/v1/batches/{batch}/spread");
    let found = server.json_of(&path).await;
    let third = &found["items"][2];
    let summary = &found["summary"];
    assert_eq!(
        (
            &summary["sessions"],
            &summary["complete"],
            &summary["scores"],
            &summary["disagreements"]
        ),
        (&json!(3), &json!(2), &json!(7), &json!(1))
    );
    assert_eq!(
        (&summary["mean_sd"], &summary["flip_share"]),
        (&json!(6.0), &json!(1.0 / 6.0))
    );
    assert_eq!(
        summary["judges"][0],
        json!({ "judge": "hard", "scores": 2, "mean": 64.0, "mean_difference": -6.0, "agreement": [] })
    );
    assert_eq!(summary["judges"][2]["mean_difference"], 4.0);
    let page = server.json_of(&format!("{path}?limit=2")).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["summary"], found["summary"], "the summary is of all");
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = server
        .json_of(&format!("{path}?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(
        (&rest["items"][0], &rest["next_cursor"]),
        (third, &Value::Null)
    );
}

#[tokio::test]
async fn repeats_have_a_spread_and_no_jury_flag() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let votes: Votes = &[("judge-a", Some(50)), ("judge-a", Some(80))];
    let batch = panels(&server, Purpose::Repeat, &[(session, votes)]).await;
    let found = server
        .json_of(&format!("/api/v1/batches/{batch}/spread"))
        .await;
    let item = &found["items"][0];
    assert_eq!(found["purpose"], "repeat");
    assert_eq!(
        (&item["median"], &item["rating"], &item["flips"]),
        (&json!(65.0), &json!("adequate"), &json!(2))
    );
    assert_eq!(
        (&item["flags"], &found["summary"]["disagreements"]),
        (&json!([]), &json!(1))
    );
}

#[tokio::test]
async fn batch_without_repeats_has_no_panels_and_gives_a_reason() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let batch = panels(
        &server,
        Purpose::Score,
        &[(session, &[("judge-a", Some(50))])],
    )
    .await;
    let path = format!("/api/v1/batches/{batch}/spread");
    let found = server.json_of(&path).await;
    assert_eq!(
        (&found["purpose"], &found["items"]),
        (&Value::Null, &json!([]))
    );
    assert!(
        found["warnings"][0]
            .as_str()
            .unwrap()
            .contains("isn't a batch of repeats")
    );
    let unknown = format!("/api/v1/batches/{}/spread", Uuid::now_v7());
    problem_of(
        server.get(&unknown).send().await.unwrap(),
        404,
        "batch-not-found",
    )
    .await;
    let misplaced = server
        .get(&format!("{path}?cursor=zzz&limit=0"))
        .send()
        .await
        .unwrap();
    let problem = problem_of(misplaced, 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/limit"]);
}
