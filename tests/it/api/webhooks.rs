//! Webhook API: create, list, delete, log and resend. No worker sends deliveries.

use super::auth::guarded;
use super::*;
use crate::support::stores;

const PATH: &str = "/api/v1/webhooks";

async fn made(server: &Server, body: Value) -> Response {
    server.post(PATH).json(&body).send().await.unwrap()
}

/// Resends an ended delivery: it restarts as new under the same id.
async fn is_sent_again(server: &Server, id: Uuid) {
    let now = chrono::Utc::now();
    let given_up = gavel::store::DeliveryTry {
        state: gavel::wire::DeliveryState::Failed,
        status: Some(410),
        error: Some("it answered 410 Gone".to_owned()),
        at: now,
        due_at: now,
    };
    server
        .store()
        .webhooks()
        .tried(id, &given_up)
        .await
        .unwrap();
    let path = format!("{PATH}/deliveries/{id}");
    let ended = server.json_of(&path).await;
    assert_eq!(
        (&ended["state"], &ended["status"], &ended["attempts"]),
        (&json!("failed"), &json!(410), &json!(1))
    );
    assert!(
        ended["next_attempt_at"].is_null() && !ended["ended_at"].is_null(),
        "{ended:#}"
    );
    let again = server.posted(&format!("{path}/resend"), 202).await;
    assert_eq!(
        (&again["state"], &again["attempts"], &again["delivery_id"]),
        (&json!("pending"), &json!(0), &json!(id))
    );
}

#[tokio::test]
async fn webhook_is_created_shown_without_secret_deleted_with_its_log() {
    for db in stores().await {
        let server = Server::over(db).await;
        let created = json_of(
            made(
                &server,
                json!({"name": "ops", "url": "https://hooks.example.com/x"}),
            )
            .await,
            201,
        )
        .await;
        let secret = created["secret"].as_str().unwrap();
        standardwebhooks::Webhook::new(secret).unwrap();
        assert_eq!(
            created["events"].as_array().unwrap().len(),
            8,
            "all, where none is named"
        );
        let other = json_of(made(&server, json!({"name": "chat", "url": "http://chat", "events": ["job.failed"], "format": "slack"})).await, 201).await;
        assert_ne!(other["secret"], created["secret"]);
        let again = made(&server, json!({"name": "ops", "url": "https://other"})).await;
        assert_eq!(
            problem_of(again, 422, "invalid-request").await["errors"][0]["pointer"],
            "/name"
        );

        let listed = server.get(PATH).send().await.unwrap().text().await.unwrap();
        assert!(
            !listed.contains("whsec_") && listed.contains("hooks.example.com"),
            "{listed}"
        );

        let (_, job) = server.queued_session().await;
        server.succeed(job, 80).await;
        let job = server.queued(server.session().await).await;
        server.fail(job).await;
        let log = server.json_of(&format!("{PATH}/deliveries?limit=2")).await;
        let to = |log: &Value| -> Vec<(String, String)> {
            let items = log["items"].as_array().unwrap();
            let one = |item: &Value| {
                (
                    item["event"].as_str().unwrap().to_owned(),
                    item["webhook"].as_str().unwrap().to_owned(),
                )
            };
            items.iter().map(one).collect()
        };
        let mut first = to(&log);
        first.sort();
        assert_eq!(
            first,
            [("job.failed", "chat"), ("job.failed", "ops")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        let next = format!(
            "{PATH}/deliveries?cursor={}",
            log["next_cursor"].as_str().unwrap()
        );
        let rest = server.json_of(&next).await;
        assert_eq!(to(&rest), [("job.succeeded".to_owned(), "ops".to_owned())]);
        let delivery = &rest["items"][0];
        assert_eq!(
            (&delivery["state"], &delivery["data"]["total_score"]),
            (&json!("pending"), &json!(80)),
            "{delivery:#}"
        );

        let id: Uuid = delivery["delivery_id"].as_str().unwrap().parse().unwrap();
        is_sent_again(&server, id).await;
        let path = format!("{PATH}/deliveries/{id}");

        let delete = format!("{PATH}/{}/delete", created["webhook_id"].as_str().unwrap());
        server.posted(&delete, 200).await;
        for request in [
            server.post(&delete),
            server.get(&path),
            server.post(&format!("{path}/resend")),
        ] {
            let answer = request.send().await.unwrap();
            problem_of(answer, 404, "webhook-not-found").await;
        }
        // Deliveries of a deleted webhook are pruned at once, others by age.
        let pruned = server.store().retention().prune(chrono::Utc::now()).await;
        assert_eq!(pruned.unwrap(), 2);
        let other_id = to(&server.json_of(&format!("{PATH}/deliveries")).await);
        assert_eq!(other_id.len(), 1);
    }
}

#[tokio::test]
async fn settings_replace_webhooks_and_are_removed_only_by_delete() {
    for db in stores().await {
        let server = Server::over(db).await;
        json_of(
            made(&server, json!({"name": "ops", "url": "https://made"})).await,
            201,
        )
        .await;
        json_of(
            made(&server, json!({"name": "mine", "url": "https://mine"})).await,
            201,
        )
        .await;
        let keep = async |endpoints: Value| {
            let endpoints: Vec<gavel::wire::NewWebhook> =
                serde_json::from_value(endpoints).unwrap();
            server
                .store()
                .webhooks()
                .keep_settings(&endpoints, chrono::Utc::now())
                .await
                .unwrap();
            let listed = json_of(server.get(PATH).send().await.unwrap(), 200).await;
            let items = listed["items"].as_array().unwrap().clone();
            items
                .iter()
                .map(|item| {
                    (
                        item["name"].as_str().unwrap().to_owned(),
                        item["url"].as_str().unwrap().to_owned(),
                        item["from_settings"] == true,
                    )
                })
                .collect::<Vec<_>>()
        };
        let row = |name: &str, url: &str, from_settings: bool| {
            (name.to_owned(), url.to_owned(), from_settings)
        };
        let two =
            json!([{"name": "ops", "url": "https://a"}, {"name": "chat", "url": "https://b"}]);
        assert_eq!(
            keep(two).await,
            [
                row("chat", "https://b", true),
                row("mine", "https://mine", false),
                row("ops", "https://a", true)
            ]
        );
        let listed = json_of(server.get(PATH).send().await.unwrap(), 200).await;
        let id = listed["items"][0]["webhook_id"].as_str().unwrap();
        // A worker with other settings, or without any, deletes no webhook.
        let rest = [
            row("chat", "https://b", true),
            row("mine", "https://mine", false),
            row("ops", "https://c", true),
        ];
        let one = json!([{"name": "ops", "url": "https://c"}]);
        assert_eq!(keep(one).await, rest);
        assert_eq!(keep(json!([])).await, rest);
        let deleted = server.post(&format!("{PATH}/{id}/delete")).send().await;
        json_of(deleted.unwrap(), 200).await;
        assert_eq!(keep(json!([])).await, rest[1..]);
    }
}

#[tokio::test]
async fn invalid_webhook_is_rejected_by_field() {
    let server = Server::with(Setup::default()).await;
    let good = json!({"name": "ops", "url": "https://hooks.example.com"});
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("a\nb")),
        ("name", json!("x".repeat(81))),
        ("url", json!("hooks.example.com")),
        ("url", json!("ftp://hooks.example.com")),
        ("url", json!("https://user:pass@hooks.example.com")),
        ("secret", json!("whsec_c2hvcnQ=")),
        ("secret", json!("secret")),
        ("events", json!([])),
        ("events", json!(["job.queued"])),
        ("format", json!("teams")),
        ("color", json!("red")),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let problem = problem_of(made(&server, body.clone()).await, 422, "invalid-request").await;
        let pointer = problem["errors"][0]["pointer"].as_str().unwrap();
        assert!(
            pointer.starts_with(&format!("/{field}")) || pointer.is_empty(),
            "{body}: {problem:#}"
        );
        assert!(!problem.to_string().contains("c2hvcnQ"), "{problem}");
    }
}

#[tokio::test]
async fn readers_see_no_webhook() {
    let server = Server::with(guarded()).await;
    for path in [
        PATH.to_owned(),
        format!("{PATH}/deliveries"),
        format!("{PATH}/deliveries/{}", Uuid::nil()),
    ] {
        for token in ["r-token-of-a-test", "e-token-of-a-test"] {
            problem_of(
                server.get(&path).bearer_auth(token).send().await.unwrap(),
                403,
                "forbidden",
            )
            .await;
        }
    }
    json_of(
        server
            .get(PATH)
            .bearer_auth("a-token-of-a-test")
            .send()
            .await
            .unwrap(),
        200,
    )
    .await;
}
