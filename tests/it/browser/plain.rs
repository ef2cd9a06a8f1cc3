//! The same paths in a browser without scripts: every page opens, every form works, live pages reload themselves.

use super::suites::{WHOLE, WRONG};
use super::*;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;

async fn without_scripts(say: Reply) -> Option<Site<World>> {
    let programs = Programs::find()?;
    let world = World::start(Home::embedded(), say).await;
    let dir = tempfile::tempdir().unwrap();
    let api = world.api.clone();
    Some(programs.open_site(api, world, dir, Scripts::Off).await)
}

#[tokio::test]
async fn session_is_scored_watched_and_rated_without_scripts() {
    let Some(site) = without_scripts(Reply::held(72)).await else {
        return;
    };
    site.open("/").await;
    site.submit("form[action='/samples'] button").await;
    assert_eq!(site.path().await, "/sessions");
    let loaded = site.run("return document.documentElement.dataset.stream || null");
    assert_eq!(loaded.await, Value::Null, "no script of the page ran");
    site.find("#q").await.send_keys("crypto").await.unwrap();
    site.submit("form[role=search] button").await;
    site.submit("tbody th a").await;
    site.submit("#standing form button").await;
    site.shows("#standing", "scoring").await;
    site.gavel.judge.release();
    // The page must reload itself.
    site.shows("#standing .badge", "adequate").await;
    site.submit("#standing .badge").await;
    site.find("#own-total").await.send_keys("40").await.unwrap();
    site.submit("form[action$='/rate'] button").await;
    site.shows("#people", "40 / 100 failed").await;
    site.open("/sessions?scored=no").await;
    site.submit("main a[href^='/rescore']").await;
    site.submit("form[action='/rescore'] button").await;
    site.submit("form[action='/rescore/go'] button").await;
    site.shows("main", "completed").await;
    site.close().await.end().await;
}

#[tokio::test]
async fn suites_pauses_and_pages_work_without_scripts() {
    let Some(site) = without_scripts(Reply::Refusal).await else {
        return;
    };
    site.gavel.judge.rule(super::suites::judge);
    site.open("/batches/upload").await;
    site.upload("wrong.csv", &WRONG).await;
    site.shows("[role=alert]", "No item was queued").await;
    site.upload("right.csv", WHOLE).await;
    site.shows(".headline", "3 of 4").await;
    let batch = site.path().await;
    site.submit("form[action$='/pause'] button").await;
    site.shows(".headline", "paused").await;
    site.submit("form[action$='/resume'] button").await;
    site.gavel.judge.release();
    site.shows(".headline", "4 of 4").await;
    site.submit("a[href$='/retry-errors']").await;
    site.submit("form[action$='/retry-errors'] button").await;
    assert_eq!(site.path().await, batch);

    site.open("/queue").await;
    let pause = format!("form[action='/judges/{JUDGE}/pause'] button");
    site.submit(&pause).await;
    // Without scripts the server shows the confirmation.
    site.shows("h1", &format!("Pause {JUDGE}?")).await;
    site.submit(&pause).await;
    site.shows("#status-bar", "judge: paused").await;
    site.submit(&format!("form[action='/judges/{JUDGE}/resume'] button"))
        .await;
    site.find(&format!("form[action='/judges/{JUDGE}/pause']"))
        .await;
    for (path, words) in [
        ("/", "Last batches"),
        ("/sessions", "No sessions yet"),
        ("/batches", "4 of 4"),
        (&batch, "Success"),
        (&format!("{batch}/items/1"), "Generated against expected"),
        (&format!("{batch}/retry-errors"), "Batches"),
        ("/compare", "Two batches"),
        ("/insights", "Agreement with ratings"),
        ("/criteria", "current"),
        ("/rescore", "Show the plan"),
        ("/system", "database"),
        ("/help", "Keys"),
        ("/nowhere", "Page not found"),
    ] {
        site.open(path).await;
        site.shows("main", words).await;
    }
    site.close().await.end().await;
}
