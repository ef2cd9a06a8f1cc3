//! First run: from an empty service to a rated score and a backlog.

use super::accessible::look;
use super::*;
use crate::support::home::built_in;

#[tokio::test]
async fn empty_service_leads_to_a_rated_score_without_reloads() {
    let Some(site) = Site::start(Judge::AfterASecond).await else {
        return;
    };
    site.open("/").await;
    site.shows(".banner", "Simulated judge").await;
    assert_eq!(look(&site).await, Vec::<String>::new());
    site.shows("h2", "Look around").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;

    site.find("input[type=search]")
        .await
        .send_keys("crypto" + Key::Enter)
        .await
        .unwrap();
    site.shows("tbody", "CryptoMinerDetected").await;
    site.click("tbody th a").await;
    site.shows("#standing", "Not scored").await;
    site.run("window.gavelSame = true").await;
    site.click("#standing form button").await;
    site.shows("#standing", "scoring").await;
    site.shows("#standing .badge", "/ 100").await;
    assert_eq!(
        site.run("return window.gavelSame").await,
        true,
        "the page was never loaded again"
    );

    site.click("#standing .badge").await;
    site.shows("main", "Origin").await;
    site.shows(".mark", "simulated").await;
    assert_eq!(look(&site).await, Vec::<String>::new());
    let title = site.driver.title().await.unwrap();
    assert!(
        title.chars().next().is_some_and(|c| c.is_ascii_digit()),
        "the verdict leads: {title}"
    );
    site.find("#own-total").await.send_keys("40").await.unwrap();
    site.find("#own-comment")
        .await
        .send_keys("too kind")
        .await
        .unwrap();
    site.submit("form[action$='/rate'] button").await;
    site.shows("#people", "40 / 100 failed").await;

    site.open("/sessions?scored=no&status=completed").await;
    site.click("main a[href^='/rescore']").await;
    site.submit("form[action='/rescore'] button").await;
    site.shows("h1", "Plan").await;
    site.submit("form[action='/rescore/go'] button").await;
    site.shows("main", "completed").await;
    site.open("/sessions?scored=yes").await;
    site.shows("tbody", "PodCrashLooping").await;

    rescore_and_compare(&site).await;
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

/// Rescores under other criteria, from the criteria page to the comparison.
async fn rescore_and_compare(site: &Site) {
    let other = other_criteria(site).await;
    site.open("/criteria").await;
    site.click(&format!("a[href='/criteria/{other}']")).await;
    site.click(&format!("a[href='/rescore?with={other}']"))
        .await;
    site.submit("form[action='/rescore'] button").await;
    site.submit("form[action='/rescore/go'] button").await;
    site.shows("main", "completed").await;
    site.open(&format!("/criteria/{other}")).await;
    site.click("main a[href^='/compare']").await;
    site.shows("main", "Changes of ratings").await;
    let moved = site
        .run("return Array.from(document.querySelectorAll('table td.shade-1')).map(cell => Number(cell.textContent))")
        .await;
    let moved: Vec<u32> = serde_json::from_value(moved).unwrap();
    assert!(moved.iter().sum::<u32>() > 0, "some ratings changed");
    site.click("table a[href$='/history']").await;
    site.click("main a[href^='/compare']").await;
    site.shows("h1", "Two scores of a session").await;
}

async fn other_criteria(site: &Site) -> String {
    let file = built_in("config/criteria/session_outcome_first.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let judge = |name: &str| (name == "DEFAULT_LLM_PROVIDER").then(|| "simulated".to_owned());
    let body = gavel::config::yaml::resolve("criteria", &text, &judge).unwrap();
    let path = "/api/v1/scoring/criteria";
    let added = site.api.post_json(path, body).await;
    assert!((200..300).contains(&added.status), "{added:?}");
    added.body["criteria_hash"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn keyboard_reaches_the_same_actions_as_the_mouse() {
    let Some(site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    site.open("/").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;
    let body = site.find("body").await;
    let current = "return Array.from(document.querySelectorAll('tr[data-open]')).findIndex(row => row.classList.contains('current'))";
    for (keys, row) in [("j", 0), ("jj", 2), ("k", 1), ("kkk", 0)] {
        body.send_keys(keys).await.unwrap();
        assert_eq!(site.run(current).await, row, "{keys}");
    }
    site.find("body").await.send_keys("/").await.unwrap();
    let searching = site.run("return document.activeElement.id").await;
    assert_eq!(searching, "q");
    site.driver
        .active_element()
        .await
        .unwrap()
        .send_keys("s?j")
        .await
        .unwrap();
    assert_eq!(
        site.run("return document.activeElement.value").await,
        "s?j",
        "keys stay in fields"
    );
    // One row, so that the opened and scored row is unambiguous.
    site.open("/sessions?q=crypto").await;
    let keys = "j" + Key::Enter;
    site.find("body").await.send_keys(keys).await.unwrap();
    site.shows("h1", "CryptoMinerDetected").await;
    site.find("body").await.send_keys("s").await.unwrap();
    site.shows("#standing .badge", "/ 100").await;
    site.open("/sessions?q=certificate").await;
    site.find("body").await.send_keys("js").await.unwrap();
    site.shows("tbody", "/ 100").await;
    site.open("/annotate?by=ann").await;
    site.find("body").await.send_keys("n").await.unwrap();
    let skipped = "return document.readyState === 'complete' && location.search.includes('skip=')";
    eventually(PATIENCE, "the next session to rate", || async {
        (site.run(skipped).await == true).then_some(())
    })
    .await;
    site.find("body").await.send_keys("1").await.unwrap();
    site.shows("section[role=status]", "You have rated").await;
    site.find("body").await.send_keys("?").await.unwrap();
    site.shows("h1", "Keys").await;
    site.close().await;
}
