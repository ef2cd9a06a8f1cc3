//! Score pages.

use gavel::judge::{CallLog as _, CallRecord, ErrorClass};
use gavel::store::SessionScoreRow;

use super::*;
use crate::support::stores;

const DAY: &str = "2026-01-02T12:00:00Z";

#[tokio::test]
async fn missing_tool_shows_the_number_of_other_sessions_missing_it() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let bad = "<script>alert(1)</script>";
        let session = server
            .scored_at(DAY, 70, false, &["logs", bad, "shell"])
            .await;
        for tools in [["Logs", bad], ["lo-gs", "x"]] {
            server.scored_at(DAY, 70, false, &tools).await;
        }
        let page = browser.page(&format!("/sessions/{session}/score")).await;
        in_order(
            &page,
            &[
                "<b>logs</b>",
                "requested in 2 other sessions",
                "alert(1)",
                "requested in 1 other session<",
                "<b>shell</b>",
                "requested in no other session",
            ],
        );
    }
}

#[tokio::test]
async fn score_links_to_its_messages_and_to_the_final_analysis() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let session = server.session().await;
        let score = SessionScore {
            score_reasoning: "In message 2 it read one log; see messages 1 and 60.".to_owned(),
            ..session_score(70)
        };
        let job = server.queued(session).await;
        let score = server.succeed_with(job, score).await;
        let link = |from: usize, no: usize| {
            format!("<a href=\"/sessions/{session}?from={from}#message-{no}\">{no}</a>")
        };
        let of_session = format!("/sessions/{session}/score");
        for path in [format!("/scores/{score}"), of_session.clone()] {
            // The page of a score starts with alert and final analysis. The first bar has the largest loss of points,
            // and its reason precedes its source.
            let links = [link(0, 2), link(0, 1), link(50, 60)];
            let mut parts = vec!["<h2>Alert</h2>", "web-1", "Out of memory."];
            parts.extend([">consistency<", ">logical flow<", "<h2>Why</h2>"]);
            parts.extend(links.iter().map(String::as_str));
            parts.push("<h2>Origin</h2>");
            in_order(&browser.page(&path).await, &parts);
        }
        let badge = format!("rating-adequate\" href=\"{of_session}\">70");
        in_order(&browser.page("/sessions").await, &[&badge]);
        let said = ["id=\"message-2\"", "href=\"#message-2\"", "logs.get"];
        in_order(&browser.page(&format!("/sessions/{session}")).await, &said);
    }
}

async fn current(server: &Server, session: Uuid) -> SessionScoreRow {
    let current = server.store().scores().current(session).await.unwrap();
    current.expect("it is scored")
}

fn call(job: JobId, reply: String) -> CallRecord {
    CallRecord {
        judge: "judge-a".to_owned(),
        reply: Some(reply),
        ..crate::support::call(job)
    }
}

async fn light(browser: &Browser<'_>, path: &str) -> String {
    let page = browser.page(path).await;
    assert!(page.len() < 150_000, "{path}: {}", page.len());
    page
}

#[tokio::test]
async fn score_can_be_requested_again_from_its_page_with_permission() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let session = server.scored_at(DAY, 70, false, &[]).await;
        let score = current(&server, session).await.score_id;
        let page = browser.page(&format!("/scores/{score}")).await;
        let action = format!("action=\"/sessions/{session}/score-now\"");
        let says = "stays in its history";
        in_order(&page, &[&action, says, "Cost of this score", "Score again"]);

        // Without scripts the server shows the confirmation, with the cost.
        let path = format!("/sessions/{session}/score-now");
        let asked = browser.form(&path, &[("force", "1"), ("key", "k")]).await;
        assert_eq!(asked.status, 200);
        let question = ["Score this session again?", says, "Cost of this score"];
        in_order(&asked.text, &question);

        // The page of a replaced score links to its replacement.
        let sure = [("force", "1"), ("key", "k"), ("sure", "1")];
        assert_eq!(browser.form(&path, &sure).await.status, 303);
        let jobs = format!("/api/v1/jobs?session_id={session}&state=queued");
        let job = server.json_of(&jobs).await["items"][0].clone();
        server.succeed(job_id(&job), 80).await;
        let page = browser.page(&format!("/scores/{score}")).await;
        in_order(&page, &["A newer score took its place"]);
        assert!(!page.contains("Score again"), "{page}");
    }
    let server = Server::with(guarded()).await;
    let (_, score) = server.scored_by("e-token-of-a-test").await;
    for (token, offers) in [("e-token-of-a-test", true), ("r-token-of-a-test", false)] {
        let browser = Browser::signed_in(&server, token).await;
        let page = browser.page(&format!("/scores/{score}")).await;
        assert_eq!(page.contains("Score again"), offers, "{page}");
    }
}

#[tokio::test]
async fn score_pages_stay_small_for_any_judge_reply() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let names: Vec<String> = (0..300)
            .map(|n| format!("tool {n} {}", "<&>".repeat(80)))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let session = server.scored_at(DAY, 70, false, &names).await;
        let SessionScoreRow {
            score_id: score,
            job_id: job,
            ..
        } = current(&server, session).await;
        let page = light(&browser, &format!("/scores/{score}")).await;
        in_order(&page, &["<b>tool 0 ", "<b>tool 39 ", "260 more are in"]);
        light(&browser, &format!("/sessions/{session}/score")).await;

        for reply in ["<&>".repeat(100_000), "short".to_owned()] {
            server.store().log(call(job, reply));
        }
        let page = light(&browser, &format!("/scores/{score}/calls")).await;
        let whole = format!("href=\"/api/v1/jobs/{}?calls=true\"", job.0);
        in_order(&page, &["&lt;&amp;&gt;", &whole, "short"]);
    }
}

#[tokio::test]
async fn attempts_are_counted_while_scoring_and_shown_with_the_score() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let (session, job) = server.queued_session().await;
        server.claim(job).await;
        let state = format!("/sessions/{session}/state");
        let page = browser.page(&state).await;
        in_order(&page, &["scoring"]);
        assert!(!page.contains("attempt"), "{page}");
        for _ in 0..2 {
            let failed = CallRecord {
                error: Some(ErrorClass::Transient),
                ..call(job, String::new())
            };
            server.store().log(failed);
        }
        in_order(&browser.page(&state).await, &["scoring, attempt 3"]);
    }
}
