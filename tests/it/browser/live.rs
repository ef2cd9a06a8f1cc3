//! Pages that stay open: one stream for all tabs, wait reasons, an unavailable judge.

use super::*;
use crate::support::client::id_of;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::process::PrivateRedis;
use crate::support::sessions::session;

#[tokio::test]
async fn ten_tabs_share_one_stream_and_all_update() {
    let Some(site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    site.open("/").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;
    for _ in 0..9 {
        site.driver.new_tab().await.unwrap();
        let tabs = site.driver.windows().await.unwrap();
        site.driver
            .switch_to_window(tabs.last().unwrap().clone())
            .await
            .unwrap();
        site.open("/sessions?q=crypto").await;
    }
    let tabs = site.driver.windows().await.unwrap();
    assert_eq!(tabs.len(), 10);
    site.click("tbody form[data-score] button").await;
    for (at, tab) in tabs.iter().enumerate() {
        site.driver.switch_to_window(tab.clone()).await.unwrap();
        site.shows("tbody", "/ 100").await;
        let live = site
            .run("return document.documentElement.dataset.stream")
            .await;
        assert_eq!(live, "live", "tab {at}");
    }
    let locks = site
        .answer("navigator.locks.query().then(l => done([l.held.length, l.pending.length]))")
        .await;
    assert_eq!(locks, json!([1, 9]), "one tab listens for all");
    site.close().await;
}

#[tokio::test]
async fn paused_or_unavailable_judge_is_shown_as_wait_reason() {
    let Some(mut site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    site.open("/").await;
    site.submit("form[action='/samples'] button").await;
    let used = site
        .api
        .get("/api/v1/sessions?q=certificate")
        .await
        .expect(200);
    let used = id_of(&used["items"][0]["session_id"]);
    site.api.ask(used).await.expect(202);
    site.api.scored(used).await;
    site.open("/queue").await;
    site.click("form[action='/judges/simulated/pause'] button")
        .await;
    site.driver.accept_alert().await.unwrap();
    site.shows("#status-bar", "simulated: paused").await;
    // A worker sees a pause with a delay; until then it would score the session.
    eventually(PATIENCE, "the worker has heard of the pause", || async {
        let judge = site.api.judge("simulated").await?;
        (judge["gates"][0]["reason"] == "paused").then_some(())
    })
    .await;
    site.open("/sessions?q=unexpected").await;
    site.click("tbody form[data-score] button").await;
    site.shows("tbody .state", "queued").await;
    site.open("/sessions?q=crypto").await;
    site.click("tbody form[data-score] button").await;
    site.shows("tbody .state", "queued").await;
    site.click("tbody th a").await;
    site.shows("#standing", "is paused").await;

    // Its jobs now call a judge that is down: two failures open the breaker.
    site.gavel.judge.kill();
    site.open("/queue").await;
    site.click("form[action='/judges/simulated/resume'] button")
        .await;
    site.shows("#status-bar", "simulated: failing").await;
    site.open("/sessions?q=crypto").await;
    site.click("tbody th a").await;
    site.shows("#standing", "failed too often in a row").await;
    site.open("/queue").await;
    site.shows("#queue", "failed too often in a row").await;
    site.shows("#queue", "failing").await;
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn banner_without_workers_shows_remedy_until_one_starts() {
    let Some(mut site) = Site::over(World::idle(Home::embedded(), Reply::Score(70))).await else {
        return;
    };
    site.hurry().await;
    site.open("/").await;
    let banner = "return document.querySelector('.banner.alarm') !== null";
    assert_eq!(site.run(banner).await, false, "there is nothing to do");
    // With its judge paused, the job causes no event that a page could receive.
    let path = format!("/api/v1/judges/{JUDGE}/pause");
    site.api.post(&path).await.expect(200);
    let (id, _) = site.api.enqueue(session()).await;
    site.shows(".banner.alarm", "gavel worker").await;
    site.open(&format!("/sessions/{id}")).await;
    site.shows("#standing", "queued").await;
    site.open("/queue").await;
    site.shows("#queue .note.alarm code", "gavel worker").await;
    site.find("html[data-stream=live]").await;
    site.run("window.gavelSame = true").await;
    site.gavel.work();
    eventually(PATIENCE, "the banner goes", || async {
        (site.run(banner).await == false).then_some(())
    })
    .await;
    assert_eq!(site.run("return window.gavelSame").await, true);
    site.close().await.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_shows_it_is_not_live_while_redis_is_unavailable() {
    let (Some(mut home), Some(mut redis)) = (Home::shared().await, PrivateRedis::start().await)
    else {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
        return;
    };
    home.set("REDIS_URL", redis.url());
    let Some(site) = Site::over(World::start(home, Reply::Score(70))).await else {
        return;
    };
    site.open("/queue").await;
    site.shows("#stream", "Live").await;
    redis.kill().await;
    site.shows("#stream", "Not live: reloads every ten seconds")
        .await;
    site.shows("#status-bar", "Redis is unavailable").await;
    // Changes in the outage are still shown.
    let (_, job) = site.api.enqueue(session()).await;
    site.api.ended(job).await;
    redis.again().await;
    eventually(PATIENCE, "it is live again", || async {
        (site.find("#stream").await.text().await.unwrap() == "Live").then_some(())
    })
    .await;
    site.open("/queue").await;
    eventually(PATIENCE, "the strip forgets it", || async {
        let strip = site.find("#status-bar").await.text().await.unwrap();
        (!strip.contains("Redis is unavailable")).then_some(())
    })
    .await;
    site.close().await.end().await;
}
