//! What a job costs Postgres at low load, counted outside of the program: a relay reads the protocol and notes each statement that goes by.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use sqlx::Connection as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::client::PATIENCE;
use crate::support::home::Home;
use crate::support::judge_server::Say;
use crate::support::sessions::session;
use crate::support::wait::eventually;
use crate::support::world::World;

/// Jobs that are counted, one after another.
const JOBS: u64 = 20;
/// Statements of one job: one to accept it, three until the judge is asked, one to record a score with missing tools and approaches.
const MOST: u64 = 5;
/// What goes by the clock, and only while there are jobs: what the call log writes for any number of calls together, ten times a second at most, and
/// the look for due rows, once a second. On a slow machine each job meets them.
const WITH_JOBS: [&str; 5] = [
    "select job_id, lane, priority, due_at from scoring_jobs",
    "insert into judge_calls",
    "insert into judge_usage_daily",
    "insert into judge_latency_daily",
    "select job_id, batch_id from scoring_jobs where batch_id is not null",
];

/// How often each statement was executed.
type Executed = Arc<Mutex<BTreeMap<String, u64>>>;

/// Hands connections on to the server and counts what clients execute.
async fn relay(listener: TcpListener, server: String, executed: Executed) {
    while let Ok((client, _)) = listener.accept().await {
        let upstream = TcpStream::connect(&server).await.unwrap();
        client.set_nodelay(true).unwrap();
        upstream.set_nodelay(true).unwrap();
        let ((from_client, mut to_client), (mut from_server, to_server)) =
            (client.into_split(), upstream.into_split());
        tokio::spawn(count(from_client, to_server, executed.clone()));
        tokio::spawn(async move {
            drop(tokio::io::copy(&mut from_server, &mut to_client).await);
        });
    }
}

/// One client's messages: each is passed on whole. The first has no type.
async fn count(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, executed: Executed) {
    let (mut prepared, mut portals) = (HashMap::new(), HashMap::new());
    let mut is_first = true;
    loop {
        let kind = match is_first {
            true => 0,
            false => match client.read_u8().await {
                Ok(kind) => kind,
                Err(_) => return,
            },
        };
        let Ok(length) = client.read_u32().await else {
            return;
        };
        let mut body = vec![0; length as usize - 4];
        if client.read_exact(&mut body).await.is_err() {
            return;
        }
        let mut texts = body.split(|byte| *byte == 0);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        match kind {
            b'P' => drop(prepared.insert(text(), text())),
            b'B' => drop(portals.insert(text(), text())),
            b'E' => {
                let statement = portals.get(&text()).and_then(|name| prepared.get(name));
                note(&executed, statement.map_or("", String::as_str));
            }
            b'Q' => note(&executed, &text()),
            _ => {}
        }
        let mut message = Vec::with_capacity(body.len() + 5);
        if !is_first {
            message.push(kind);
        }
        message.extend(length.to_be_bytes());
        message.extend(body);
        is_first = false;
        if server.write_all(&message).await.is_err() {
            return;
        }
    }
}

fn note(executed: &Executed, statement: &str) {
    let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    *executed.lock().unwrap().entry(words).or_default() += 1;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_costs_so_many_statements() {
    let Some(mut home) = Home::shared().await else {
        eprintln!("NOT TESTED: there are no servers");
        return;
    };
    let url = home.get("DATABASE_URL").to_owned();
    let (host, database) = url
        .split_once("//")
        .and_then(|(_, rest)| rest.split_once('/'))
        .unwrap();
    let (user, server) = host.rsplit_once('@').unwrap_or(("postgres", host));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let executed = Executed::default();
    tokio::spawn(relay(listener, server.to_owned(), executed.clone()));
    let through = format!("postgres://{user}@{address}/{database}?sslmode=disable");
    home.set("DATABASE_URL", through);
    let world = World::start(home, Say::Score(72)).await;
    let mut beside = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..=JOBS {
        sessions.push(world.api.put(session()).await);
    }
    let looks = |executed: &BTreeMap<String, u64>| -> u64 {
        let looks = executed
            .iter()
            .filter(|(text, _)| text.contains("from holds"));
        looks.map(|(_, times)| times).sum()
    };
    // What goes by the clock: all of it has come by when the holds, which are looked at twice a second, have come so often.
    executed.lock().unwrap().clear();
    eventually(
        PATIENCE,
        "everything that goes by the clock has run",
        async || (looks(&executed.lock().unwrap()) >= 6).then_some(()),
    )
    .await;
    let by_the_clock = executed.lock().unwrap().clone();
    for (done, id) in (1_i64..).zip(sessions) {
        world.api.ask(id).await.expect(202);
        let written = "select count(*) from session_scores";
        let beside = tokio::sync::Mutex::new(&mut beside);
        eventually(PATIENCE, "it is recorded", async || {
            let mut beside = beside.lock().await;
            let count: i64 = sqlx::query_scalar(written)
                .fetch_one(&mut **beside)
                .await
                .unwrap();
            (count == done).then_some(())
        })
        .await;
        if done == 1 {
            // It prepared the statements.
            executed.lock().unwrap().clear();
        }
    }
    let executed = executed.lock().unwrap().clone();
    let is_of_jobs = |text: &str| {
        let is_by_the_clock =
            WITH_JOBS.iter().any(|part| text.contains(part)) || by_the_clock.contains_key(text);
        !is_by_the_clock && !matches!(text, "BEGIN" | "COMMIT")
    };
    // What comes once in a while, such as the first look after an error, is no job's.
    let of_jobs: BTreeMap<&str, u64> = executed
        .iter()
        .filter(|(text, times)| **times * 2 >= JOBS && is_of_jobs(text))
        .map(|(text, times)| (text.as_str(), (times + JOBS / 2) / JOBS))
        .collect();
    let sum: u64 = of_jobs.values().sum();
    assert_eq!(sum, MOST, "statements a job: {of_jobs:#?}");
    beside.close().await.unwrap();
    world.end().await;
}
