//! Insights page: criteria, suites and costs over time.

use gavel::judge::{CallLog as _, CallUsage};

use super::*;
use crate::support::stores;

#[tokio::test]
async fn calibration_is_shown_for_the_selected_suite() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let page = browser.page("/insights").await;
        assert!(
            page.contains("No suite of SQL metrics is stored."),
            "{page}"
        );

        let mut cases = vec![(Some("high"), Some(1.0)); 18];
        cases.extend([(Some("low"), Some(0.0)); 4]);
        let name = "<script>alert(1)</script>";
        let large = server.graded(name, &cases, false).await;
        let small = server.graded("small", &cases[..19], false).await;
        let newest = browser.page("/insights").await;
        in_order(
            &newest,
            &[
                "Calibration: confidence and correctness",
                &format!("<option value=\"{small}\" selected>"),
                "19 cases, and 0 items without a confidence",
            ],
        );
        assert!(
            !newest.contains("Calibration: confidence and correctness. Score"),
            "{newest}"
        );
        let chosen = browser
            .page(&format!("/insights?suite={large}&days=30"))
            .await;
        in_order(
            &chosen,
            &[
                "<input type=\"hidden\" name=\"days\" value=\"30\">",
                &format!("<option value=\"{large}\" selected>"),
                "role=\"img\" aria-label=\"Calibration: confidence and correctness. Score 0.",
                "Show as table",
                "<td>high</td><td>95%</td><td>100%</td>",
                "<td>low</td><td>45%</td><td>0%</td>",
                "Expected calibration error",
            ],
        );
        let batch = browser.page(&format!("/batches/{large}")).await;
        let link = format!("/insights?suite={large}#calibration");
        assert!(batch.contains(&link), "{batch}");
        let unknown = server.get(&format!("/insights?suite={}", Uuid::now_v7()));
        assert_eq!(browser.send(unknown).await.status, 404);
    }
}

#[tokio::test]
async fn insights_filter_by_criteria_and_link_to_sessions() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let now = chrono::Utc::now().to_rfc3339();
        server.scored_at(&now, 70, false, &[]).await;
        let other = server.other_criteria().await;
        let page = browser.page("/insights").await;
        let to = |filter: &str| format!("href=\"/sessions?{filter}&#38;from=20");
        let parts = [
            &format!("<option value=\"{other}\">"),
            "By agent, alert type and tag",
            &to("agent=kube-agent"),
            "70.0",
            &to("alert_type=PodCrashLooping"),
            &to("tag=prod"),
        ];
        in_order(&page, &parts);
        let page = browser.page(&format!("/insights?criteria={other}")).await;
        let chosen = format!("<option value=\"{other}\" selected>");
        in_order(&page, &[&chosen, "0 scores in this time"]);
        assert!(!page.contains("agent=kube-agent"), "{page}");
    }
}

#[tokio::test]
async fn page_covers_a_year_until_three_months_have_enough_scores() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let now = chrono::Utc::now();
    let long_ago = (now - chrono::TimeDelta::days(200)).to_rfc3339();
    server.scored_at(&long_ago, 40, false, &[]).await;
    let year = "<option value=\"365\" selected>";
    let page = browser.page("/insights").await;
    in_order(&page, &[year, "40.0"]);
    let page = browser.page("/insights?days=90").await;
    in_order(
        &page,
        &["<option value=\"90\" selected>", "No score in this time."],
    );
    for _ in 0..20 {
        server.scored_at(&now.to_rfc3339(), 70, false, &[]).await;
    }
    let page = browser.page("/insights").await;
    in_order(&page, &["<option value=\"90\" selected>", "70.0"]);
}

#[tokio::test]
async fn suites_are_listed_with_their_cost() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let page = browser.page("/insights").await;
    assert!(page.contains("No batches in this time."), "{page}");
    let (_, jobs) = server.cases(&["a", "b"]).await;
    let mut call = crate::support::call(jobs[0]);
    call.usage = CallUsage {
        tokens_in: 1_200,
        tokens_out: 300,
        cost_usd: Some(0.25),
        ..CallUsage::default()
    };
    server.store().log(call);
    server.score_case(jobs[0], 1.0).await;
    let page = browser.page("/insights").await;
    in_order(
        &page,
        &[
            "<h3>By suite</h3>",
            "nightly",
            "query",
            "0.2500 USD",
            "1,200 in",
            "300 out",
        ],
    );
}
