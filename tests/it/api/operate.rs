use serde_json::json;

use super::*;
use crate::support::stores;

#[tokio::test]
async fn process_is_ready_degraded_or_unavailable() {
    for db in stores().await {
        let server = Server::over(db).await;
        assert_eq!(
            server.json_of("/readyz").await,
            json!({ "status": "ok", "reasons": [] })
        );
        let verbose = server.json_of("/readyz?verbose").await;
        assert!(
            verbose["checks"]
                .as_array()
                .unwrap()
                .iter()
                .all(|check| check["ok"] == true),
            "{verbose}"
        );
        assert!(verbose["version"].is_string());

        let why = "redis is away: start it".to_owned();
        let found = ("queue", why.clone());
        server.health.degraded.lock().unwrap().push(found);
        assert_eq!(
            server.json_of("/readyz").await,
            json!({ "status": "degraded", "reasons": [why] })
        );
        server.health.degraded.lock().unwrap().clear();

        server.health.draining.store(true, Ordering::Relaxed);
        let draining = json_of(server.get("/readyz").send().await.unwrap(), 503).await;
        assert_eq!(draining["status"], "unavailable");
        server.health.draining.store(false, Ordering::Relaxed);

        server.store().close().await;
        let closed = json_of(
            server.get("/readyz?verbose=true").send().await.unwrap(),
            503,
        )
        .await;
        assert_eq!(closed["checks"][0]["name"], "database");
        assert_eq!(closed["checks"][0]["ok"], false);
        assert_eq!(
            server.get("/livez").send().await.unwrap().status(),
            OK,
            "alive all the same"
        );
    }
}

#[tokio::test]
async fn database_without_migrations_is_unavailable() {
    for db in stores().await {
        let server = Server::over(db).await;
        server.store().revert(1).await.unwrap();
        let body = json_of(server.get("/readyz").send().await.unwrap(), 503).await;
        assert!(
            body["reasons"][0]
                .as_str()
                .unwrap()
                .contains("gavel migrate"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn metrics_are_plain_text() {
    let server = Server::with(Setup::default()).await;
    let response = server.get("/metrics").send().await.unwrap();
    assert!(
        header(&response, "content-type")
            .unwrap()
            .starts_with("text/plain")
    );
    let text = response.text().await.unwrap();
    assert!(text.starts_with("gavel_up 1\n"), "{text}");
    assert!(text.contains("\ngavel_cluster_up 1\n"), "{text}");
    assert!(
        text.contains("\ngavel_cluster_workers{state=\"running\"} 0\n"),
        "{text}"
    );
}

#[tokio::test]
async fn metrics_report_a_missing_database_not_old_values() {
    let server = Server::with(Setup::default()).await;
    server.store().close().await;
    let text = server.get("/metrics").send().await.unwrap();
    let text = text.text().await.unwrap();
    assert!(text.contains("\ngavel_cluster_up 0\n"), "{text}");
    assert!(!text.contains("gavel_cluster_jobs"), "{text}");
}
