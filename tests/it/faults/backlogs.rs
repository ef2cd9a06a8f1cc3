//! Kills of API and workers in the middle of a backlog.

use serde_json::json;

use super::fleet::end;
use super::{DEADLINE, all_scored_once, number, shared};
use crate::support::batch_server::{BatchServer, Fate};
use crate::support::execute;
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, Process, gavel};
use crate::support::sessions::session;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backlog_survives_api_and_worker_kills_and_scores_once() {
    // More than the first steps of the request and of a worker.
    const SESSIONS: usize = 1_500;
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let mut fleet = Fleet::start(home).await;
    fleet.api.put(session()).await;
    execute(
        fleet.home.get("DATABASE_URL"),
        "insert into alert_sessions
         select gen_random_uuid(), source, status, alert_type, agent, author, alert_type_lower, agent_lower, author_lower,
            alert_data, conversation, message_count, final_analysis, tools, tags, started_at, completed_at, created_at,
            updated_at, listed_at, content_hash, revision
         from alert_sessions, generate_series(2, 1500)",
    )
    .await
    .unwrap();
    let headers = [("Idempotency-Key", "spring")];
    let made = fleet
        .api
        .send("POST", "/api/v1/rescore", Some(json!({})), &headers)
        .await
        .expect(202);
    fleet.serve.kill();
    fleet.serve.exit_code().await;

    let mut killed = fleet.worker("killed", &judge.url("killed"), 8);
    eventually(DEADLINE, "some of it is done", || async {
        let scored = number(&fleet.home, "select count(*) from session_scores").await;
        (scored > 0).then_some(())
    })
    .await;
    killed.kill();
    killed.exit_code().await;
    let mut others = [
        fleet.worker("b", &judge.url("b"), 8),
        fleet.worker("c", &judge.url("c"), 8),
    ];
    fleet.serve_again();
    all_scored_once(&fleet.home, SESSIONS).await;

    let path = made["links"]["self"].as_str().unwrap();
    let done = eventually(DEADLINE, "the batch is completed", || async {
        let found = fleet.api.try_send("GET", path, None, &[]).await?;
        (found.body["state"] == "completed").then_some(found.body)
    })
    .await;
    assert_eq!(done["counts"]["total"], SESSIONS);
    assert_eq!(done["counts"]["succeeded"], SESSIONS);
    assert_eq!(done["skipped"]["in_progress"], 0);
    let again = fleet
        .api
        .send("POST", "/api/v1/rescore", Some(json!({})), &headers)
        .await
        .expect(202);
    assert_eq!(again["batch_id"], made["batch_id"]);
    for worker in &mut others {
        worker.stop().await;
    }
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_worker_hands_over_its_provider_batch_and_pays_once() {
    let Some(mut home) = shared().await else {
        return;
    };
    let server = BatchServer::start(Fate::Score(70)).await;
    home.judge_of(
        "openai",
        &server.url("openai"),
        "  batch_price_factor: 0.5\n",
    );
    home.set("GAVEL_WORKER_ECONOMY_POLL_S", 0.1);
    home.set("GAVEL_WORKER_ECONOMY_PART", 2);
    home.set("GAVEL_WORKER_LEASE_S", 2);
    let fleet = Fleet::start(home).await;
    for _ in 0..5 {
        fleet.api.put(session()).await;
    }
    let economy = json!({ "economy": true });
    let made = fleet.api.post_json("/api/v1/rescore", economy);
    let made = made.await.expect(202);
    let worker =
        |name| Process::spawn(name, fleet.home.dir(), gavel(fleet.home.env(), &["worker"]));

    // The worker dies while it submits the second chunk, so the response is lost.
    let permits = server.holds("POST /v1/batches");
    let mut killed = worker("killed");
    permits.add_permits(1);
    eventually(DEADLINE, "the second part is on its way", || async {
        let seen = server.seen();
        let parts = seen.iter().filter(|seen| *seen == "POST /v1/batches");
        (parts.count() == 2).then_some(())
    })
    .await;
    killed.kill();
    killed.exit_code().await;
    permits.add_permits(100);
    let mut other = worker("other");
    server.finish_immediately();
    all_scored_once(&fleet.home, 5).await;
    let path = made["links"]["self"].as_str().unwrap();
    let done = eventually(DEADLINE, "the batch is completed", || async {
        let found = fleet.api.get(path).await.expect(200);
        (found["state"] == "completed").then_some(found)
    })
    .await;
    assert_eq!(done["economy"]["replied"], 5, "{done:#}");
    let handed_over: usize = server.batches().iter().map(|part| part.calls.len()).sum();
    assert_eq!((handed_over, server.asked().len()), (5, 0), "{done:#}");
    other.stop().await;
    end(fleet).await;
}
