//! Comparison pages.

use super::*;
use crate::support::stores;

#[tokio::test]
async fn batch_comparison_lists_changed_items_first() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let names = ["<script>alert(1)</script>", "mended", "same"];
        let (a, before) = server.cases(&names).await;
        let (b, after) = server.cases(&names).await;
        for (job, total) in before.iter().zip([1.0, 0.5, 1.0]) {
            server.score_case(*job, total).await;
        }
        for (job, total) in after.iter().zip([0.25, 1.0, 1.0]) {
            server.score_case(*job, total).await;
        }
        let page = browser.page(&format!("/compare?a={a}&b={b}")).await;
        let turned = [
            "1 broke, 1 fixed",
            "<h2>Passed before, misses now</h2>",
            "100% before",
            "25% after",
            "<h2>Missed before, passes now</h2>",
            "<h2>Means</h2>",
            "Total",
            "Schema",
            "LLM",
        ];
        in_order(&page, &turned);
        let choose = browser.page(&format!("/compare?b={b}")).await;
        let chosen = format!("<option value=\"{b}\" selected>");
        assert_eq!(choose.matches(&chosen).count(), 1, "{choose}");
        let same = browser.page(&format!("/compare?a={b}&b={b}")).await;
        in_order(&same, &["Both sides are the same.", "Two batches", &chosen]);
        let unknown = server.get(&format!("/compare?a={a}&b={}", Uuid::now_v7()));
        assert_eq!(browser.send(unknown).await.status, 404);
    }
}

#[tokio::test]
async fn two_scores_of_a_session_are_shown_side_by_side() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let (session, old) = server.scored(70).await;
        let job = job_id(&json_of(server.force(session).await, 202).await);
        let new = server.succeed(job, 64).await;
        let page = browser.page(&format!("/compare?a={old}&b={new}")).await;
        in_order(
            &page,
            &[
                "PodCrashLooping · kube-agent, 2026-01-02 03:14 UTC",
                "Total",
                "−6",
                "logical flow",
                "Before",
                "70",
                "After",
                "64",
            ],
        );
    }
}

/// Scores a session under the current criteria, then under others; returns the hash of the others.
async fn moved(server: &Server, total: u8, then: u8) -> String {
    let (session, _) = server.scored(total).await;
    let other = server.other_criteria().await;
    let again = json!({"force_rescore": true, "criteria_hash": other});
    let again = json_of(server.request_score_with(session, again).await, 202).await;
    server.succeed(job_id(&again), then).await;
    other
}

#[tokio::test]
async fn criteria_are_compared_by_sessions_and_texts() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let other = moved(&server, 80, 50).await;
        let page = browser.page(&format!("/compare?a=current&b={other}")).await;
        let parts = [
            "only 1 session:",
            "Changes of ratings",
            "The largest movers",
            "PodCrashLooping · kube-agent, 2026-01-02 03:14 UTC</a>",
            "80 good",
            "50 weak",
            "−30",
            "<h2>Changes</h2>",
            "Judge it otherwise",
        ];
        in_order(&page, &parts);
        // A trend marks the line of the current criteria.
        let trend = server
            .json_of("/api/v1/analytics/trend?every=month&from=2020-01-01T00:00:00Z")
            .await;
        for item in trend["items"].as_array().unwrap() {
            let is_current = item["criteria_hash"] != other;
            assert_eq!(item["is_current"], is_current, "{trend:#}");
        }
        assert!(!trend["items"].as_array().unwrap().is_empty(), "{trend:#}");
        let choose = browser.page("/compare").await;
        assert!(choose.contains(&other), "{choose}");
        let unknown = format!("/compare?a=current&b={}", "0".repeat(64));
        assert_eq!(browser.send(server.get(&unknown)).await.status, 404);
    }
}

#[tokio::test]
async fn versions_with_equal_totals_have_no_table_of_changes() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let other = moved(&server, 80, 80).await;
    let page = browser.page(&format!("/compare?a=current&b={other}")).await;
    let parts = ["The largest movers", "No total moved.", "<h2>Changes</h2>"];
    in_order(&page, &parts);
    assert!(!page.contains("aria-label=\"Movers\""), "{page}");
}
