//! Imports with a crash: the next process resumes, and sessions are imported and counted once.

use std::collections::BTreeSet;
use std::time::Instant;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::Connection as _;
use uuid::Uuid;

use super::shared;
use crate::support::client::{PATIENCE, id_of};
use crate::support::home::Home;
use crate::support::process::{Fleet, Process, free_address, gavel, run, run_to_end};
use crate::support::tarsy::{FakeError, TarsyServer, kept};
use crate::support::tarsy_go;
use crate::support::wait::eventually;

/// Number of sessions of the fake TARSy; `GAVEL_TEST_IMPORT_SESSIONS` overrides it.
fn sessions() -> usize {
    let number = std::env::var("GAVEL_TEST_IMPORT_SESSIONS").ok();
    number.map_or(600, |number| number.parse().unwrap())
}

/// Serves these sessions, but only half of them until it is released.
async fn start_half_blocked(count: usize) -> TarsyServer {
    let server = tarsy_go::start(kept(count)).await;
    let given = std::sync::atomic::AtomicUsize::new(0);
    server.rule(move |_, asked| {
        let timeline = asked.path.ends_with("/timeline");
        let before = given.fetch_add(usize::from(timeline), std::sync::atomic::Ordering::Relaxed);
        (timeline && before >= count / 2).then_some(FakeError::Held)
    });
    server
}

async fn wait_until_blocked(server: &TarsyServer, count: usize) {
    eventually(
        super::DEADLINE,
        "half of the sessions are fetched",
        || async { (server.asked("/timeline") > count / 2).then_some(()) },
    )
    .await;
}

/// Starts an import and waits until half of its sessions are fetched; returns its id.
async fn half_done(fleet: &Fleet, server: &TarsyServer, count: usize) -> Uuid {
    let body = json!({ "from": server.url(), "rps": 0 });
    let begun = fleet.api.post_json("/api/v1/sessions/import", body).await;
    let id = id_of(&begun.expect(202)["import_id"]);
    wait_until_blocked(server, count).await;
    id
}

async fn stored(home: &Home) -> BTreeSet<Uuid> {
    let (url, text) = (home.database_url(), "select session_id from alert_sessions");
    let ids: Vec<Uuid> = if url.starts_with("postgres") {
        let mut db = sqlx::PgConnection::connect(&url).await.unwrap();
        sqlx::query_scalar(text).fetch_all(&mut db).await.unwrap()
    } else {
        let mut db = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::query_scalar(text).fetch_all(&mut db).await.unwrap()
    };
    let count = ids.len();
    let ids: BTreeSet<Uuid> = ids.into_iter().collect();
    assert_eq!(ids.len(), count);
    ids
}

async fn killed_in_the_middle_and_resumed(home: &Home) {
    let count = sessions();
    let server = start_half_blocked(count).await;
    let url = server.url();
    let args = ["sessions", "import", "--from", &url, "--rps", "0", "--json"];
    let begun = Instant::now();
    let mut first = Process::spawn("import", home.dir(), gavel(home.env(), &args));
    wait_until_blocked(&server, count).await;
    first.kill();
    first.exit_code().await;
    let (half, fetched) = (begun.elapsed(), server.asked("/timeline"));
    let kept = stored(home).await.len();
    server.release();
    let begun = Instant::now();
    let mut second = Process::spawn("resumed", home.dir(), gavel(home.env(), &args));
    let second = std::cell::RefCell::new(&mut second);
    eventually(super::DEADLINE, "the import ends", || async {
        (!second.borrow_mut().runs()).then_some(())
    })
    .await;
    let rest = begun.elapsed();
    let output = second.borrow().output();
    let report = output.lines().find(|line| line.starts_with('{'));
    let report: Value = serde_json::from_str(report.unwrap_or_else(|| panic!("{output}"))).unwrap();
    assert_eq!(report["state"], "completed");
    let counts =
        ["new", "updated", "unchanged", "failed", "total"].map(|name| report[name].as_u64());
    let all = Some(u64::try_from(count).unwrap());
    assert_eq!(counts, [all, Some(0), Some(0), Some(0), all], "{output}");
    assert_eq!(stored(home).await, server.ids().into_iter().collect());
    let again = server.asked("/timeline") - count;
    eprintln!(
        "{count} sessions: killed after {half:.1?} ({kept} stored of {fetched} fetched), resumed and done after {rest:.1?}, {again} fetched twice"
    );
    // At most the sessions of one step and those in flight.
    assert!(again <= 120, "{again} were fetched twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_import_into_the_data_folder_resumes_by_its_command() {
    let mut home = Home::embedded();
    home.judge_at("http://127.0.0.1:9/v1", "");
    home.set("GAVEL_DATA_DIR", home.dir().join("data").display());
    killed_in_the_middle_and_resumed(&home).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_import_into_postgres_resumes_by_its_command() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.judge_at("http://127.0.0.1:9/v1", "");
    run_to_end(&home, &["migrate"]).await;
    killed_in_the_middle_and_resumed(&home).await;
    home.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_of_a_dead_api_process_is_resumed_by_another() {
    let Some(home) = shared().await else {
        return;
    };
    let mut fleet = Fleet::start(home).await;
    let server = start_half_blocked(120).await;
    let id = half_done(&fleet, &server, 120).await;
    fleet.serve.kill();
    fleet.serve.exit_code().await;
    server.release();
    fleet.serve_again();
    let path = format!("/api/v1/sessions/imports/{id}");
    let ended = eventually(PATIENCE, "the import is taken over and ends", || async {
        let answer = fleet.api.try_send("GET", &path, None, &[]).await?;
        (answer.body["state"] == "completed").then_some(answer.body)
    })
    .await;
    assert_eq!(
        (&ended["counts"]["new"], &ended["counts"]["total"]),
        (&json!(120), &json!(120))
    );
    assert_eq!(
        stored(&fleet.home).await,
        server.ids().into_iter().collect()
    );
    fleet.serve.stop().await;
    fleet.home.remove().await;
}

/// Owner and last heartbeat of the only import.
async fn import_owner(home: &Home) -> (Uuid, DateTime<Utc>) {
    let mut db = sqlx::PgConnection::connect(&home.database_url())
        .await
        .unwrap();
    let text = "select owner, heartbeat_at from session_imports";
    sqlx::query_as(text).fetch_one(&mut db).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_with_a_shorter_lease_steals_no_live_import() {
    let Some(home) = shared().await else {
        return;
    };
    let mut fleet = Fleet::start(home).await;
    let mut env = fleet.home.env().clone();
    for (key, value) in [
        ("GAVEL_WORKER_LEASE_S", "0.5".to_owned()),
        ("GAVEL_BIND", free_address().to_string()),
    ] {
        env.insert(key.to_owned(), value);
    }
    let server = start_half_blocked(40).await;
    let id = half_done(&fleet, &server, 40).await;
    let (owner, mut heard) = import_owner(&fleet.home).await;
    let mut hasty = Process::spawn("hasty", fleet.home.dir(), gavel(&env, &["serve"]));
    // Seconds pass between two heartbeats of the owner, and the other process checks in that time.
    for _ in 0..3 {
        heard = eventually(super::DEADLINE, "the owner is heard again", || async {
            let (still, at) = import_owner(&fleet.home).await;
            assert_eq!(still, owner, "the import was taken from who has it in hand");
            (at > heard).then_some(at)
        })
        .await;
    }
    server.release();
    let path = format!("/api/v1/sessions/imports/{id}");
    eventually(PATIENCE, "the import ends", || async {
        let answer = fleet.api.get(&path).await.expect(200);
        (answer["state"] == "completed").then_some(())
    })
    .await;
    assert_eq!(server.asked("/timeline"), 40, "none is fetched twice");
    hasty.stop().await;
    fleet.serve.stop().await;
    fleet.home.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_import_is_exit_130_and_prints_the_resume_command() {
    let mut home = Home::embedded();
    home.judge_at("http://127.0.0.1:9/v1", "");
    home.set("GAVEL_DATA_DIR", home.dir().join("data").display());
    let server = start_half_blocked(40).await;
    let url = server.url();
    let args = ["sessions", "import", "--from", &url, "--rps", "0"];
    let mut first = Process::spawn("import", home.dir(), gavel(home.env(), &args));
    wait_until_blocked(&server, 40).await;
    first.terminate();
    assert_eq!(first.exit_code().await, Some(130), "{}", first.output());
    assert!(
        first.output().contains("repeat the command to resume it"),
        "{}",
        first.output()
    );
    server.release();
    let output = run_to_end(&home, &args).await;
    assert!(
        output.contains("40 new, 0 updated, 0 unchanged, 0 failed"),
        "{output}"
    );
    // Again: all sessions are stored.
    let output = run_to_end(&home, &args).await;
    assert!(
        output.contains("0 new, 0 updated, 40 unchanged, 0 failed"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_exit_code_matches_its_error() {
    let mut home = Home::embedded();
    home.judge_at("http://127.0.0.1:9/v1", "");
    home.set("GAVEL_DATA_DIR", home.dir().join("data").display());
    let server = tarsy_go::start(kept(3)).await;
    let url = server.url();
    let args = ["sessions", "import", "--from", &url, "--rps", "0"];
    server.rule(|_, _| Some(FakeError::Status(503)));
    let (code, output) = run(&home, &args).await;
    assert_eq!(code, Some(3), "{output}");
    assert!(output.contains("returned 503"), "{output}");
    let bad = server.ids()[1].to_string();
    let named = bad.clone();
    server.rule(move |_, asked| asked.path.contains(&bad).then_some(FakeError::BrokenJson));
    let (code, output) = run(&home, &args).await;
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains(&format!("session {named}: ")), "{output}");
    assert!(
        output.contains("2 new, 0 updated, 0 unchanged, 1 failed"),
        "{output}"
    );
    for wrong in [
        &["sessions", "import"][..],
        &["sessions", "import", "file.json", "--from", &url],
        &["sessions", "import", "file.json", "--since", "30d"],
        &["sessions", "import", "--from", "nowhere"],
        &["sessions", "import", "--from", &url, "--since", "soon"],
    ] {
        let (code, output) = run(&home, wrong).await;
        assert_eq!(code, Some(2), "{wrong:?}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_session_is_fetched_scored_and_checked_by_doctor() {
    let mut home = Home::embedded();
    let judge = crate::support::judge_server::JudgeServer::start(
        crate::support::judge_server::Reply::Score(64),
    )
    .await;
    home.judge_at(&judge.url("w"), "");
    home.set("GAVEL_DATA_DIR", home.dir().join("data").display());
    let server = tarsy_go::start(kept(1)).await;
    home.set("GAVEL_HISTORY_BASE_URL", server.url());
    let output = run_to_end(&home, &["score", &server.ids()[0].to_string()]).await;
    assert!(output.contains("64 / 100"), "{output}");
    let (_, output) = run(&home, &["doctor", "--no-probe"]).await;
    assert!(output.contains("a TARSy of the go generation"), "{output}");
    server.rule(|_, _| Some(FakeError::Html));
    let (code, output) = run(&home, &["doctor", "--no-probe"]).await;
    assert_eq!(code, Some(3), "{output}");
    assert!(output.contains("GAVEL_HISTORY_BASE_URL"), "{output}");
}
