//! From nothing to a rated score and a backlog, as a newcomer does it.

use super::*;

#[tokio::test]
async fn from_an_empty_gavel_to_a_rated_score_without_loading_a_page_again() {
    let Some(site) = Site::start(Judge::AfterASecond).await else {
        return;
    };
    site.open("/").await;
    site.shows(".banner", "Simulated judge").await;
    site.shows("h2", "Look around").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;

    // The session of that alert, by the search.
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
    site.shows("main", "Where it comes from").await;
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
    site.click("a[href^='/rescore']").await;
    site.submit("form[action='/rescore'] button").await;
    site.shows("h1", "This is what it comes to").await;
    site.submit("form[action='/rescore/go'] button").await;
    site.shows("main", "completed").await;
    site.open("/sessions?scored=yes").await;
    site.shows("tbody", "PodCrashLooping").await;
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn keys_go_where_hands_do() {
    let Some(site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    site.open("/").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;
    let body = site.find("body").await;
    body.send_keys("jj").await.unwrap();
    let second = site
        .run("return document.querySelectorAll('tr[data-open]')[1].classList.contains('current')")
        .await;
    assert_eq!(second, true);
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
    site.open("/sessions").await;
    site.find("body").await.send_keys("?").await.unwrap();
    site.shows("h1", "Keys").await;
    site.close().await;
}
