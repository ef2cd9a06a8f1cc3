//! A list that is longer than its page, and the keys for those who want none.

use super::*;
use crate::support::sessions::session;

/// One more than a page has room for.
const SESSIONS: usize = 51;

#[tokio::test]
async fn what_a_long_list_holds_is_counted_once_somebody_comes_to_its_end() {
    let Some(site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    for _ in 0..SESSIONS {
        site.api.put(session()).await;
    }
    site.open("/sessions").await;
    let words = "return document.getElementById('matching').textContent";
    assert_eq!(site.run(words).await, "all that match, more than 50");
    site.run("document.getElementById('matching').scrollIntoView()")
        .await;
    site.shows("#matching", "all 51 that match").await;
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn keys_can_be_turned_off_but_for_enter() {
    let Some(site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    site.api.put(session()).await;
    site.open("/help").await;
    site.shows("#keys-switch", "Keys are on").await;
    site.click("#keys-switch button").await;
    site.shows("#keys-switch", "Keys are off").await;
    site.open("/sessions").await;
    let chosen = "return document.querySelectorAll('tr.current').length";
    site.find("body").await.send_keys("j").await.unwrap();
    assert_eq!(site.run(chosen).await, 0);
    site.open("/help").await;
    site.shows("#keys-switch", "Keys are off").await;
    site.click("#keys-switch button").await;
    site.open("/sessions").await;
    site.find("body").await.send_keys("j").await.unwrap();
    assert_eq!(site.run(chosen).await, 1);
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}
