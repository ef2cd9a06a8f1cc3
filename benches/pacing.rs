//! A judge with a limit per minute: use of the limit, and violations of it, as counted by the judge.
//!
//! `cargo bench --profile dist --bench pacing`, with `DATABASE_URL` and `REDIS_URL` set to servers (it creates a database and a queue
//! there, and drops the database at the end). An API and workers, each a separate process. Prints a table and
//! writes `benches/figures/pacing.json`. `GAVEL_BENCH_PER_MINUTE` (default 300), `GAVEL_BENCH_JOBS` (default 900),
//! `GAVEL_BENCH_SLOTS` (default 16) and `GAVEL_BENCH_WORKERS` (default 3) override the parameters; the default needs three
//! minutes. With several workers, one is killed and one is added after half of the jobs.
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
use support::{DelayedJudge, SetUp, client, concurrently};

const PER_MINUTE: usize = 300;
const JOBS: usize = 900;
const SLOTS: usize = 16;
const WORKERS: usize = 3;
/// Number of concurrent clients, and characters of conversation per session.
const CLIENTS: usize = 16;
const CHARACTERS: usize = 2_000;
const MINUTE: Duration = Duration::from_secs(60);
/// Minimum use of the limit, percent.
const LEAST_USED: f64 = 95.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let Some(servers) = support::servers() else {
        println!("skipped: set DATABASE_URL (postgres://…) and REDIS_URL to measure the pace");
        return;
    };
    let per_minute = variable("GAVEL_BENCH_PER_MINUTE", PER_MINUTE);
    let jobs = variable("GAVEL_BENCH_JOBS", JOBS).max(2);
    let slots = variable("GAVEL_BENCH_SLOTS", SLOTS);
    let workers = variable("GAVEL_BENCH_WORKERS", WORKERS).max(1);
    let mut set_up = SetUp::new(&servers).await;
    let judge = DelayedJudge::start().await;
    judge.release();
    set_up.use_judge_with(&judge, &format!("  requests_per_minute: {per_minute}\n"));
    let _api = set_up.api().await;
    let sessions = set_up.put_sessions(jobs, CHARACTERS, CLIENTS).await;
    let client = client();
    concurrently(CLIENTS, &sessions, |session| {
        let (client, url) = (client.clone(), set_up.score_url(session));
        async move { assert_eq!(client.post(url).send().await.unwrap().status(), 202) }
    })
    .await;
    let mut running = Vec::new();
    for _ in 0..workers {
        running.push(set_up.worker(slots).await);
    }
    if workers > 1 {
        let half = MINUTE.mul_f64(jobs as f64 / per_minute as f64 / 2.0);
        tokio::time::sleep(half).await;
        // Killed without a shutdown.
        drop(running.remove(0));
        running.push(set_up.worker(slots).await);
    }
    let longest = MINUTE.mul_f64(jobs as f64 / per_minute as f64 * 2.0) + MINUTE;
    set_up.until_finished_within(longest).await;
    let mut times: Vec<Instant> = judge.calls().into_iter().map(|(_, at)| at).collect();
    times.sort();
    // The killed worker's active jobs are scored again.
    let again = if workers > 1 { slots * 2 } else { 0 };
    assert!(
        (jobs..=jobs + again).contains(&times.len()),
        "one call per job"
    );
    let waiting = set_up
        .number("select count(*) from scoring_jobs where claim_no > 1")
        .await;
    set_up.remove().await;
    report(&times, per_minute, (workers, slots), waiting);
}

fn report(
    times: &[Instant],
    per_minute: usize,
    (workers, slots): (usize, usize),
    claimed_again: i64,
) {
    let most = max_per_minute(times);
    let took = *times.last().unwrap() - times[0];
    // The first call ends no interval.
    let used = (times.len() - 1) as f64 / took.as_secs_f64() * 60.0 / per_minute as f64 * 100.0;
    let verdict = |holds: bool| if holds { "holds" } else { "MISSED" };
    let jobs = times.len();
    println!(
        "{jobs} calls at {per_minute} requests a minute, {workers} workers of {slots} slots, {:.1} s",
        took.as_secs_f64()
    );
    println!(
        "most in any 60 s, as the judge saw it  {most:>8}    at most  {per_minute:>6}    {}",
        verdict(most <= per_minute)
    );
    println!(
        "used of the limit                      {used:>8.2} %  at least {LEAST_USED:>6} %  {}",
        verdict(used >= LEAST_USED)
    );
    println!("jobs that were claimed more than once  {claimed_again:>8}");
    write(&json!({
        "jobs": jobs, "per_minute": per_minute, "workers": workers, "slots": slots, "took_s": took.as_secs_f64(),
        "most_in_any_60_s": most, "used_percent": used, "claimed_again": claimed_again,
        "holds": most <= per_minute && used >= LEAST_USED,
        "profile": if cfg!(debug_assertions) { "debug" } else { "optimized" },
        "version": env!("CARGO_PKG_VERSION"),
        "measured_at": std::time::UNIX_EPOCH.elapsed().map(|t| t.as_secs()).unwrap_or(0),
    }));
}

/// Maximum number of calls in any window of 60 s; `times` are sorted.
fn max_per_minute(times: &[Instant]) -> usize {
    let mut first = 0;
    let count = |(at, time): (usize, &Instant)| {
        while *time - times[first] >= MINUTE {
            first += 1;
        }
        at - first + 1
    };
    times.iter().enumerate().map(count).max().unwrap_or(0)
}

fn write(figures: &Value) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/figures");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("pacing.json");
    std::fs::write(&path, serde_json::to_string_pretty(figures).unwrap()).unwrap();
    println!("written to {}", path.display());
}

fn variable(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
}
