//! Open pages during failures: data stays visible, is marked as stale, and no action happens by accident.

use super::proxy::{Proxy, Way};
use super::*;
use crate::support::client::id_of;
use crate::support::sessions::session;

const SAMPLES: usize = 7;
const ROWS: &str = "return document.querySelectorAll('tr[data-open]').length";
const OLD: &str = "return document.querySelectorAll('[data-old]').length";

async fn with_samples(judge: Judge) -> Option<Site> {
    let site = Site::start(judge).await?;
    site.open("/").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;
    Some(site)
}

async fn often(site: &Site) {
    let source =
        "const slow = window.setInterval; window.setInterval = (f, ms) => slow(f, ms / 100);";
    let command = "Page.addScriptToEvaluateOnNewDocument";
    devtools(&site.driver, command, json!({"source": source})).await;
}

async fn holds(site: &Site, what: &str, script: &str, wanted: Value) {
    eventually(PATIENCE, what, || async {
        (site.run(script).await == wanted).then_some(())
    })
    .await;
}

async fn is_live(site: &Site) {
    site.find("html[data-stream=live]").await;
}

async fn sample(site: &Site, alert: &str) -> uuid::Uuid {
    let path = format!("/api/v1/sessions?q={alert}");
    let found = site.api.get(&path).await.expect(200);
    id_of(&found["items"][0]["session_id"])
}

#[tokio::test]
async fn stale_content_stays_and_is_marked_as_old() {
    let Some(site) = with_samples(Judge::AtOnce).await else {
        return;
    };
    often(&site).await;
    let proxy = Proxy::before(site.api.base()).await;
    let session = sample(&site, "crypto").await;
    for (path, piece, words) in [
        ("/sessions".to_owned(), "#rows", "CryptoMinerDetected"),
        (format!("/sessions/{session}"), "#standing", "Not scored"),
    ] {
        for (way, why) in [
            (Way::BadGateway, "returned status 502"),
            (Way::Elsewhere, "replied instead of the server"),
            (Way::Closed, "can't be reached"),
        ] {
            proxy.turn(Way::Open);
            let url = format!("{}{path}", proxy.base());
            site.driver.goto(url).await.unwrap();
            is_live(&site).await;
            let rows = site.run(ROWS).await;
            proxy.turn(way);
            site.shows("#trouble", why).await;
            site.find("#status-bar[data-old]").await;
            site.find(&format!("{piece}[data-old]")).await;
            site.shows(piece, words).await;
            assert_eq!(site.run(ROWS).await, rows, "{path} under {way:?}");
            let text = site.run("return document.body.textContent").await;
            assert!(!text.to_string().contains("nginx"), "{text}");

            proxy.turn(Way::Open);
            let trouble = "return document.getElementById('trouble').textContent";
            holds(&site, "the trouble is over", trouble, json!("")).await;
            holds(&site, "nothing is old", OLD, json!(0)).await;
            site.shows("#said", "up to date again").await;
        }
    }
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn rejection_is_shown_next_to_its_button_and_loses_no_input() {
    let Some(site) = with_samples(Judge::AtOnce).await else {
        return;
    };
    let mut silent = session();
    silent["conversation"] = json!([]);
    silent["alert_type"] = json!("SilentAgent");
    let silent = site.api.put(silent).await;
    site.open("/sessions").await;
    let row = format!("#row-{silent}");
    site.click(&format!("{row} form[data-score] button")).await;
    let refusal = format!("{row} .refusal");
    site.shows(&refusal, "no conversation").await;
    site.shows(&row, "SilentAgent").await;
    assert_eq!(site.run(ROWS).await, json!(SAMPLES + 1));
    // A second try is rejected separately, because each problem names its request.
    let told = site.find(&refusal).await.text().await.unwrap();
    site.click(&format!("{row} form[data-score] button:not(:disabled)"))
        .await;
    eventually(PATIENCE, "the second refusal is told", || async {
        let text = site.find(&refusal).await.text().await.ok()?;
        (text.contains("no conversation") && text != told).then_some(())
    })
    .await;

    site.open(&format!("/sessions/{silent}")).await;
    site.click("#standing form[data-score] button").await;
    site.shows("#standing .refusal", "no conversation").await;
    site.shows("#standing", "Not scored").await;
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn typed_text_and_unfolded_parts_survive_refreshes() {
    let Some(site) = with_samples(Judge::AfterASecond).await else {
        return;
    };
    site.open("/sessions?scored=no&status=completed").await;
    site.click("main a[href^='/rescore']").await;
    site.submit("form[action='/rescore'] button").await;
    site.submit("form[action='/rescore/go'] button").await;
    site.click("#batch details > summary").await;
    site.find("#budget").await.send_keys("5").await.unwrap();
    let path = site.run("return location.pathname").await;
    let path = format!("/api/v1{}", path.as_str().unwrap());
    eventually(PATIENCE, "the batch is done", || async {
        let batch = site.api.get(&path).await.body;
        (batch["state"] == "completed").then_some(())
    })
    .await;
    // The status bar was refreshed since; the form wasn't.
    site.shows("#status-bar", "0 running").await;
    let typed = "return [document.activeElement.id, document.activeElement.value]";
    assert_eq!(site.run(typed).await, json!(["budget", "5"]));
    site.run("document.activeElement.blur()").await;
    site.shows("#batch .headline", "completed").await;
    let open = "return document.querySelector('#batch details').open";
    assert_eq!(site.run(open).await, true, "it stays unfolded");
    let title = site.driver.title().await.unwrap();
    assert!(!title.starts_with("INCOMPLETE"), "{title}");
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn no_event_is_lost_when_another_tab_takes_over_the_stream() {
    let Some(site) = with_samples(Judge::AtOnce).await else {
        return;
    };
    let session = sample(&site, "crypto").await;
    is_live(&site).await;
    let leads = site.driver.window().await.unwrap();
    site.driver.new_tab().await.unwrap();
    let tabs = site.driver.windows().await.unwrap();
    let follows = tabs.into_iter().find(|tab| *tab != leads).unwrap();
    site.driver.switch_to_window(follows.clone()).await.unwrap();
    site.open("/sessions").await;
    is_live(&site).await;
    // While no tab listens, a session is enqueued and scored.
    let gap = format!(
        "const Own = window.EventSource;
         const ask = (method, path) => {{ const r = new XMLHttpRequest(); r.open(method, path, false);
           r.setRequestHeader('content-type', 'application/json'); r.send(method === 'POST' ? '{{}}' : null); return r.status; }};
         window.EventSource = function (url) {{
           const path = '/api/v1/scoring/sessions/{session}/score';
           window.gavelAsked = [url, ask('POST', path)];
           while (ask('GET', path) !== 200) {{}}
           return new Own(url);
         }};"
    );
    site.run(&gap).await;
    site.driver.switch_to_window(leads).await.unwrap();
    site.driver.goto("about:blank").await.unwrap();
    site.driver.switch_to_window(follows).await.unwrap();
    site.shows(&format!("#row-{session}"), "/ 100").await;
    let asked = site.run("return window.gavelAsked").await;
    assert_eq!(asked[1], 202);
    assert!(
        asked[0].as_str().unwrap().contains("last_event_id="),
        "{asked}"
    );
    site.close().await;
}

#[tokio::test]
async fn changes_without_events_are_still_shown() {
    let Some(site) = with_samples(Judge::AtOnce).await else {
        return;
    };
    often(&site).await;
    site.open("/").await;
    is_live(&site).await;
    site.shows("#overview .figures", &SAMPLES.to_string()).await;
    site.api.put(session()).await;
    // Disables the refresh limit of the overview, which this test doesn't cover.
    site.run("document.getElementById('overview').dataset.leastMs = 0")
        .await;
    let more = (SAMPLES + 1).to_string();
    site.shows("#overview .figures", &more).await;
    site.find("html[data-stream=live]").await;
    site.close().await;
}

#[tokio::test]
async fn keys_score_only_a_selected_row_and_selection_survives() {
    let Some(site) = with_samples(Judge::AtOnce).await else {
        return;
    };
    site.open("/sessions").await;
    is_live(&site).await;
    site.find("body").await.send_keys("s").await.unwrap();
    site.shows("#said", "Choose a row").await;
    let jobs = site.api.get("/api/v1/jobs").await.expect(200);
    assert_eq!(jobs["items"], json!([]), "nothing was asked for");

    // First ended session without a score: after scoring and refresh it must still be selected and focused.
    let second = "return document.querySelectorAll('tr[data-open]')[1].id";
    let second = site.run(second).await;
    site.find("body").await.send_keys("jj").await.unwrap();
    site.driver
        .active_element()
        .await
        .unwrap()
        .send_keys("s")
        .await
        .unwrap();
    site.shows("tr.current", "/ 100").await;
    site.shows("#said", "/ 100").await;
    let chosen =
        "return [document.querySelector('tr.current').id, document.activeElement.closest('tr').id]";
    assert_eq!(site.run(chosen).await, json!([second, second]));
    site.driver
        .active_element()
        .await
        .unwrap()
        .send_keys("j")
        .await
        .unwrap();
    let third = "return [...document.querySelectorAll('tr[data-open]')].findIndex(r => r.classList.contains('current'))";
    assert_eq!(site.run(third).await, 2);

    // The actions column is visible.
    let seen = "const b = document.querySelector('.actions-cell button').getBoundingClientRect(); \
        return b.right <= window.innerWidth && document.elementFromPoint(b.right - 2, b.top + 5).tagName === 'BUTTON'";
    assert_eq!(site.run(seen).await, true);
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn shown_score_follows_the_badge_unless_a_rating_is_open() {
    let Some(site) = with_samples(Judge::AtOnce).await else {
        return;
    };
    let session = sample(&site, "crypto").await;
    site.open(&format!("/sessions/{session}/score")).await;
    is_live(&site).await;
    site.shows("#scored", "Not scored yet").await;
    site.api.ask(session).await.expect(202);
    site.shows("#scored", "Origin").await;
    let shown = "return [document.querySelector('#standing .badge').getAttribute('href'), document.querySelector('#scored .badge').getAttribute('href')]";
    let first = site.run(shown).await;
    assert_eq!(first[0], first[1]);
    let title = site.driver.title().await.unwrap();
    assert!(
        title.chars().next().is_some_and(|c| c.is_ascii_digit()),
        "{title}"
    );

    let comment = site.find("#own-comment").await;
    comment.send_keys("too kind").await.unwrap();
    site.run("document.activeElement.blur()").await;
    site.api.force(session).await.expect(202);
    site.shows("#scored .news", "newer score").await;
    let both = eventually(PATIENCE, "the badge is of the new one", || async {
        let both = site.run(shown).await;
        (both[0] != first[0]).then_some(both)
    })
    .await;
    assert_eq!(both[1], first[1], "what is written about is still there");
    comment.clear().await.unwrap();
    site.run("document.activeElement.blur()").await;
    eventually(PATIENCE, "the new score is shown", || async {
        let shown = site.run(shown).await;
        (shown[0] == shown[1]).then_some(())
    })
    .await;
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await;
}
