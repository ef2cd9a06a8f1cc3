//! Query parameters of pages.

use super::*;

#[tokio::test]
async fn duplicate_parameter_is_rejected_on_every_page() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let batch = server.cases(&["q"]).await.0;
    for (path, name) in [
        ("/sessions?tag=a&tag=b".to_owned(), "tag"),
        ("/batches?state=running&kind=qas&state=".to_owned(), "state"),
        (format!("/batches/{batch}?show=failed&show=all"), "show"),
        (
            format!("/batches/{batch}/body?show=failed&show=all"),
            "show",
        ),
        ("/insights?days=30&days=90".to_owned(), "days"),
        ("/compare?a=1&b=2&a=3".to_owned(), "a"),
        ("/rescore?tag=a&tag=b".to_owned(), "tag"),
        ("/sign-in?next=%2F&next=%2Fqueue".to_owned(), "next"),
    ] {
        let shown = browser.send(server.get(&path)).await;
        assert_eq!(shown.status, 422, "{path}: {}", shown.text);
        let told = "is given 2 times: keep one of them in the address";
        assert!(shown.text.contains(told), "{path}: {}", shown.text);
        assert!(shown.text.contains("<main"), "{path}: {}", shown.text);
        let asked = server.get(&path).send().await.unwrap();
        let problem = problem_of(asked, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), [format!("/{name}")], "{path}");
    }
    let report = server.get("/api/v1/sessions?tag=a&tag=b");
    let problem = problem_of(report.send().await.unwrap(), 422, "invalid-request").await;
    let fault = problem["errors"][0]["message"].as_str().unwrap();
    assert_eq!(fault, "is given more than once: keep one");
}

#[tokio::test]
async fn unknown_filter_is_rejected_before_actions_and_counts() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let batch = server.cases(&["q"]).await.0;
    for (path, told) in [
        ("/rescore?min=90".to_owned(), "is not a filter of this page"),
        ("/insights?day=14".to_owned(), "criteria, days, suite"),
        ("/insights?days=abc".to_owned(), "14, 30, 90 or 365"),
        (format!("/batches/{batch}?only=missed"), "show or cursor"),
        (
            format!("/batches/{batch}?show=zz"),
            "is invalid: use one of all, failures, missed",
        ),
        ("/compare?x=1".to_owned(), "a or b"),
    ] {
        let shown = browser.send(server.get(&path)).await;
        assert_eq!(shown.status, 422, "{path}: {}", shown.text);
        assert!(shown.text.contains(told), "{path}: {}", shown.text);
    }
    // All filters of the session list and all links from other pages are valid.
    for path in [
        "/rescore?q=a&status=completed&scored=yes&rating=weak&criteria=not_current&tag=a&agent=a&alert_type=a&missing_tool=a&rated=true&min_score=1&max_score=2&from=2026-01-01&to=2026-02-01",
        "/rescore?ids=01938c4e-7a10-7c3e-9b41-2f6d8e0a1c01",
        "/rescore?name=spring&max=5&sample=3&budget_usd=2",
        "/insights?days=365&criteria=any&suite=",
    ] {
        drop(browser.page(path).await);
    }
}
