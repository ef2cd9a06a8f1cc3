//! Keyboard shortcuts of lists.

use super::*;
use crate::support::sessions::session;

#[tokio::test]
async fn shortcuts_can_be_disabled_except_enter() {
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
