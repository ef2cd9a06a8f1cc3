//! Behaviour of all responses: request ids, problems, compression, caching and panics.

use super::*;

#[tokio::test]
async fn valid_request_id_is_echoed_and_invalid_one_replaced() {
    let server = Server::with(Setup::default()).await;
    let get = |id: &str| server.get("/api/v1/jobs").header("x-request-id", id).send();
    assert_eq!(
        header(&get("abc-1").await.unwrap(), "x-request-id").as_deref(),
        Some("abc-1")
    );
    for bad in ["a b", &"x".repeat(129), ""] {
        let made = header(&get(bad).await.unwrap(), "x-request-id").unwrap();
        assert_eq!(made.len(), 36, "{made}");
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems() {
    let server = Server::with(Setup::default()).await;
    problem_of(
        server.get("/nowhere").send().await.unwrap(),
        404,
        "not-found",
    )
    .await;
    let deleted = server
        .request(Method::DELETE, "/api/v1/jobs")
        .send()
        .await
        .unwrap();
    assert!(header(&deleted, "allow").unwrap().contains("GET"));
    problem_of(deleted, 405, "method-not-allowed").await;
    let budget = format!("/api/v1/batches/{}/budget", Uuid::now_v7());
    let read = server.get(&budget).send().await.unwrap();
    assert_eq!(header(&read, "allow").as_deref(), Some("POST"));
    problem_of(read, 405, "method-not-allowed").await;
    let undecodable = server.get("/api/v1/jobs/%ff").send().await.unwrap();
    problem_of(undecodable, 404, "not-found").await;
    let nul = server
        .get("/api/v1/scoring/criteria/%00")
        .send()
        .await
        .unwrap();
    problem_of(nul, 404, "not-found").await;
}

#[tokio::test]
async fn panic_is_500_without_its_message() {
    let setup = Setup {
        judges: Arc::new(|| panic!("the secret of the panic")),
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let body = problem_of(
        server.get("/api/v1/judges").send().await.unwrap(),
        500,
        "internal",
    )
    .await;
    assert!(!body.to_string().contains("secret"), "{body}");
    assert_eq!(
        server.get("/api/v1/jobs").send().await.unwrap().status(),
        OK
    );
}

#[tokio::test]
async fn responses_are_no_store_and_compressed_on_request() {
    let server = Server::with(Setup::default()).await;
    let response = server.get("/api/v1/jobs").send().await.unwrap();
    assert_eq!(
        header(&response, "cache-control").as_deref(),
        Some("no-store")
    );
    assert_eq!(
        header(&response, "x-content-type-options").as_deref(),
        Some("nosniff")
    );
    let plain = reqwest::Client::builder()
        .no_proxy()
        .gzip(false)
        .build()
        .unwrap();
    let document = format!("{}/openapi.json", server.base);
    let gzip = plain
        .get(&document)
        .header("accept-encoding", "gzip")
        .send()
        .await
        .unwrap();
    assert_eq!(header(&gzip, "content-encoding").as_deref(), Some("gzip"));
    let identity = plain.get(&document).send().await.unwrap();
    assert_eq!(header(&identity, "content-encoding"), None);
    assert!(gzip.bytes().await.unwrap().len() * 3 < identity.bytes().await.unwrap().len());
}

#[tokio::test]
async fn headers_above_16_kib_are_431() {
    let server = Server::with(Setup::default()).await;
    let response = server
        .get("/api/v1/jobs")
        .header("x-long", "x".repeat(17 << 10))
        .send()
        .await
        .unwrap();
    problem_of(response, 431, "headers-too-large").await;
}
