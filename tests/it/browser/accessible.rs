//! Every page, in light and dark, as axe-core sees it.

use super::*;
use crate::support::client::id_of;

#[tokio::test]
async fn no_page_keeps_anybody_out_in_light_or_dark() {
    let Some(site) = Site::start(Judge::AtOnce).await else {
        return;
    };
    site.open("/").await;
    let mut faults = look(&site, "/ with nothing").await;
    site.submit("form[action='/samples'] button").await;
    site.shows("tbody", "CryptoMinerDetected").await;
    let sessions = site.api.get("/api/v1/sessions?q=crypto").await.expect(200);
    let id = id_of(&sessions["items"][0]["session_id"]);
    site.api.ask(id).await.expect(202);
    let score = id_of(&site.api.scored(id).await["score_id"]);
    let criteria = site.api.get("/api/v1/scoring/criteria").await.expect(200);
    let hash = criteria["items"][0]["criteria_hash"]
        .as_str()
        .unwrap()
        .to_owned();
    let suite = json!({"kind": "query", "name": "suite", "items": [
        {"id": "same", "prompt": "How many?", "generated_kql": "T | count", "expected_kql": "T | count"},
        {"id": "other", "prompt": "Which?", "generated_kql": "T | take 5", "expected_kql": "T | where a == 1 | take 5"}]});
    let batch = site
        .api
        .send("POST", "/api/v1/batches", Some(suite), &[])
        .await;
    let batch = id_of(&batch.expect(202)["batch_id"]);
    for scheme in ["light", "dark"] {
        let wanted = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        devtools(&site.driver, "Emulation.setEmulatedMedia", wanted).await;
        for path in [
            "/".to_owned(),
            "/sessions".to_owned(),
            "/sessions?tag=nobody".to_owned(),
            format!("/sessions/{id}"),
            format!("/sessions/{id}/technical"),
            format!("/sessions/{id}/score"),
            format!("/sessions/{id}/history"),
            format!("/scores/{score}"),
            format!("/scores/{score}/calls"),
            "/batches".to_owned(),
            format!("/batches/{batch}"),
            format!("/batches/{batch}/items/1"),
            "/compare".to_owned(),
            format!("/compare?a={batch}&b={batch}"),
            "/insights".to_owned(),
            "/criteria".to_owned(),
            format!("/criteria/{hash}"),
            "/rescore?tag=a".to_owned(),
            "/queue".to_owned(),
            "/system".to_owned(),
            "/help".to_owned(),
            "/sign-in".to_owned(),
            "/nowhere".to_owned(),
        ] {
            site.open(&path).await;
            faults.extend(look(&site, &format!("{path} {scheme}")).await);
            let complaints = site.complaints().await;
            faults.extend(
                complaints
                    .into_iter()
                    .map(|fault| format!("{path}: {fault}")),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    site.close().await;
}

/// What axe finds on the page that is open.
async fn look(site: &Site, name: &str) -> Vec<String> {
    site.driver.execute(AXE, Vec::new()).await.unwrap();
    let script = "axe.run({resultTypes: ['violations']}).then(\
        r => done(r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.target.join(' ') + ' ' + (n.any[0] ? n.any[0].message : '')))), \
        e => done(['axe: ' + e]))";
    let found: Vec<String> = serde_json::from_value(site.answer(script).await).unwrap();
    found
        .into_iter()
        .map(|fault| format!("{name}: {fault}"))
        .collect()
}
