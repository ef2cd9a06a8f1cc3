//! `Idempotency-Key`: a repeated POST has one effect, also after crashes and disconnects.

use gavel::store::{KeyReservation, KeyUse, Reserved};
use sqlx::Connection as _;

use super::*;
use crate::support::{self, stores};

async fn ask(server: &Server, session: Uuid, key: &str, body: Value) -> Response {
    let asked = server.post(&score_path(session)).json(&body);
    asked.header("Idempotency-Key", key).send().await.unwrap()
}

async fn jobs(server: &Server) -> usize {
    let body = server.json_of("/api/v1/jobs?limit=100").await;
    body["items"].as_array().unwrap().len()
}

fn replayed(response: &Response) -> bool {
    header(response, "idempotency-replayed").as_deref() == Some("true")
}

#[tokio::test]
async fn repeat_gets_the_first_response_with_headers_and_a_mark() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let first = ask(&server, session, "k1", json!({"force_rescore": true})).await;
        assert!(!replayed(&first));
        let kept = ["location", "retry-after", "content-type"].map(|name| header(&first, name));
        let first = json_of(first, 202).await;
        server.succeed(job_id(&first), 70).await;

        let again = ask(&server, session, "k1", json!({"force_rescore": true})).await;
        assert!(replayed(&again));
        let headers = ["location", "retry-after", "content-type"].map(|name| header(&again, name));
        assert_eq!(headers, kept);
        assert_eq!(json_of(again, 202).await, first);
        let quoted = ask(&server, session, "\"k1\"", json!({"force_rescore": true})).await;
        assert!(replayed(&quoted), "quotes are not part of a key");
        assert_eq!(jobs(&server).await, 1);

        let other = ask(&server, session, "k2", json!({"force_rescore": true})).await;
        assert!(!replayed(&other));
        assert_ne!(json_of(other, 202).await["job_id"], first["job_id"]);
    }
}

#[tokio::test]
async fn key_with_other_body_or_query_is_rejected_but_not_other_path() {
    let server = Server::with(Setup::default()).await;
    let [one, two] = [server.session().await, server.session().await];
    json_of(ask(&server, one, "k", json!({})).await, 202).await;
    let reused = ask(&server, one, "k", json!({"force_rescore": true})).await;
    let problem = problem_of(reused, 422, "idempotency-key-reused").await;
    assert!(problem["detail"].as_str().unwrap().contains("new key"));
    let query = server.post(&format!("{}?a=1", score_path(one)));
    let query = query.header("Idempotency-Key", "k").json(&json!({}));
    problem_of(query.send().await.unwrap(), 422, "idempotency-key-reused").await;
    let other = ask(&server, two, "k", json!({})).await;
    assert!(!replayed(&other));
    json_of(other, 202).await;
}

#[tokio::test]
async fn twenty_concurrent_equal_requests_create_one_job() {
    for db in stores().await {
        let server = Arc::new(Server::over(db).await);
        let session = server.session().await;
        let mut asking = JoinSet::new();
        for _ in 0..20 {
            let server = server.clone();
            asking.spawn(async move {
                ask(&server, session, "same", json!({"force_rescore": true})).await
            });
        }
        let mut accepted = std::collections::BTreeSet::new();
        while let Some(answer) = asking.join_next().await {
            let answer = answer.unwrap();
            if answer.status() == 409 {
                assert!(header(&answer, "retry-after").is_some());
                problem_of(answer, 409, "idempotency-key-in-use").await;
            } else {
                accepted.insert(json_of(answer, 202).await["job_id"].to_string());
            }
        }
        assert_eq!(accepted.len(), 1);
        assert_eq!(jobs(&server).await, 1);
    }
}

#[tokio::test]
async fn rejected_request_frees_the_key() {
    let server = Server::with(Setup::default()).await;
    let session = server
        .session_with(json!({"status": "in_progress", "completed_at": null}))
        .await;
    let early = ask(&server, session, "k", json!({})).await;
    problem_of(early, 400, "session-not-completed").await;
    let put = server
        .request(Method::PUT, &format!("/api/v1/sessions/{session}"))
        .json(&session_body());
    json_of(put.send().await.unwrap(), 200).await;
    let later = ask(&server, session, "k", json!({"force_rescore": true})).await;
    assert!(!replayed(&later), "another body, and the key is as new");
    json_of(later, 202).await;
}

#[tokio::test]
async fn every_post_of_the_document_accepts_a_key() {
    let server = Server::with(Setup::default()).await;
    let (session, job) = server.queued_session().await;
    let (_, score) = server.scored(50).await;
    let import = server.post("/api/v1/sessions/import").send().await.unwrap();
    let import = json_of(import, 202).await;
    let webhook = json!({"name": "one", "url": "https://hooks.example.com"});
    let webhook = server.post("/api/v1/webhooks").json(&webhook).send().await;
    let webhook = json_of(webhook.unwrap(), 201).await;
    // Creates a delivery that can be sent again.
    server.scored(50).await;
    let told = server.get("/api/v1/webhooks/deliveries").send().await;
    let told = json_of(told.unwrap(), 200).await;
    let document: Value = serde_json::from_str(&gavel::api::openapi_json()).unwrap();
    let mut posts = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(operation) = item.get("post") else {
            continue;
        };
        // One target per path, so that requests don't affect each other.
        let batch = server.batch(1).await;
        let asked = path
            .replace("{session_id}", &session.to_string())
            .replace("{job_id}", &job.to_string())
            .replace("{score_id}", &score.to_string())
            .replace("{batch_id}", batch["batch_id"].as_str().unwrap())
            .replace("{import_id}", import["import_id"].as_str().unwrap())
            .replace("{webhook_id}", webhook["webhook_id"].as_str().unwrap())
            .replace(
                "{delivery_id}",
                told["items"][0]["delivery_id"].as_str().unwrap(),
            )
            .replace("{criteria_hash}", "current")
            .replace("{name}", "judge-a");
        if path.ends_with("/retry") {
            // Already cancelled: no effect, so no response is stored.
            continue;
        }
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        let send = async || {
            // No worker runs: requests that would wait return their job.
            let mut post = server
                .post(&asked)
                .header("Idempotency-Key", "every")
                .header("Prefer", "respond-async");
            if example.is_object() {
                post = post.json(example);
            }
            post.send().await.unwrap()
        };
        let first = send().await;
        assert!(
            first.status().is_success() && !replayed(&first),
            "{asked}: {first:?}"
        );
        let again = send().await;
        assert_eq!(again.status(), first.status(), "{asked}");
        assert!(replayed(&again), "{asked}");
        assert_eq!(
            again.text().await.unwrap(),
            first.text().await.unwrap(),
            "{asked}"
        );
        posts += 1;
    }
    assert!(posts >= 7, "{posts}");
}

#[tokio::test]
async fn invalid_key_names_the_header_and_the_limit() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let scoring = ask(&server, session, &"k".repeat(256), json!({})).await;
    let problem = problem_of(scoring, 422, "invalid-request").await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("Idempotency-Key") && detail.contains("255"),
        "{detail}"
    );
    let elsewhere = server
        .post("/api/v1/queue/pause")
        .header("Idempotency-Key", "");
    problem_of(elsewhere.send().await.unwrap(), 422, "invalid-request").await;
    assert_eq!(jobs(&server).await, 0);
}

#[tokio::test]
async fn get_and_put_ignore_the_key_header() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let read = server.get(&format!("/api/v1/sessions/{session}"));
    let read = read.header("Idempotency-Key", "").send().await.unwrap();
    assert_eq!(read.status(), OK);
    let put = server.request(Method::PUT, &format!("/api/v1/sessions/{session}"));
    let put = put.header("Idempotency-Key", "").json(&session_body());
    assert_eq!(put.send().await.unwrap().status(), OK);
}

#[tokio::test]
async fn keys_are_separate_per_token_and_user() {
    let mut setup = Setup::default();
    setup.auth.tokens = ["a:enqueue:token-a-of-a-test", "b:enqueue:token-b-of-a-test"]
        .map(|token| token.to_owned().into())
        .to_vec();
    setup.auth.proxy.groups = vec!["eng:enqueue".to_owned()];
    let server = Server::with(setup).await;
    let id = Uuid::now_v7();
    let put = server.request(Method::PUT, &format!("/api/v1/sessions/{id}"));
    let put = put.bearer_auth("token-a-of-a-test").json(&session_body());
    json_of(put.send().await.unwrap(), 201).await;
    for (name, value, again) in [
        ("authorization", "Bearer token-a-of-a-test", false),
        ("authorization", "Bearer token-b-of-a-test", false),
        ("x-forwarded-user", "a", false),
        ("authorization", "Bearer token-a-of-a-test", true),
        ("x-forwarded-user", "a", true),
    ] {
        let ask = server.post(&score_path(id)).header(name, value);
        let ask = ask.header("x-forwarded-groups", "eng");
        let answer = ask.header("Idempotency-Key", "k").send().await.unwrap();
        assert_eq!(replayed(&answer), again, "{value}");
    }
}

fn reservation_request(key: &str, request: &str, at: chrono::DateTime<chrono::Utc>) -> KeyUse {
    KeyUse {
        key_hash: key.to_owned(),
        request_hash: request.to_owned(),
        holder: Uuid::now_v7(),
        effect_id: Uuid::now_v7(),
        now: at,
        locked_until: at + chrono::TimeDelta::seconds(30),
        expires_at: at + chrono::TimeDelta::hours(24),
    }
}

#[tokio::test]
async fn keys_of_a_stopped_process_are_released_at_once() {
    for db in stores().await {
        let store = &db.store;
        let now = SystemClock.now();
        let first = reservation_request("k", "r", now);
        store.idempotency_keys().reserve(&first).await.unwrap();
        let again = reservation_request("k", "r", now + chrono::TimeDelta::milliseconds(1));
        assert_eq!(
            store.idempotency_keys().reserve(&again).await.unwrap(),
            Reserved::InUse
        );
        store.idempotency_keys().release_all().await.unwrap();
        let Reserved::Mine(KeyReservation {
            effect_id,
            repeated: true,
            ..
        }) = store.idempotency_keys().reserve(&again).await.unwrap()
        else {
            panic!("the same request may go on");
        };
        assert_eq!(effect_id, first.effect_id);
    }
}

#[tokio::test]
async fn key_of_a_dead_holder_resumes_under_the_first_request_id() {
    for db in stores().await {
        let store = &db.store;
        let now = SystemClock.now();
        let first = reservation_request("k", "r", now);
        let Reserved::Mine(KeyReservation {
            effect_id,
            repeated: false,
            ..
        }) = store.idempotency_keys().reserve(&first).await.unwrap()
        else {
            panic!("a new key");
        };
        assert_eq!(effect_id, first.effect_id);
        let soon = reservation_request("k", "r", now + chrono::TimeDelta::seconds(29));
        assert_eq!(
            store.idempotency_keys().reserve(&soon).await.unwrap(),
            Reserved::InUse
        );
        let late = now + chrono::TimeDelta::seconds(31);
        let other = reservation_request("k", "other", late);
        assert_eq!(
            store.idempotency_keys().reserve(&other).await.unwrap(),
            Reserved::OtherRequest
        );
        let taken = store
            .idempotency_keys()
            .reserve(&reservation_request("k", "r", late))
            .await
            .unwrap();
        let Reserved::Mine(KeyReservation {
            effect_id,
            repeated: true,
            ..
        }) = taken
        else {
            panic!("{taken:?}");
        };
        assert_eq!(effect_id, first.effect_id);
        // A late request of the dead holder changes no key.
        store
            .idempotency_keys()
            .free("k", first.holder)
            .await
            .unwrap();
        let soon = reservation_request("k", "r", late + chrono::TimeDelta::seconds(1));
        assert_eq!(
            store.idempotency_keys().reserve(&soon).await.unwrap(),
            Reserved::InUse
        );
        let next_day = reservation_request("k", "other", now + chrono::TimeDelta::hours(24));
        let taken = store.idempotency_keys().reserve(&next_day).await.unwrap();
        assert!(
            matches!(
                taken,
                Reserved::Mine(KeyReservation {
                    repeated: false,
                    ..
                })
            ),
            "{taken:?}"
        );
    }
}

#[tokio::test]
async fn keys_older_than_a_day_are_pruned() {
    for db in stores().await {
        let now = SystemClock.now();
        db.store
            .idempotency_keys()
            .reserve(&reservation_request(
                "old",
                "r",
                now - chrono::TimeDelta::hours(25),
            ))
            .await
            .unwrap();
        db.store
            .idempotency_keys()
            .reserve(&reservation_request("new", "r", now))
            .await
            .unwrap();
        assert_eq!(db.store.retention().prune(now).await.unwrap(), 1);
        let again = db
            .store
            .idempotency_keys()
            .reserve(&reservation_request("new", "r", now))
            .await
            .unwrap();
        assert_eq!(again, Reserved::InUse);
    }
}

/// Resets a key to the state left by a process that dies after the effect.
async fn reset_key_response(db: &TestStore) {
    let died = "update idempotency_keys set status = null, headers = null, body = null, \
                locked_until = created_at";
    support::execute(&db.url, died).await.unwrap();
}

#[tokio::test]
async fn crash_between_job_and_response_leads_to_the_same_job() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let body = json!({"force_rescore": true});
        let first = json_of(ask(&server, session, "k", body.clone()).await, 202).await;
        reset_key_response(&server.db).await;
        let again = json_of(ask(&server, session, "k", body.clone()).await, 202).await;
        assert_eq!(again["job_id"], first["job_id"]);
        server.succeed(job_id(&first), 70).await;
        reset_key_response(&server.db).await;
        let late = json_of(ask(&server, session, "k", body.clone()).await, 202).await;
        assert_eq!(
            (&late["job_id"], &late["state"]),
            (&first["job_id"], &json!("succeeded"))
        );
        assert_eq!(jobs(&server).await, 1);
    }
}

#[tokio::test]
async fn failed_job_of_a_key_is_not_created_again() {
    for (spoil, status, slug) in [
        (Spoil::Fail, 502, "judge-failed"),
        (Spoil::Cancel, 409, "job-cancelled"),
    ] {
        let server = Arc::new(Server::with(Setup::default()).await);
        let session = server.session().await;
        let waiting = tokio::spawn({
            let server = server.clone();
            async move { wait_with_key(&server, session).await }
        });
        let job = support::wait::eventually(Duration::from_secs(10), "the job", async || {
            let listed = server.json_of("/api/v1/jobs").await;
            listed["items"].get(0).map(job_id)
        })
        .await;
        match spoil {
            Spoil::Fail => server.fail(job).await,
            Spoil::Cancel => {
                let cancel = server.post(&format!("/api/v1/jobs/{job}/cancel"));
                json_of(cancel.send().await.unwrap(), 200).await;
            }
        }
        problem_of(waiting.await.unwrap(), status, slug).await;

        let again = wait_with_key(&server, session).await;
        let problem = problem_of(again, status, slug).await;
        assert_eq!(problem["job"]["job_id"], job.to_string());
        assert_eq!(
            jobs(&server).await,
            1,
            "a client that tries again pays once"
        );
        let other = ask(&server, session, "k", json!({"force_rescore": true})).await;
        problem_of(other, 422, "idempotency-key-reused").await;
        let new = ask(&server, session, "k2", json!({})).await;
        assert_ne!(json_of(new, 202).await["job_id"], job.to_string());
    }
}

enum Spoil {
    Fail,
    Cancel,
}

async fn wait_with_key(server: &Server, session: Uuid) -> Response {
    let post = server.post(&score_path(session)).json(&json!({}));
    let post = post
        .header("Idempotency-Key", "k")
        .header("Prefer", "wait=30");
    post.send().await.unwrap()
}

#[tokio::test]
async fn crash_between_import_and_response_leads_to_the_same_import() {
    for db in stores().await {
        let server = Server::over(db).await;
        let begin = async || {
            let begin = server.post("/api/v1/sessions/import").json(&json!({}));
            let answer = begin.header("Idempotency-Key", "k").send().await.unwrap();
            json_of(answer, 202).await
        };
        let first = begin().await;
        reset_key_response(&server.db).await;
        assert_eq!(begin().await["import_id"], first["import_id"]);
        let cancel = first["links"]["cancel"].as_str().unwrap();
        server.posted(cancel, 200).await;
        reset_key_response(&server.db).await;
        let late = begin().await;
        assert_eq!(
            (&late["import_id"], &late["state"]),
            (&first["import_id"], &json!("cancelled"))
        );
        let listed = server.json_of("/api/v1/sessions/imports").await;
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn retry_done_before_a_crash_is_not_repeated() {
    let server = Server::with(Setup::default()).await;
    let (_, job) = server.queued_session().await;
    server.fail(job).await;
    let retry = async || {
        let retry = server.post(&format!("/api/v1/jobs/{job}/retry"));
        retry.header("Idempotency-Key", "k").send().await.unwrap()
    };
    json_of(retry().await, 202).await;
    reset_key_response(&server.db).await;
    json_of(retry().await, 202).await;
    server.fail(job).await;
    reset_key_response(&server.db).await;
    let late = json_of(retry().await, 202).await;
    assert_eq!(
        late["state"], "failed",
        "failed since then, and not queued again"
    );
}

#[tokio::test]
async fn disconnected_client_gets_the_response_on_repeat() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let waiting = server
        .post(&score_path(session))
        .header("Prefer", "wait=30");
    let waiting = waiting.header("Idempotency-Key", "k").json(&json!({}));
    let impatient = waiting.timeout(Duration::from_millis(300)).send().await;
    assert!(impatient.unwrap_err().is_timeout());
    let busy = ask(&server, session, "k", json!({})).await;
    problem_of(busy, 409, "idempotency-key-in-use").await;
    let listed = server.json_of("/api/v1/jobs").await;
    server.succeed(job_id(&listed["items"][0]), 70).await;
    let answer =
        support::wait::eventually(Duration::from_secs(10), "it has an answer", async || {
            Some(ask(&server, session, "k", json!({})).await).filter(|answer| answer.status() == OK)
        })
        .await;
    assert!(replayed(&answer));
    assert_eq!(json_of(answer, 200).await["total_score"], 70);
}

/// Starts a waiting request with the key `k`, and returns once its job exists.
async fn start_waiting(server: &Arc<Server>) -> (Uuid, tokio::task::JoinHandle<Response>, String) {
    let session = server.session().await;
    let waiting = tokio::spawn({
        let server = server.clone();
        async move {
            let post = server.post(&score_path(session)).json(&json!({}));
            let post = post
                .header("Idempotency-Key", "k")
                .header("Prefer", "wait=6");
            post.send().await.unwrap()
        }
    });
    let job = support::wait::eventually(Duration::from_secs(10), "the job", async || {
        let listed = server.json_of("/api/v1/jobs").await;
        listed["items"].get(0).map(|job| job_id(job).to_string())
    })
    .await;
    (session, waiting, job)
}

#[tokio::test]
async fn key_lease_is_renewed_while_its_request_works() {
    for db in stores().await {
        let server = Arc::new(Server::over(db).await);
        let (session, waiting, job) = start_waiting(&server).await;
        let mut locked = 0;
        while !waiting.is_finished() {
            let other = ask(&server, session, "k", json!({})).await;
            if other.status() == 409 {
                locked += 1;
            } else {
                assert!(replayed(&other), "the request ran twice at once");
            }
        }
        assert!(locked > 0);
        let first = json_of(waiting.await.unwrap(), 202).await;
        assert_eq!(first["job_id"], job);
        assert_eq!(jobs(&server).await, 1);
    }
}

#[tokio::test]
async fn request_ends_before_takeover_if_its_lease_is_not_renewed() {
    for db in stores().await {
        if !db.url.starts_with("postgres") {
            continue;
        }
        let server = Arc::new(Server::over(db).await);
        let (session, waiting, job) = start_waiting(&server).await;
        let mut lock = sqlx::PgConnection::connect(&server.db.url).await.unwrap();
        let statement = "begin; lock table idempotency_keys in exclusive mode";
        sqlx::raw_sql(statement).execute(&mut lock).await.unwrap();
        let ended = waiting.await.unwrap();
        problem_of(ended, 503, "database-unavailable").await;
        lock.close().await.unwrap();
        let again = support::wait::eventually(Duration::from_secs(10), "taken over", async || {
            let again = ask(&server, session, "k", json!({})).await;
            Some(again).filter(|again| again.status() != 409)
        })
        .await;
        assert_eq!(json_of(again, 202).await["job_id"], job);
        assert_eq!(jobs(&server).await, 1);
    }
}
