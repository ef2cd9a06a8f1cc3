//! A score as a page.

use super::*;
use crate::support::stores;

#[tokio::test]
async fn a_missing_tool_says_in_how_many_other_sessions_it_is_asked_for() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let day = "2026-01-02T12:00:00Z";
        let bad = "<script>alert(1)</script>";
        let session = server
            .scored_at(day, 70, false, &["logs", bad, "shell"])
            .await;
        for tools in [["Logs", bad], ["lo-gs", "x"]] {
            server.scored_at(day, 70, false, &tools).await;
        }
        let page = browser.page(&format!("/sessions/{session}/score")).await;
        in_order(
            &page,
            &[
                "<b>logs</b>",
                "asked for in 2 other sessions",
                "alert(1)",
                "asked for in 1 other session<",
                "<b>shell</b>",
                "asked for in no other session",
            ],
        );
    }
}
