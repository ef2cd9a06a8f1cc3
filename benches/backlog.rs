//! A forced rescore of 100,000 sessions: throughput, memory and Redis at each tenth, while a user requests a score each
//! second. Then a backlog that is an hour old during more interactive work than there are slots: the share of
//! each.
//!
//! `cargo bench --profile dist --bench backlog`, with `DATABASE_URL` and `REDIS_URL` set to servers (it creates a database and a queue
//! there, and drops the database at the end). Prints a table and writes `benches/figures/backlog.json`.
//! `GAVEL_BENCH_SESSIONS` sets the number of sessions, `GAVEL_BENCH_ONLY` selects one part (`rescore`, `shares`).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement may fail loudly, print and read the clock"
)]

#[expect(dead_code, reason = "each measurement uses its part of it")]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Process, Servers, Session, SetUp, client, cpu_of, memory_of};
use uuid::Uuid;

const SESSIONS: i64 = 100_000;
/// Approximate characters of conversation per session.
const CHARACTERS: usize = 2_000;
const SLOTS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(1_800);
const LOOK: Duration = Duration::from_millis(200);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let Some(servers) = support::servers() else {
        println!("skipped: set DATABASE_URL (postgres://…) and REDIS_URL to measure a backlog");
        return;
    };
    let sessions = std::env::var("GAVEL_BENCH_SESSIONS")
        .ok()
        .map_or(SESSIONS, |text| text.parse().unwrap());
    let only = std::env::var("GAVEL_BENCH_ONLY").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut figures = json!({});
    if wanted("rescore") {
        figures["rescore"] = backlog(&servers, sessions).await;
    }
    if wanted("shares") {
        figures["shares"] = shares(&servers).await;
    }
    support::write_results("backlog.json", &figures);
}

struct Tenth {
    share: i64,
    since_s: f64,
    serve_mb: f64,
    worker_mb: f64,
    redis_mb: f64,
}

async fn backlog(servers: &Servers, sessions: i64) -> Value {
    let set_up = SetUp::new(servers).await;
    let simulator = set_up.simulator(Duration::ZERO).await;
    let api = set_up.api().await;
    set_up.seed_sessions(sessions, CHARACTERS).await;
    let people = set_up.put_sessions(600, CHARACTERS, 8).await;
    let worker = set_up.worker(SLOTS).await;
    let redis_before = support::redis_mb(servers).await;

    let client = client();
    let rescore = json!({ "force_rescore": true, "name": "bench", "filter": { "tag": "backlog" } });
    let begun = Instant::now();
    let response = client
        .post(set_up.url("/api/v1/rescore"))
        .json(&rescore)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 202);
    let accepted = begun.elapsed();
    let batch: Value = response.json().await.unwrap();
    let batch_id: Uuid = batch["batch_id"].as_str().unwrap().parse().unwrap();

    let asking = score_each_second(&set_up, &people, batch_id);
    let watching = async {
        let mut tenths: Vec<Tenth> = Vec::new();
        while tenths.len() < 10 {
            assert!(begun.elapsed() < PATIENCE, "the backlog is too slow");
            tokio::time::sleep(LOOK).await;
            // Includes interactive scores: a few hundred of a hundred thousand.
            let scored = set_up.number("select count(*) from session_scores").await;
            let next = i64::try_from(tenths.len()).unwrap() + 1;
            if scored >= sessions * next / 10 {
                tenths.push(Tenth {
                    share: next * 10,
                    since_s: begun.elapsed().as_secs_f64(),
                    serve_mb: memory_of(&api).resident_mb,
                    worker_mb: memory_of(&worker).resident_mb,
                    redis_mb: support::redis_mb(servers).await - redis_before,
                });
                let t = tenths.last().unwrap();
                println!(
                    "{:>3} %  {:>7.1} s  serve {:>6.1} MB  worker {:>6.1} MB  redis {:>6.2} MB",
                    t.share, t.since_s, t.serve_mb, t.worker_mb, t.redis_mb
                );
            }
        }
        tenths
    };
    let (mut took, tenths) = tokio::join!(asking, watching);
    let whole = begun.elapsed();
    scored_once(&set_up, sessions).await;
    took.sort_by(f64::total_cmp);
    let cpu = |process: &Process| cpu_of(process);
    let figures = json!({
        "sessions": sessions,
        "accepted_ms": accepted.as_secs_f64() * 1e3,
        "took_s": whole.as_secs_f64(),
        "per_second": sessions as f64 / whole.as_secs_f64(),
        "cpu_s": { "serve": cpu(&api), "worker": cpu(&worker), "simulator": cpu(&simulator) },
        "interactive": {
            "asked": took.len(),
            "median_ms": took[took.len() / 2],
            "p90_ms": took[took.len() * 9 / 10],
            "max_ms": took.last(),
            "median_at_most_ms": 1_000.0,
            "holds": took[took.len() / 2] < 1_000.0,
        },
        "tenths": tenths.iter().map(|t| json!({
            "percent": t.share, "at_s": t.since_s, "serve_mb": t.serve_mb, "worker_mb": t.worker_mb, "redis_mb": t.redis_mb,
        })).collect::<Vec<_>>(),
    });
    println!("{}", serde_json::to_string_pretty(&figures).unwrap());
    set_up.remove().await;
    figures
}

/// One interactive request per second until the batch has ended; returns the latency of each, ms.
async fn score_each_second(set_up: &SetUp, people: &[Session], batch_id: Uuid) -> Vec<f64> {
    let client = client();
    let mut took = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for person in people.iter().cycle() {
        ticks.tick().await;
        let asked = Instant::now();
        let response = client
            .post(set_up.score_url(person))
            .header("prefer", "wait=30")
            .json(&json!({ "force_rescore": true }))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200, "an interactive score within 30 s");
        took.push(asked.elapsed().as_secs_f64() * 1e3);
        if ended(set_up, batch_id).await {
            break;
        }
    }
    took
}

/// Each session of the batch was scored by one job and has one current score.
async fn scored_once(set_up: &SetUp, sessions: i64) {
    let twice = set_up
        .number("select count(*) from (select 1 from session_scores where superseded_at is null group by session_id having count(*) > 1) t")
        .await;
    assert_eq!(twice, 0, "no session has two current scores");
    let scored = set_up
        .number("select count(distinct s.session_id) from session_scores s join scoring_jobs j on j.job_id = s.job_id where j.batch_id is not null")
        .await;
    assert_eq!(scored, sessions, "each session was scored");
    let jobs = set_up
        .number(
            "select count(*) from scoring_jobs where batch_id is not null and state = 'succeeded'",
        )
        .await;
    assert_eq!(jobs, sessions, "each by one job");
}

/// Reads only the row's state, because reading the batch over the API counts its items.
async fn ended(set_up: &SetUp, batch_id: Uuid) -> bool {
    set_up
        .number_of(
            "select count(*) from scoring_batches where batch_id = $1 and finished_at is not null",
            batch_id,
        )
        .await
        == 1
}

/// Sessions of the older backlog, and of the interactive users.
const OLD: i64 = 20_000;
const PEOPLE: usize = 20_000;
const CROWD: usize = 64;
const CROWDED_SLOTS: usize = 16;
const CROWDED_FOR: Duration = Duration::from_secs(20);
const CALL: Duration = Duration::from_millis(50);

/// Interactive users keep all slots busy, over a backlog that has waited for an hour.
async fn shares(servers: &Servers) -> Value {
    let set_up = SetUp::new(servers).await;
    let _simulator = set_up.simulator(CALL).await;
    let _api = set_up.api().await;
    set_up.seed_sessions(OLD, CHARACTERS).await;
    let people = set_up.put_sessions(PEOPLE, CHARACTERS, 16).await;
    let client = client();
    // Workers expand; items start only after all are stored and an hour old.
    let posted = async |path: &str, body: Value| {
        let post = client.post(set_up.url(path)).json(&body);
        let response = post.send().await.unwrap();
        assert!(response.status().is_success(), "{path}");
    };
    posted("/api/v1/queue/pause", json!({})).await;
    let _worker = set_up.worker(CROWDED_SLOTS).await;
    let rescore = json!({ "name": "old", "filter": { "tag": "backlog" } });
    posted("/api/v1/rescore", rescore).await;
    set_up.until_expanded(OLD).await;
    set_up
        .execute("update scoring_jobs set due_at = due_at - interval '1 hour', created_at = created_at - interval '1 hour'")
        .await;
    posted("/api/v1/queue/resume", json!({})).await;
    let begun = Instant::now();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let (next, client, set_up_of, people) = (&next, &client, &set_up, &people);
    let crowd = (0..CROWD).map(|_| async move {
        let mut took = Vec::new();
        while begun.elapsed() < CROWDED_FOR {
            // Each is requested once, because a second request would find the score.
            let person = &people[next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)];
            let asked = Instant::now();
            let response = client
                .post(set_up_of.score_url(person))
                .header("prefer", "wait=30")
                .send()
                .await
                .unwrap();
            assert_eq!(response.status(), 200, "an interactive score within 30 s");
            took.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        took
    });
    let mut took: Vec<f64> = futures::future::join_all(crowd).await.concat();
    let lasted = begun.elapsed().as_secs_f64();
    let bulk = set_up
        .number(
            "select count(*) from scoring_jobs where batch_id is not null and state = 'succeeded'",
        )
        .await;
    took.sort_by(f64::total_cmp);
    let share = bulk as f64 / (bulk as f64 + took.len() as f64);
    let figures = json!({
        "interactive_per_s": took.len() as f64 / lasted,
        "interactive_median_ms": took[took.len() / 2],
        "bulk_per_s": bulk as f64 / lasted,
        "bulk_share": share,
        "bulk_share_at_least": 0.05,
        "holds": share >= 0.05,
    });
    println!("{}", serde_json::to_string_pretty(&figures).unwrap());
    set_up.remove().await;
    figures
}
