//! Holds on judges and the queue; workers.

use gavel::store::{Hold, HoldTarget};
use serde_json::json;

use super::*;
use crate::support::stores;

fn judge<'a>(list: &'a Value, name: &str) -> &'a Value {
    let items = list["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).unwrap()
}

#[tokio::test]
async fn judge_is_paused_and_resumed() {
    for db in stores().await {
        let server = Server::over(db).await;
        let pause = server
            .post("/api/v1/judges/judge-a/pause")
            .header("x-forwarded-user", "ann");
        let paused = pause
            .json(&json!({ "message": "key rotation" }))
            .send()
            .await
            .unwrap();
        let hold = json_of(paused, 200).await["hold"].clone();
        assert_eq!(
            (&hold["reason"], &hold["message"], &hold["set_by"]),
            (&json!("paused"), &json!("key rotation"), &json!("ann"))
        );
        let list = server.json_of("/api/v1/judges").await;
        assert_eq!(judge(&list, "judge-a")["hold"], hold);
        assert_eq!(judge(&list, "judge-b")["hold"], Value::Null);
        assert_eq!(list["queue_hold"], Value::Null);
        let resume = || server.post("/api/v1/judges/judge-a/resume").send();
        assert_eq!(
            json_of(resume().await.unwrap(), 200).await["released"],
            true
        );
        assert_eq!(
            json_of(resume().await.unwrap(), 200).await["released"],
            false
        );
        assert_eq!(
            judge(&server.json_of("/api/v1/judges").await, "judge-a")["hold"],
            Value::Null
        );
    }
}

#[tokio::test]
async fn queue_is_paused_without_a_body_and_resumed() {
    for db in stores().await {
        let server = Server::over(db).await;
        server.posted("/api/v1/queue/pause", 200).await;
        let list = server.json_of("/api/v1/judges").await;
        assert_eq!(list["queue_hold"]["set_by"], "api-client");
        let resumed = server.post("/api/v1/queue/resume").send().await.unwrap();
        assert_eq!(json_of(resumed, 200).await["released"], true);
    }
}

#[tokio::test]
async fn queue_returns_its_hold_and_job_counts_by_state() {
    for db in stores().await {
        let server = Server::over(db).await;
        let counts = |queue: &Value| {
            [
                "queued",
                "running",
                "waiting",
                "succeeded_24h",
                "failed_24h",
                "cancelled_24h",
            ]
            .map(|state| queue["counts"][state].as_i64().unwrap())
        };
        let empty = server.json_of("/api/v1/queue").await;
        assert_eq!(keys(&empty), ["counts", "hold", "paused"]);
        assert_eq!(
            (&empty["paused"], &empty["hold"]),
            (&json!(false), &Value::Null)
        );
        assert_eq!(counts(&empty), [0; 6]);

        let job = async || server.queued(server.session().await).await;
        for _ in 0..2 {
            job().await;
        }
        server.claim(job().await).await;
        server.make_wait(job().await).await;
        server.succeed(job().await, 60).await;
        server.fail(job().await).await;
        let cancelled = job().await;
        let cancel = server.post(&format!("/api/v1/jobs/{cancelled}/cancel"));
        json_of(cancel.send().await.unwrap(), 200).await;
        let pause = server.post("/api/v1/queue/pause").send().await.unwrap();
        let hold = json_of(pause, 200).await["hold"].clone();
        let queue = server.json_of("/api/v1/queue").await;
        assert_eq!((&queue["paused"], &queue["hold"]), (&json!(true), &hold));
        assert_eq!(counts(&queue), [2, 1, 1, 1, 1, 1]);

        let asked = server.get("/api/v1/queue?lane=x").send().await.unwrap();
        problem_of(asked, 422, "invalid-request").await;
    }
}

#[tokio::test]
async fn unknown_judge_is_404_with_the_list_of_known_ones() {
    let server = Server::with(Setup::default()).await;
    for step in ["pause", "resume"] {
        let unknown = server
            .post(&format!("/api/v1/judges/judge-x/{step}"))
            .send()
            .await
            .unwrap();
        let problem = problem_of(unknown, 404, "judge-not-found").await;
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("judge-a, judge-b, no-key"),
            "{problem}"
        );
        for name in ["no-key", "anything:model-9", "anything%3Amodel-9"] {
            let known = server
                .post(&format!("/api/v1/judges/{name}/{step}"))
                .send()
                .await
                .unwrap();
            json_of(known, 200).await;
        }
    }
}

#[tokio::test]
async fn invalid_pause_is_422() {
    let server = Server::with(Setup::default()).await;
    for (body, pointer) in [
        (json!({ "message": "x".repeat(501) }), "/message"),
        (json!({ "message": "a\nb" }), "/message"),
        (json!({ "until": "2020-01-01T00:00:00Z" }), "/until"),
        (json!({ "until": "soon" }), "/until"),
        (json!({ "why": "x" }), "/why"),
    ] {
        let response = server
            .post("/api/v1/queue/pause")
            .json(&body)
            .send()
            .await
            .unwrap();
        let problem = problem_of(response, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
}

#[tokio::test]
async fn judges_show_whether_they_are_callable() {
    let server = Server::with(Setup::default()).await;
    let list = server.json_of("/api/v1/judges").await;
    assert_eq!(judge(&list, "judge-a")["configured"], true);
    assert_eq!(judge(&list, "no-key")["configured"], false);
    let remedy = judge(&list, "no-key")["remedy"].to_string();
    assert!(
        remedy.contains("set its key in llm_providers.yaml"),
        "{remedy}"
    );
}

#[tokio::test]
async fn workers_are_listed() {
    for db in stores().await {
        let server = Server::over(db).await;
        assert_eq!(server.json_of("/api/v1/workers").await["items"], json!([]));
        let id = server.worker_id;
        let busy = Heartbeat {
            in_hand: 3,
            ..crate::support::beat(id, "host-1")
        };
        crate::support::heartbeat(server.store(), &busy).await;
        let list = server.json_of("/api/v1/workers").await;
        let worker = &list["items"][0];
        assert_eq!(
            (&worker["worker_id"], &worker["in_hand"], &worker["alive"]),
            (&json!(id), &json!(3), &json!(true))
        );
        assert_eq!(worker["state"], "running");
    }
}

#[tokio::test]
async fn operator_pause_replaces_a_worker_closure() {
    let server = Server::with(Setup::default()).await;
    let closure = gavel::store::Hold {
        target: gavel::store::HoldTarget::Judge("judge-a".to_owned()),
        reason: WaitReason::Exhausted,
        message: "quota used up".to_owned(),
        set_by: "worker".to_owned(),
        since: SystemClock.now(),
        until: None,
    };
    assert!(server.store().holds().set(&closure).await.unwrap());
    let list = server.json_of("/api/v1/judges").await;
    assert_eq!(judge(&list, "judge-a")["hold"]["reason"], "exhausted");
    let pause = server
        .post("/api/v1/judges/judge-a/pause")
        .send()
        .await
        .unwrap();
    json_of(pause, 200).await;
    let list = server.json_of("/api/v1/judges").await;
    assert_eq!(judge(&list, "judge-a")["hold"]["reason"], "paused");
}

#[tokio::test]
async fn judge_over_its_cap_is_not_resumed_and_gives_a_reason() {
    let cap = gavel::api::SpendingCap {
        daily_usd: Some(10.0),
        monthly_usd: None,
    };
    let caps = SpendingCaps {
        total: None,
        entries: [("judge-a".to_owned(), cap)].into(),
    };
    let server = Server::with(Setup {
        caps,
        ..Setup::default()
    })
    .await;
    let list = server.json_of("/api/v1/judges").await;
    let shown = &judge(&list, "judge-a")["cap"];
    assert_eq!(
        (&shown["entry"], &shown["daily_cap_usd"]),
        (&json!("judge-a"), &json!(10.0))
    );
    assert_eq!(shown["spent"]["today_usd"], 0.0);
    assert_eq!(
        (&judge(&list, "judge-b")["cap"], &list["cap"]),
        (&Value::Null, &Value::Null)
    );

    let until = SystemClock.now() + chrono::Duration::hours(1);
    let closure = gavel::store::Hold {
        target: gavel::store::HoldTarget::Judge("judge-a".to_owned()),
        reason: WaitReason::Budget,
        message: "the daily cap of judge-a, 10 USD, is reached".to_owned(),
        set_by: "worker".to_owned(),
        since: SystemClock.now(),
        until: Some(until),
    };
    assert!(server.store().holds().set_budget(&closure).await.unwrap());
    let resume = server.post("/api/v1/judges/judge-a/resume");
    let problem = problem_of(resume.send().await.unwrap(), 409, "judge-capped").await;
    let detail = problem["detail"].as_str().unwrap();
    for part in [
        "the daily cap of judge-a, 10 USD",
        "automatically at 20",
        "raise the cap",
    ] {
        assert!(detail.contains(part), "{detail}");
    }
    let job = server.queued(server.session().await).await;
    let held = server.json_of(&format!("/api/v1/jobs/{job}")).await;
    assert_eq!(held["state"], "queued");
    assert_eq!(held["wait"]["reason"], "budget");
    assert!(held["wait"]["until"].is_string(), "{held:#}");
}

#[tokio::test]
async fn batch_with_all_judges_stopped_gives_a_reason_and_no_eta() {
    for db in stores().await {
        let server = Server::over(db).await;
        let sessions = [server.session().await, server.session().await];
        let items = sessions.map(|session| json!({ "session_id": session }));
        let body = json!({ "kind": "session", "items": items });
        let batch = server.batch_of(&body).await;
        assert_eq!(batch["stopped"], Value::Null);
        let items = server.jobs_of(&batch).await;
        let job = &items["items"][0];
        let until = SystemClock.now() + chrono::Duration::hours(1);
        let hold = Hold {
            target: HoldTarget::Judge(job["judge"].as_str().unwrap().to_owned()),
            reason: WaitReason::Budget,
            message: "the daily cap of judge-a, 2 USD, is reached".to_owned(),
            set_by: "worker".to_owned(),
            since: SystemClock.now(),
            until: Some(until),
        };
        // So that a rate exists from which an end could be estimated.
        let done: JobId = items["items"][1]["job_id"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let job_of = server.claim(done).await;
        let failure = Failure {
            class: FailureClass::Rejected,
            message: "no".to_owned(),
        };
        server.record(&job_of, Ending::Failed(failure)).await;
        let this = batch["links"]["self"].as_str().unwrap();
        let going = server.json_of(this).await;
        assert!(going["progress"]["eta_s"].is_number(), "{going:#}");

        assert!(server.store().holds().set_budget(&hold).await.unwrap());
        let stopped = server.json_of(this).await;
        assert_eq!(stopped["progress"]["eta_s"], Value::Null);
        assert_eq!(
            (&stopped["state"], &stopped["stopped"]["reason"]),
            (&json!("running"), &json!("budget"))
        );
        let said = stopped["stopped"]["message"].as_str().unwrap();
        assert!(
            said.ends_with("the daily cap of judge-a, 2 USD, is reached"),
            "{said}"
        );
        assert!(stopped["stopped"]["until"].is_string(), "{stopped:#}");
        let wait = &server.json_of(job["links"]["self"].as_str().unwrap()).await["wait"];
        assert_eq!(
            (&wait["reason"], &wait["message"]),
            (&json!("budget"), &json!(hold.message))
        );
    }
}
