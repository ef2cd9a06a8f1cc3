//! Pages over 1,000,000 sessions of three years: the list and its filters, consecutive list pages, overview, insights,
//! criteria, a session, a batch of a million items. Measures the time and the size of each.
//!
//! `cargo bench --profile dist --bench pages`, with `DATABASE_URL` and `REDIS_URL` set to servers (it creates a database there, fills
//! it, and drops it at the end; published results use Postgres with `shared_buffers` of 2 GB). Prints a table and writes
//! `benches/figures/pages.json`. `GAVEL_BENCH_SESSIONS` sets the number of sessions. `GAVEL_BENCH_KEEP=1` keeps the database
//! and prints its address for use with `gavel serve`.
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
use support::{SetUp, client};

const SESSIONS: i64 = 1_000_000;
const TIMES: usize = 15;
const DEEP: usize = 200;
/// Characters of conversation of the session stored over the API.
const CHARACTERS: usize = 2_000;

/// The measured pages; `CURRENT` and `OLD` are replaced by criteria hashes.
const PAGES: &[(&str, &str)] = &[
    ("overview", "/"),
    ("insights, 14 days", "/insights?days=14"),
    ("insights, 90 days", "/insights"),
    ("insights, 365 days", "/insights?days=365"),
    ("annotate", "/annotate?order=disagreement"),
    ("criteria", "/criteria"),
    ("criteria, one", "/criteria/CURRENT"),
    ("queue", "/queue"),
    ("batches", "/batches"),
    ("a batch of all", "/batches/BATCH"),
    ("system", "/system"),
    ("rescore", "/rescore"),
    ("sessions", "/sessions"),
    ("lowest scores", "/sessions?sort=lowest_score"),
    (
        "highest scores of an agent",
        "/sessions?sort=highest_score&agent=agent-3",
    ),
    ("search: an agent", "/sessions?q=agent-3"),
    ("search: an author", "/sessions?q=person-17"),
    ("search: a part", "/sessions?q=son-17"),
    ("search: a frequent part", "/sessions?q=gent"),
    ("search: nothing", "/sessions?q=nothing"),
    ("search: an id", "/sessions?q=SHORT"),
    ("scored", "/sessions?scored=yes"),
    ("not scored", "/sessions?scored=no"),
    ("running", "/sessions?scored=running"),
    ("failed", "/sessions?scored=failed"),
    ("rating", "/sessions?rating=near_perfect"),
    ("score from 98", "/sessions?min_score=98"),
    ("score up to 21", "/sessions?max_score=21"),
    ("earlier criteria", "/sessions?criteria=OLD"),
    ("outdated", "/sessions?criteria=not_current"),
    ("current", "/sessions?criteria=CURRENT"),
    ("a tag of 10 sessions", "/sessions?tag=rare"),
    ("a tag of many", "/sessions?tag=team-3"),
    ("a tag of none", "/sessions?tag=none"),
    ("an agent", "/sessions?agent=agent-3"),
    ("no agent", "/sessions?agent=agent-9"),
    ("an alert type", "/sessions?alert_type=AlertType7"),
    ("a missing tool", "/sessions?missing_tool=tool-7"),
    ("no missing tool", "/sessions?missing_tool=tool-99"),
    ("status failed", "/sessions?status=failed"),
    ("status pending", "/sessions?status=pending"),
    ("from 2 years ago", "/sessions?to=AGO"),
    (
        "several filters",
        "/sessions?rating=failed&agent=agent-3&tag=rare",
    ),
];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let Some(servers) = support::servers() else {
        println!("skipped: set DATABASE_URL (postgres://…) and REDIS_URL to measure pages");
        return;
    };
    let sessions = std::env::var("GAVEL_BENCH_SESSIONS")
        .ok()
        .map_or(SESSIONS, |text| text.parse().unwrap());
    let set_up = SetUp::new(&servers).await;
    let api = set_up.api().await;
    // The criteria are stored with the first job; no worker runs it yet.
    let one = set_up.put_sessions(1, CHARACTERS, 1).await.remove(0);
    let asked = client().post(set_up.score_url(&one)).send().await.unwrap();
    assert!(asked.status().is_success());
    let current = current_criteria(&set_up).await;
    let begun = Instant::now();
    set_up.seed_history(sessions, &current).await;
    println!(
        "{sessions} sessions stored in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    let begun = Instant::now();
    let worker = set_up.worker(2).await;
    set_up.until_rolled_up().await;
    println!(
        "their days folded in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    if std::env::var_os("GAVEL_BENCH_KEEP").is_some() {
        drop((api, worker));
        println!("kept: DATABASE_URL={}", set_up.keep());
        return;
    }

    let batch = set_up
        .text("select batch_id::text from scoring_batches")
        .await;
    let ago = set_up
        .text("select to_char(now() - interval '2 years', 'YYYY-MM-DD')")
        .await;
    let short = one.id.simple().to_string();
    let of = |path: &str| {
        path.replace("CURRENT", &current)
            .replace("OLD", &"0a".repeat(32))
            .replace("BATCH", &batch)
            .replace("SHORT", &short[..8])
            .replace("AGO", &ago)
    };
    let mut figures = Vec::new();
    for (name, path) in PAGES {
        figures.push(page(&set_up, name, &of(path)).await);
    }
    figures.push(page(&set_up, "a session", &format!("/sessions/{}", one.id)).await);
    let deep = deep(&set_up).await;
    let figures =
        json!({"sessions": sessions, "times": TIMES, "pages": figures, "page_after_page": deep});
    drop((api, worker));
    set_up.remove().await;
    support::write_results("pages.json", &figures);
}

async fn current_criteria(set_up: &SetUp) -> String {
    let answer = client().get(set_up.url("/api/v1/scoring/criteria"));
    let answer: Value = answer.send().await.unwrap().json().await.unwrap();
    let versions = answer["items"].as_array().unwrap();
    let current = versions
        .iter()
        .find(|version| version["kind"] == "session" && version["is_current"] == true)
        .unwrap();
    current["criteria_hash"].as_str().unwrap().to_owned()
}

async fn page(set_up: &SetUp, name: &str, path: &str) -> Value {
    let client = client();
    let (mut took, mut bytes) = (Vec::with_capacity(TIMES), 0);
    for _ in 0..TIMES {
        let (time, text) = get(&client, set_up, path).await;
        took.push(time);
        bytes = text.len();
    }
    let (median, most) = (median_of(&mut took), took.iter().max().copied().unwrap());
    let ms = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    println!(
        "{name:28} {:8.1} ms, at most {:8.1}  {:6.1} KB",
        ms(median),
        ms(most),
        bytes as f64 / 1e3
    );
    json!({"page": name, "median_ms": ms(median), "max_ms": ms(most), "bytes": bytes})
}

/// Reads consecutive list pages: compares the first ten with the last ten.
async fn deep(set_up: &SetUp) -> Value {
    let (client, mut path, mut took) = (client(), "/sessions".to_owned(), Vec::new());
    for _ in 0..DEEP {
        let (time, text) = get(&client, set_up, &path).await;
        took.push(time);
        let Some((before, _)) = text.split_once("\">Next page") else {
            break;
        };
        let (_, link) = before.rsplit_once("href=\"").unwrap();
        path = link.replace("&#38;", "&").replace("&amp;", "&");
    }
    let pages = took.len();
    let (mut first, mut last) = (took[..10].to_vec(), took[pages - 10..].to_vec());
    let ms = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    let (first, last) = (ms(median_of(&mut first)), ms(median_of(&mut last)));
    println!("page after page              first ten {first} ms, last ten of {pages} {last} ms");
    json!({"pages": pages, "first_ten_median_ms": first, "last_ten_median_ms": last})
}

async fn get(client: &reqwest::Client, set_up: &SetUp, path: &str) -> (Duration, String) {
    let begun = Instant::now();
    let asked = client.get(set_up.url(path)).header("accept", "text/html");
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    let text = answer.text().await.unwrap();
    (begun.elapsed(), text)
}

fn median_of(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
