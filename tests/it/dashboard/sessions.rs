//! Session list, score pages and missing pages.

use super::*;
use crate::support::stores;

#[tokio::test]
async fn failed_session_shows_its_failure_and_a_retry() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let (session, job) = server.queued_session().await;
        server.fail(job).await;
        let list = browser.page("/sessions").await;
        in_order(
            &list,
            &[
                "<tbody",
                "scoring failed</a>",
                ">Try<span class=\"wide\"> again</span></button>",
            ],
        );
        let page = browser.page(&format!("/sessions/{session}")).await;
        in_order(&page, &[">Try again</button>", "The last scoring failed:"]);
        assert_eq!(page.matches(">Try again</button>").count(), 1, "{page}");
        assert!(!page.contains(">Score session</button>"), "{page}");
    }
}

#[tokio::test]
async fn score_names_the_alert_and_the_agent() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let (_, score) = server.scored(72).await;
        let page = browser.page(&format!("/scores/{score}")).await;
        in_order(
            &page,
            &["<title>72 adequate · ", "<h1>Score of <bdi>", "by <bdi>"],
        );
    }
}

#[tokio::test]
async fn overview_lists_lowest_and_latest_scores_and_next_steps() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let mut sessions = Vec::new();
        for (day, total) in [("02", 70), ("03", 30), ("04", 95)] {
            let day = format!("2026-01-{day}T12:00:00Z");
            sessions.push(server.scored_at(&day, total, true, &[]).await);
        }
        server.session().await;
        let page = browser.page("/").await;
        let [middle, lowest, latest] =
            [0, 1, 2].map(|n| format!("/sessions/{}/score", sessions[n]));
        let parts = [
            "What to do next",
            "Score the sessions without a score",
            &latest,
            "href=\"/annotate\"",
            "Replace simulated scores with scores of the judge",
            "Upload a suite",
            "Lowest scores",
            &lowest,
            "PodCrashLooping · kube-agent",
            &middle,
            "Newest sessions with a score",
            &latest,
        ];
        in_order(&page, &parts);
    }
}

#[tokio::test]
async fn missing_page_links_to_alternatives() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let id = Uuid::now_v7();
    for (path, title, place) in [
        ("/nowhere".to_owned(), "Page not found", "/"),
        (format!("/sessions/{id}"), "Session not found", "/sessions"),
        (format!("/scores/{id}"), "Score not found", "/sessions"),
        (
            format!("/batches/{id}"),
            "Batch or item not found",
            "/batches",
        ),
        (
            format!("/criteria/{}", "a".repeat(64)),
            "Criteria not found",
            "/criteria",
        ),
    ] {
        let shown = browser.send(server.get(&path)).await;
        assert_eq!(shown.status, 404, "{path}");
        let link = format!("Look in <a href=\"{place}\">");
        in_order(&shown.text, &[&format!("<h1>{title}</h1>"), &link]);
        for word in ["GET /", "/api/", "PUT", "Put the"] {
            assert!(!shown.text.contains(word), "{path}: {word}: {}", shown.text);
        }
    }
}

#[tokio::test]
async fn session_file_is_uploaded_completely_or_its_errors_are_listed() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let empty = browser.page("/sessions").await;
        in_order(&empty, &["No sessions yet", "href=\"/sessions/upload\""]);
        let form = browser.page("/sessions/upload").await;
        in_order(
            &form,
            &["spans: OpenInference, OpenTelemetry", "type=\"file\""],
        );
        let send = async |file: (&str, &str)| {
            let token = browser.form_token.as_str();
            let (media_type, body) = batches::upload(token, &[("format", "")], file);
            let request = server
                .post("/sessions/upload")
                .header("content-type", media_type);
            browser.send(request.body(body)).await
        };
        let bad = "{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"?\"}]}\n{\"id\":\"b\",\"messages\":[7]}\n";
        for (file, said) in [
            (("a.jsonl", bad), "line 2: is no message"),
            (
                ("a.csv", "x"),
                "does not end in one of .json, .jsonl and .ndjson",
            ),
        ] {
            let refused = send(file).await;
            assert_eq!(refused.status, 422);
            in_order(&refused.text, &["No session was stored.", said]);
        }
        assert!(browser.page("/sessions").await.contains("No sessions yet"));
        let good = bad.replace("[7]", "[{\"role\":\"user\",\"content\":\"!\"}]");
        for stored in [
            "2 new, 0 updated, 0 unchanged",
            "0 new, 0 updated, 2 unchanged",
        ] {
            let sent = send(("a.jsonl", &good)).await;
            assert_eq!(sent.status, 303);
            assert!(browser.page(&sent.location.unwrap()).await.contains(stored));
        }
        assert_eq!(browser.page("/sessions").await.matches("<tr").count(), 3);
        let most = format!("/sessions/upload?new={0}&updated={0}", usize::MAX);
        assert!(browser.page(&most).await.contains("Upload sessions"));
    }
}

#[tokio::test]
async fn admin_deletes_a_session_after_confirmation() {
    let server = Server::with(guarded()).await;
    let admin = Browser::signed_in(&server, "a-token-of-a-test").await;
    let session = Uuid::now_v7();
    let path = format!("/api/v1/sessions/{session}");
    let put = server.request(Method::PUT, &path).json(&session_body());
    let put = put.bearer_auth("a-token-of-a-test").send().await.unwrap();
    json_of(put, 201).await;
    let (technical, delete) = (
        format!("/sessions/{session}/technical"),
        format!("/sessions/{session}/delete"),
    );
    let form = format!("action=\"{delete}\"");
    let other = Browser::signed_in(&server, "e-token-of-a-test").await;
    assert!(!other.page(&technical).await.contains(&form));
    assert_eq!(other.form(&delete, &[("sure", "1")]).await.status, 403);

    in_order(
        &admin.page(&technical).await,
        &[form.as_str(), "Delete session"],
    );
    let asked = admin.form(&delete, &[("back", &technical)]).await;
    in_order(&asked.text, &["Delete this session?", "name=\"sure\""]);
    let there = server.store().sessions().get(session).await.unwrap();
    assert!(there.is_some());
    let gone = admin.form(&delete, &[("sure", "1")]).await;
    assert_eq!(
        (gone.status, gone.location.as_deref()),
        (303, Some("/sessions"))
    );
    let there = server.store().sessions().get(session).await.unwrap();
    assert!(there.is_none());
}
