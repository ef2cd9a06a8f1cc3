//! Events through the entire program: in order, resumed without gaps or duplicates, and without blocking jobs.

use std::time::Duration;

use super::on_every_setup;
use crate::support::client::{PATIENCE, id_of};
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, PrivateRedis};
use crate::support::sessions::session;
use crate::support::sse::{Stream, StreamEvent};
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    events_of_a_scored_session_are_in_order,
    reconnect_has_no_missed_or_duplicate_events,
    failed_job_event_has_its_error_class,
    timed_pause_publishes_its_start_and_end,
    drain_ends_open_streams_and_the_program,
);

async fn take(stream: &mut Stream, n: usize) -> Vec<StreamEvent> {
    let mut told = Vec::new();
    for _ in 0..n {
        told.push(stream.next().await);
    }
    told
}

fn names(told: &[StreamEvent]) -> Vec<&str> {
    told.iter().map(|told| told.event.as_str()).collect()
}

async fn events_of_a_scored_session_are_in_order(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let id = world.api.put(session()).await;
    let mut stream = world.api.events(&format!("?session_id={id}"), None).await;
    let hello = stream.next().await;
    assert_eq!(hello.event, "hello");
    let job = id_of(&world.api.ask(id).await.expect(202)["job_id"]);
    let told = take(&mut stream, 3).await;
    assert_eq!(names(&told), ["job.queued", "job.started", "job.succeeded"]);
    for told in &told {
        assert_eq!(told.data["job_id"], job.to_string());
        assert_eq!(told.data["kind"], "session");
    }
    let end = &told[2].data;
    assert_eq!(
        (&end["state"], &end["total_score"]),
        (&"succeeded".into(), &70.into())
    );
    // Published after the commit, so the score exists.
    let score = world.api.score(id).await.expect(200);
    assert_eq!(score["score_id"], end["score_id"]);
    assert_eq!(score["simulated"], end["simulated"]);
    drop(stream);
    world.end().await;
}

async fn reconnect_has_no_missed_or_duplicate_events(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let mut whole = world.api.events("", None).await;
    let hello = whole.next().await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(world.api.enqueue(session()).await.1);
    }
    for job in jobs {
        world.api.ended(job).await;
    }
    let whole = take(&mut whole, 15).await;
    let mut pieces = Vec::new();
    let mut last = hello.id;
    while pieces.len() < whole.len() {
        let mut stream = world.api.events("", Some(&last)).await;
        let greeting = stream.next().await;
        assert_eq!(
            (greeting.event.as_str(), greeting.data["resumed"].as_bool()),
            ("hello", Some(true))
        );
        pieces.extend(take(&mut stream, 3).await);
        last.clone_from(&pieces.last().unwrap().id);
    }
    let ids = |told: &[StreamEvent]| told.iter().map(|told| told.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&pieces), ids(&whole));
    world.end().await;
}

async fn failed_job_event_has_its_error_class(home: Home) {
    let world = World::start(home, Reply::Status(401)).await;
    let mut stream = world
        .api
        .events("?types=job.failed,judge.closed", None)
        .await;
    stream.next().await;
    let (_, job) = world.api.enqueue(session()).await;
    let told = take(&mut stream, 2).await;
    let failed = told.iter().find(|told| told.event == "job.failed").unwrap();
    assert_eq!(failed.data["job_id"], job.to_string());
    assert_eq!(failed.data["class"], "misconfigured");
    let closed = told
        .iter()
        .find(|told| told.event == "judge.closed")
        .unwrap();
    assert_eq!(closed.data["reason"], "misconfigured");
    drop(stream);
    world.end().await;
}

async fn timed_pause_publishes_its_start_and_end(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let query = "?types=judge.closed,judge.opened";
    let mut stream = world.api.events(query, None).await;
    stream.next().await;
    let pause = format!("/api/v1/judges/{JUDGE}/pause");
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(3);
    let body = serde_json::json!({ "until": soon });
    let paused = world.api.post_json(&pause, body).await;
    paused.expect(200);
    let told = take(&mut stream, 2).await;
    assert_eq!(names(&told), ["judge.closed", "judge.opened"]);
    assert!(told[0].data["until"].is_string());
    assert_eq!(told[1].data["judge"], JUDGE);
    drop(stream);
    world.end().await;
}

async fn drain_ends_open_streams_and_the_program(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let mut stream = world.api.events("", None).await;
    assert_eq!(stream.next().await.event, "hello");
    // Without `bye` the shutdown would wait for this stream for ever.
    world.end().await;
    assert_eq!(stream.next().await.event, "bye");
    assert!(stream.ended().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_resumes_across_a_restart_of_serve() {
    let Some(home) = Home::shared().await else {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
        return;
    };
    let world = World::start(home, Reply::Score(70)).await;
    let mut stream = world.api.events("", None).await;
    stream.next().await;
    let (_, before) = world.api.enqueue(session()).await;
    world.api.ended(before).await;
    let seen = take(&mut stream, 3).await;
    let world = world.restart().await;
    assert_eq!(stream.next().await.event, "bye");

    let (_, after) = world.api.enqueue(session()).await;
    let mut stream = world.api.events("", Some(&seen[1].id)).await;
    assert_eq!(stream.next().await.data["resumed"], true);
    let told = take(&mut stream, 2).await;
    assert_eq!(
        told[0].id, seen[2].id,
        "what was behind the id before the restart"
    );
    assert_eq!(names(&told), ["job.succeeded", "job.queued"]);
    assert_eq!(told[1].data["job_id"], after.to_string());
    drop(stream);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory_event_ids_reset_with_the_process() {
    let world = World::idle(Home::embedded(), Reply::Score(70)).await;
    let mut stream = world.api.events("", None).await;
    let hello = stream.next().await;
    let world = world.restart().await;
    let mut stream = world.api.events("", Some(&hello.id)).await;
    assert_eq!(stream.next().await.data["resumed"], false);
    assert_eq!(stream.next().await.event, "reset");
    drop(stream);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_outage_loses_events_but_no_jobs() {
    let (Some(mut home), Some(mut redis)) = (Home::shared().await, PrivateRedis::start().await)
    else {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
        return;
    };
    home.set("REDIS_URL", redis.url());
    let world = World::start(home, Reply::Score(70)).await;
    let mut stream = world.api.events("", None).await;
    stream.next().await;
    redis.kill().await;
    // Without this event, clients couldn't distinguish an outage from an idle time.
    assert_eq!(stream.next().await.event, "interrupted");
    let (_, job) = world.api.enqueue(session()).await;
    assert_eq!(world.api.ended(job).await["state"], "succeeded");
    let mut late = world.api.events("", None).await;
    assert_eq!(names(&take(&mut late, 2).await), ["hello", "interrupted"]);
    redis.again().await;
    // The event log was lost: streams stay open, get a reset, and resume.
    assert_eq!(names(&take(&mut stream, 2).await), ["reset", "restored"]);
    assert_eq!(names(&take(&mut late, 2).await), ["reset", "restored"]);
    drop(late);
    let (_, job) = world.api.enqueue(session()).await;
    let wanted = job.to_string();
    loop {
        let told = stream.next().await;
        if told.event == "job.succeeded" && told.data["job_id"] == wanted.as_str() {
            break;
        }
    }
    drop(stream);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process_events_reach_the_api_process() {
    let Some(home) = Home::shared().await else {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let mut fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("w1", &judge.url("w1"), 2);
    let mut stream = fleet.api.events("?types=job.succeeded", None).await;
    assert_eq!(stream.next().await.event, "hello");
    let (_, job) = fleet.api.enqueue(session()).await;
    let told = stream.next().await;
    assert_eq!(told.data["job_id"], job.to_string());
    worker.stop().await;
    // SIGTERM ends the streaming process and its streams.
    fleet.serve.stop().await;
    assert_eq!(stream.next().await.event, "bye");
    assert!(stream.ended().await);
    fleet.home.remove().await;
}

/// Kills a process while a request with a key waits there, then repeats the request at another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_between_job_and_response_creates_no_second_job() {
    let Some(home) = Home::shared().await else {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
        return;
    };
    let mut fleet = Fleet::start(home).await;
    let id = fleet.api.put(session()).await;
    let path = crate::support::client::score_path(id);
    let body = serde_json::json!({"force_rescore": true});
    let headers = [("Idempotency-Key", "one"), ("Prefer", "wait=50")];
    let asking = tokio::spawn({
        let (api, path, body) = (fleet.api.clone(), path.clone(), body.clone());
        async move { api.try_send("POST", &path, Some(&body), &headers).await }
    });
    // No worker runs: the job exists, but the response waits.
    let job = eventually(PATIENCE, "the job is there", || async {
        let listed = fleet.api.get("/api/v1/jobs").await.expect(200);
        listed["items"].get(0).map(|job| id_of(&job["job_id"]))
    })
    .await;
    fleet.serve.kill();
    assert!(asking.await.unwrap().is_none(), "killed before it answered");

    fleet.serve_again();
    // The dead process locks the key for some time, then the repeated request continues.
    let headers = [("Idempotency-Key", "one")];
    let (api, path, body) = (&fleet.api, &path, &body);
    let answer = eventually(
        Duration::from_secs(90),
        "the key is free again",
        || async move {
            let answer = api.try_send("POST", path, Some(body), &headers).await?;
            (answer.status == 202).then_some(answer)
        },
    )
    .await;
    assert_eq!(id_of(&answer.body["job_id"]), job);
    let listed = fleet.api.get("/api/v1/jobs").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    fleet.serve.stop().await;
    fleet.home.remove().await;
}
