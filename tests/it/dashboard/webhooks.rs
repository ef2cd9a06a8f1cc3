//! Webhooks in the browser: create, show the secret once, resend, delete.

use super::*;

#[tokio::test]
async fn webhook_is_created_secret_shown_once_and_deliveries_resent() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let fields = [
        ("name", "ops"),
        ("url", "hooks.example.com"),
        ("events", "job.failed"),
        ("format", "standard"),
    ];
    let refused = browser.form("/webhooks", &fields).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    in_order(&refused.text, &["is not an address", "value=\"ops\""]);
    let fields = [
        fields[0],
        ("url", "https://hooks.example.com/x"),
        fields[2],
        fields[3],
    ];
    let made = browser.form("/webhooks", &fields).await;
    assert_eq!(made.status, 200, "{}", made.text);
    harmless("/webhooks", &made.text);
    assert!(made.text.contains("whsec_"), "{}", made.text);

    let job = server.queued(server.session().await).await;
    server.fail(job).await;
    let page = browser.page("/webhooks?state=pending").await;
    in_order(
        &page,
        &[
            "https://hooks.example.com/x",
            "job.failed",
            "Deliveries",
            "job.failed",
            "Send again",
        ],
    );
    assert!(!page.contains("whsec_"), "{page}");
    let webhooks = server.store().webhooks();
    let endpoint = webhooks.endpoints().await.unwrap().remove(0);
    let log = async || {
        webhooks
            .deliveries(gavel::store::DeliveryFilter::default(), None, 10)
            .await
            .unwrap()
            .items
    };
    let id = log().await[0].delivery_id;
    let sent = browser
        .form(&format!("/webhooks/deliveries/{id}/resend"), &[])
        .await;
    assert_eq!(
        (sent.status, sent.location.as_deref()),
        (303, Some("/webhooks")),
        "{}",
        sent.text
    );

    let delete = format!("/webhooks/{}/delete", endpoint.endpoint_id);
    let asked = browser.form(&delete, &[("back", "/webhooks")]).await;
    in_order(&asked.text, &["Delete this webhook?", "name=\"sure\""]);
    assert_eq!(log().await.len(), 1);
    let gone = browser.form(&delete, &[("sure", "1")]).await;
    assert_eq!(gone.status, 303, "{}", gone.text);
    assert!(log().await.is_empty() && webhooks.endpoints().await.unwrap().is_empty());
}

#[tokio::test]
async fn non_admins_see_no_webhook() {
    let server = Server::with(guarded()).await;
    let body = json!({"name": "ops", "url": "https://hooks.example.com/secret-in-a-path"});
    let made = server
        .post("/api/v1/webhooks")
        .bearer_auth("a-token-of-a-test")
        .json(&body);
    json_of(made.send().await.unwrap(), 201).await;
    let reader = server
        .get("/webhooks")
        .bearer_auth("e-token-of-a-test")
        .header("accept", "text/html");
    let text = reader.send().await.unwrap().text().await.unwrap();
    assert!(
        text.contains("scope admin") && !text.contains("secret-in-a-path"),
        "{text}"
    );
}
