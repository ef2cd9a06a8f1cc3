use gavel::judge::CallLog as _;
use gavel::judge::gate::{BreakerState, Denial, GateSnapshot, HeldBack, LastError};
use gavel::store::{Hold, HoldTarget};
use serde_json::json;

use super::*;
use crate::support::stores;

fn path(id: JobId) -> String {
    format!("/api/v1/jobs/{id}")
}

#[tokio::test]
async fn job_body_matches_the_documented_format() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, id) = server.queued_session().await;
        server.fail(id).await;
        let job = server.json_of(&path(id)).await;
        let document = server.json_of("/openapi.json").await;
        let promised = keys(&document["components"]["schemas"]["Job"]["properties"]);
        assert_eq!(keys(&job), promised);
        assert_eq!(job["kind"], "session");
        assert_eq!(job["subject_id"], json!(session));
        assert_eq!(job["state"], "failed");
        assert_eq!(job["wait"], Value::Null);
        assert_eq!(job["retries"], 1);
        assert_eq!(keys(&job["error"]), ["class", "message", "remedy"]);
        assert_eq!(job["usage"]["cost_usd"], 0.25);
        assert_eq!(
            keys(&job["times"]),
            ["created_at", "due_at", "finished_at", "started_at"]
        );
        assert_eq!(job["links"]["retry"], format!("{}/retry", path(id)));
        let nowhere = server.get(&path(JobId::new())).send().await.unwrap();
        problem_of(nowhere, 404, "job-not-found").await;
    }
}

#[tokio::test]
async fn session_job_result_is_the_body_of_its_score() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, first) = server.queued_session().await;
        server.succeed(first, 77).await;
        let second = job_id(&json_of(server.force(session).await, 202).await);
        server.succeed(second, 33).await;
        let job = server.json_of(&path(second)).await;
        assert_eq!(job["result"], server.json_of(&score_path(session)).await);
        assert_eq!(job["links"]["score"], score_path(session));
        assert!(job["links"].get("cancel").is_none() && job["links"].get("retry").is_none());
        let old = server.json_of(&path(first)).await;
        assert_eq!(old["result"]["total_score"], 77, "superseded, and its own");
        assert_eq!(old["result"]["job_id"], json!(first.0));
        let listed = server.json_of("/api/v1/jobs").await;
        assert_eq!(listed["items"][0]["result"], job["result"]);
        assert_eq!(listed["items"][1]["result"], old["result"]);
    }
}

#[tokio::test]
async fn raw_replies_are_shown_on_request() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (_, id) = server.queued_session().await;
        let mut call = crate::support::call(id);
        call.latency = Duration::from_millis(1_500);
        call.usage.cost_usd = None;
        call.reply = Some("{\"total_score\":1}".to_owned());
        server.store().log(call);
        assert!(server.json_of(&path(id)).await.get("calls").is_none());
        let calls = server.json_of(&format!("{}?calls=true", path(id))).await["calls"].clone();
        assert_eq!(calls.as_array().unwrap().len(), 1);
        assert_eq!(calls[0]["latency_ms"], 1_500);
        assert_eq!(calls[0]["reply"], "{\"total_score\":1}");
        assert_eq!(calls[0]["usage"]["cost_usd"], Value::Null);
    }
}

#[tokio::test]
async fn client_can_wait_for_the_end_of_a_job() {
    let server = Server::with(Setup::default()).await;
    let (_, id) = server.queued_session().await;
    let path = path(id);
    let asked = |wait: &'static str| server.get(&path).header("prefer", wait).send();
    assert_eq!(
        json_of(asked("wait=0").await.unwrap(), 200).await["state"],
        "queued"
    );
    let (response, _) = tokio::join!(asked("wait=60"), server.succeed(id, 50));
    let response = response.unwrap();
    assert_eq!(
        header(&response, "preference-applied").as_deref(),
        Some("wait=60")
    );
    assert_eq!(json_of(response, 200).await["state"], "succeeded");
}

fn said(message: &str) -> Option<LastError> {
    let message = message.to_owned();
    let ago = Duration::from_secs(90);
    Some(LastError { message, ago })
}

fn gate(closed: Option<Denial>) -> GateSnapshot {
    GateSnapshot {
        breaker: match closed {
            Some(_) => BreakerState::Open,
            None => BreakerState::Closed,
        },
        failures_in_row: 5,
        closed,
        last_error: said("it answered 503"),
        ..crate::support::gate("judge-a")
    }
}

#[tokio::test]
async fn every_wait_has_a_reason() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (_, id) = server.queued_session().await;
        let (_, next) = server.queued_session().await;
        let wait = |id: JobId| {
            let path = path(id);
            let server = &server;
            async move { server.json_of(&path).await["wait"].clone() }
        };
        assert_eq!(
            wait(id).await,
            json!({ "reason": "no_worker", "until": null, "position": 1,
                "remedy": "start a worker: `gavel worker` on the same database and queue, or `gavel up` on the same data folder" })
        );
        let store = server.store();
        let can_ask = async |judge: &str| {
            let beat = Heartbeat {
                judges: Some(vec![judge.to_owned()]),
                ..crate::support::beat(server.worker_id, "test")
            };
            crate::support::heartbeat(store, &beat).await;
        };
        can_ask("judge-b").await;
        let unasked = wait(next).await;
        assert_eq!(unasked["reason"], "no_worker_for_judge");
        let remedy = unasked["remedy"].as_str().unwrap();
        assert!(remedy.contains("has entry judge-a"), "{remedy}");
        can_ask("judge-a").await;
        assert_eq!(
            wait(next).await,
            json!({ "reason": "queued", "until": null, "position": 2 })
        );

        let open = Denial {
            why: HeldBack::BreakerOpen,
            retry_in: Some(Duration::from_secs(30)),
        };
        store
            .judges()
            .put(server.worker_id, &[gate(Some(open))], SystemClock.now())
            .await
            .unwrap();
        let behind = wait(id).await;
        assert_eq!(
            (&behind["reason"], behind["until"].is_string()),
            (&json!("breaker_open"), true)
        );
        assert_eq!(behind["last_error"], "it answered 503");

        let other = Uuid::now_v7();
        crate::support::heartbeat(store, &crate::support::beat(other, "other")).await;
        store
            .judges()
            .put(other, &[gate(None)], SystemClock.now())
            .await
            .unwrap();
        assert_eq!(
            wait(id).await["reason"],
            "queued",
            "one open gate is enough"
        );

        let hold = |target| Hold {
            target,
            reason: WaitReason::Paused,
            message: String::new(),
            set_by: "ops".to_owned(),
            since: SystemClock.now(),
            until: None,
        };
        store
            .holds()
            .set(&hold(HoldTarget::Judge("judge-b".to_owned())))
            .await
            .unwrap();
        assert_eq!(wait(id).await["reason"], "queued", "another judge's hold");
        store.holds().set(&hold(HoldTarget::Queue)).await.unwrap();
        assert_eq!(wait(id).await["reason"], "paused");
        let listed = server.json_of("/api/v1/jobs").await;
        assert_eq!(
            listed["items"][0]["wait"],
            json!({ "reason": "paused", "until": null, "position": null, "target": "queue", "set_by": "ops",
                "remedy": "resume the queue" })
        );
        store
            .holds()
            .release(&HoldTarget::Queue, SystemClock.now())
            .await
            .unwrap();

        server.make_wait(id).await;
        let waiting = wait(id).await;
        assert_eq!(
            (&waiting["reason"], &waiting["position"]),
            (&json!("breaker_open"), &Value::Null)
        );
        assert!(waiting["until"].is_string());
        server.claim(next).await;
        assert_eq!(
            wait(next).await,
            Value::Null,
            "a running job waits for nothing"
        );
    }
}

#[tokio::test]
async fn active_job_is_cancelled_and_an_ended_one_is_409() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (_, id) = server.queued_session().await;
        let cancel = |id: JobId| server.post(&format!("{}/cancel", path(id))).send();
        for _ in 0..2 {
            assert_eq!(
                json_of(cancel(id).await.unwrap(), 200).await["state"],
                "cancelled"
            );
        }
        let (_, id) = server.queued_session().await;
        server.succeed(id, 60).await;
        let problem = problem_of(cancel(id).await.unwrap(), 409, "job-ended").await;
        assert_eq!(problem["job"]["state"], "succeeded");
        problem_of(cancel(JobId::new()).await.unwrap(), 404, "job-not-found").await;
    }
}

#[tokio::test]
async fn only_a_failed_job_is_retried_and_keeps_its_id() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, id) = server.queued_session().await;
        let retry = |id: JobId| server.post(&format!("{}/retry", path(id))).send();
        problem_of(retry(id).await.unwrap(), 409, "job-not-failed").await;
        server.fail(id).await;
        let response = retry(id).await.unwrap();
        assert_eq!(header(&response, "location"), Some(path(id)));
        let body = json_of(response, 202).await;
        assert_eq!(
            (job_id(&body), body["state"].as_str()),
            (id, Some("queued"))
        );
        server.fail(id).await;
        let other = server.queued(session).await;
        let problem = problem_of(retry(id).await.unwrap(), 409, "scoring-in-progress").await;
        assert_eq!(problem["job"]["job_id"], json!(other));
        problem_of(retry(JobId::new()).await.unwrap(), 404, "job-not-found").await;
    }
}

#[tokio::test]
async fn client_can_wait_for_a_retry() {
    let server = Server::with(Setup::default()).await;
    let (_, id) = server.queued_session().await;
    server.queue.next().await;
    server.fail(id).await;
    let asked = server
        .post(&format!("{}/retry", path(id)))
        .header("prefer", "wait=60")
        .send();
    let work = async {
        let pushed = server.queue.next().await.id;
        server.succeed(pushed, 70).await
    };
    let (response, _) = tokio::join!(asked, work);
    assert_eq!(json_of(response.unwrap(), 200).await["state"], "succeeded");
}
