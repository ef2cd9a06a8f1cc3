//! Speed of the durable path: POST to recorded score over Postgres, Redis, an API and a worker, each a separate process.
//!
//! `cargo bench --profile dist --bench durable_path`, with `DATABASE_URL` and `REDIS_URL` set to servers (it creates a database and a
//! queue there, and drops the database at the end). Prints a table and writes `benches/figures/durable_path.json`.
//! `GAVEL_BENCH_RUNS` sets the number of runs (default 3), `GAVEL_BENCH_ONLY` selects one measurement
//! (`throughput`, `rate`, `latency`, `memory`).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement may fail loudly, print and read the clock"
)]

#[expect(dead_code, reason = "each measurement uses its part of it")]
mod support;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{DelayedJudge, SetUp, client, concurrently, cpu_of, memory_of};

/// Sessions of the throughput measurement, the judge's latency, and the worker's slots.
const SESSIONS: usize = 4_000;
const JUDGE_LATENCY: Duration = Duration::from_millis(200);
const SLOTS: usize = 200;
const CLIENTS: usize = 32;
/// Sessions and slots for a judge without latency.
const QUICK_SESSIONS: usize = 8_000;
const QUICK_SLOTS: usize = 64;
const PER_SECOND: u32 = 40;
const LOW_LOAD: Duration = Duration::from_secs(10);
const IN_FLIGHT: usize = 1_000;
/// Characters of conversation per session in each measurement.
const SMALL: usize = 2_000;
const MEDIUM: usize = 8_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let Some(servers) = support::servers() else {
        println!(
            "skipped: set DATABASE_URL (postgres://…) and REDIS_URL to measure the durable path"
        );
        return;
    };
    let runs: usize = variable("GAVEL_BENCH_RUNS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let only = variable("GAVEL_BENCH_ONLY");
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut figures = Vec::new();
    for run in 1..=runs {
        if wanted("throughput") {
            figures.push(throughput(&servers).await.of_run(run));
        }
        if wanted("rate") {
            let posted = rate(&servers, Enqueued::OneByOne).await;
            let batch = rate(&servers, Enqueued::AsBatch).await;
            for figure in rate_measurements(&posted, &batch) {
                figures.push(figure.of_run(run));
            }
        }
        if wanted("latency") {
            figures.push(latency(&servers).await.of_run(run));
        }
        if wanted("memory") {
            figures.push(memory(&servers, SMALL).await.of_run(run));
            figures.push(memory(&servers, MEDIUM).await.of_run(run));
        }
    }
    write(&figures);
}

/// Number of concurrent clients; `GAVEL_BENCH_CLIENTS` overrides it.
fn clients() -> usize {
    variable("GAVEL_BENCH_CLIENTS").map_or(CLIENTS, |text| text.parse().unwrap())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

struct Measurement {
    name: String,
    run: usize,
    value: f64,
    unit: &'static str,
    target: f64,
    details: Value,
}

impl Measurement {
    fn of_run(self, run: usize) -> Self {
        let figure = Self { run, ..self };
        println!("{}", figure.line());
        figure
    }

    fn line(&self) -> String {
        let verdict = if self.value <= self.target {
            "holds"
        } else {
            "MISSED"
        };
        format!(
            "{:<44} run {}  {:>9.3} {:<9} at most {:>7.2}  {verdict}  {}",
            self.name, self.run, self.value, self.unit, self.target, self.details
        )
    }
}

/// 4,000 sessions posted in sequence, 200 ms a call, 200 slots: ideally 4 s from the first POST to the last row.
async fn throughput(servers: &support::Servers) -> Measurement {
    let set_up = SetUp::new(servers).await;
    let simulator = set_up.simulator(JUDGE_LATENCY).await;
    let api = set_up.api().await;
    let sessions = set_up.put_sessions(SESSIONS, SMALL, CLIENTS).await;
    let worker = set_up.worker(SLOTS).await;
    let processes = [
        ("serve", &api),
        ("worker", &worker),
        ("simulator", &simulator),
    ];
    let before = processes.map(|(_, process)| cpu_of(process));

    let client = client();
    let begun = Instant::now();
    let posting = concurrently(clients(), &sessions, |session| {
        let (client, url) = (client.clone(), set_up.score_url(session));
        async move { assert_eq!(client.post(url).send().await.unwrap().status(), 202) }
    });
    posting.await;
    let posted = begun.elapsed();
    // Read only at the end, because reading costs the database as much as the jobs.
    set_up.until_finished().await;
    let took = begun.elapsed();
    let cpu: serde_json::Map<String, Value> = processes
        .iter()
        .zip(before)
        .map(|((name, process), before)| ((*name).to_owned(), json!(cpu_of(process) - before)))
        .collect();
    let scored = set_up.number("select count(*) from session_scores").await;
    // Integer microseconds; time above the judge's latency is overhead, or waiting for a processor.
    let call_us = set_up
        .number("select percentile_disc(0.5) within group (order by latency_us) from judge_calls")
        .await;
    assert_eq!(scored, i64::try_from(SESSIONS).unwrap());
    let ideal = JUDGE_LATENCY.mul_f64(SESSIONS as f64 / SLOTS as f64);
    set_up.remove().await;
    Measurement {
        name: "4,000 sessions, first POST to last row".to_owned(),
        run: 0,
        value: took.as_secs_f64() / ideal.as_secs_f64(),
        unit: "of ideal",
        target: 1.10,
        details: json!({ "took_s": took.as_secs_f64(), "posted_s": posted.as_secs_f64(), "ideal_s": ideal.as_secs_f64(), "call_ms": call_us as f64 / 1e3, "cpu_s": cpu }),
    }
}

#[derive(Debug, Clone, Copy)]
enum Enqueued {
    OneByOne,
    AsBatch,
}

/// Cost of many sessions with a judge without latency.
struct Rate {
    took: Duration,
    /// Processor time of `serve` and `worker`, milliseconds per job.
    cpu_ms: [f64; 2],
    peak_mb: [f64; 2],
}

impl Rate {
    fn details(&self) -> Value {
        let [api, worker] = self.cpu_ms;
        let [api_mb, worker_mb] = self.peak_mb;
        json!({
            "jobs_per_s": QUICK_SESSIONS as f64 / self.took.as_secs_f64(),
            "cpu_ms_a_job": { "serve": api, "worker": worker },
            "peak_mb": { "serve": api_mb, "worker": worker_mb },
        })
    }
}

/// A judge without latency, so that the service's own cost remains.
async fn rate(servers: &support::Servers, enqueued: Enqueued) -> Rate {
    let mut set_up = SetUp::new(servers).await;
    let judge = DelayedJudge::start().await;
    judge.release();
    set_up.use_judge_with(&judge, "");
    let api = set_up.api().await;
    let sessions = set_up.put_sessions(QUICK_SESSIONS, SMALL, CLIENTS).await;
    let worker = set_up.worker(QUICK_SLOTS).await;
    let processes = [&api, &worker];
    let before = processes.map(cpu_of);
    let client = client();
    let begun = Instant::now();
    match enqueued {
        Enqueued::OneByOne => {
            concurrently(QUICK_SLOTS, &sessions, |session| {
                let (client, url) = (client.clone(), set_up.score_url(session));
                async move { assert_eq!(client.post(url).send().await.unwrap().status(), 202) }
            })
            .await;
        }
        Enqueued::AsBatch => {
            let items: Vec<Value> = sessions
                .iter()
                .map(|session| json!({ "session_id": session.id }))
                .collect();
            let batch = json!({ "kind": "session", "items": items });
            let posted = client.post(set_up.url("/api/v1/batches")).json(&batch);
            assert_eq!(posted.send().await.unwrap().status(), 202);
        }
    }
    // Both return after all rows are committed.
    set_up.until_finished().await;
    let took = begun.elapsed();
    let scored = set_up.number("select count(*) from session_scores").await;
    assert_eq!(scored, i64::try_from(QUICK_SESSIONS).unwrap());
    let after = processes.map(cpu_of);
    let jobs = QUICK_SESSIONS as f64;
    let cpu_ms = [0, 1].map(|n| (after[n] - before[n]) * 1_000.0 / jobs);
    let peak_mb = processes.map(|process| memory_of(process).peak_mb);
    set_up.remove().await;
    Rate {
        took,
        cpu_ms,
        peak_mb,
    }
}

fn rate_measurements(posted: &Rate, batch: &Rate) -> [Measurement; 2] {
    [
        Measurement {
            name: "8,000 sessions, judge 0 ms, one POST each".to_owned(),
            run: 0,
            value: posted.took.as_secs_f64() * 1_000.0 / QUICK_SESSIONS as f64,
            unit: "ms a job",
            target: 0.2,
            details: posted.details(),
        },
        Measurement {
            name: "the same as one batch, against single POSTs".to_owned(),
            run: 0,
            value: batch.took.as_secs_f64() / posted.took.as_secs_f64(),
            unit: "of time",
            target: 0.5,
            details: batch.details(),
        },
    ]
}

/// 40 POSTs a second: latency from sending the POST to the judge's call.
async fn latency(servers: &support::Servers) -> Measurement {
    let mut set_up = SetUp::new(servers).await;
    let judge = DelayedJudge::start().await;
    judge.release();
    set_up.use_judge(&judge);
    let _api = set_up.api().await;
    let _worker = set_up.worker(16).await;
    let posts = usize::try_from(PER_SECOND).unwrap() * usize::try_from(LOW_LOAD.as_secs()).unwrap();
    let sessions = set_up.put_sessions(posts, SMALL, CLIENTS).await;

    let client = client();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    let mut sent = HashMap::new();
    let mut answers = Vec::new();
    for session in &sessions {
        ticks.tick().await;
        sent.insert(session.mark.clone(), Instant::now());
        let post = client.post(set_up.score_url(session)).send();
        answers.push(tokio::spawn(async move { post.await.unwrap().status() }));
    }
    for answer in answers {
        assert_eq!(answer.await.unwrap(), 202);
    }
    set_up.until_finished().await;
    let calls = judge.calls();
    assert_eq!(calls.len(), posts);
    let mut took: Vec<f64> = calls
        .iter()
        .map(|(mark, at)| (*at - sent[mark]).as_secs_f64() * 1_000.0)
        .collect();
    took.sort_by(f64::total_cmp);
    set_up.remove().await;
    Measurement {
        name: "40 POST/s, POST sent to judge's call, median".to_owned(),
        run: 0,
        value: took[took.len() / 2],
        unit: "ms",
        target: 5.0,
        details: json!({ "p90_ms": took[took.len() * 9 / 10], "p99_ms": took[took.len() * 99 / 100], "max_ms": took.last() }),
    }
}

async fn memory(servers: &support::Servers, characters: usize) -> Measurement {
    let mut set_up = SetUp::new(servers).await;
    let judge = DelayedJudge::start().await;
    set_up.use_judge(&judge);
    let _api = set_up.api().await;
    let worker = set_up.worker(IN_FLIGHT).await;
    let idle = memory_of(&worker);
    let sessions = set_up.put_sessions(IN_FLIGHT, characters, CLIENTS).await;
    let client = client();
    concurrently(CLIENTS, &sessions, |session| {
        let (client, url) = (client.clone(), set_up.score_url(session));
        async move { assert_eq!(client.post(url).send().await.unwrap().status(), 202) }
    })
    .await;
    judge.until_in_flight(IN_FLIGHT).await;
    let in_flight = memory_of(&worker);
    judge.release();
    set_up.until_finished().await;
    let after = memory_of(&worker);
    set_up.remove().await;
    Measurement {
        name: format!("worker's memory, 1,000 calls, {characters} characters each"),
        run: 0,
        value: in_flight.resident_mb,
        unit: "MB",
        target: 150.0,
        details: json!({ "idle_mb": idle.resident_mb, "peak_to_the_end_mb": after.peak_mb, "after_mb": after.resident_mb }),
    }
}

fn write(figures: &[Measurement]) {
    println!();
    for figure in figures {
        println!("{}", figure.line());
    }
    let rows: Vec<Value> = figures
        .iter()
        .map(|figure| {
            json!({
                "name": figure.name, "run": figure.run, "value": figure.value, "unit": figure.unit,
                "target": figure.target, "holds": figure.value <= figure.target, "details": figure.details,
            })
        })
        .collect();
    support::write_results("durable_path.json", &Value::from(rows));
}
