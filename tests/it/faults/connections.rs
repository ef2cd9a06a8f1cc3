//! How many sessions a process has with Postgres, and what stands between the two.

use std::pin::pin;

use futures::future::join_all;
use sqlx::Connection as _;

use super::fleet::end;
use super::{all_scored_once, enqueue, shared};
use crate::support::home::Home;
use crate::support::judge_server::{JudgeServer, Say};
use crate::support::pooler::Pooler;
use crate::support::process::{Fleet, run};
use crate::support::sessions::session;

/// Does some work; answers the most sessions that the processes had at once meanwhile.
async fn most_sessions(home: &Home, work: impl Future<Output = ()>) -> i64 {
    const COUNT: &str = "select count(*) from pg_stat_activity
                         where datname = current_database() and application_name = 'gavel'";
    let mut db = sqlx::PgConnection::connect(home.get("DATABASE_URL"))
        .await
        .unwrap();
    let (mut work, mut most) = (pin!(work), 0);
    loop {
        tokio::select! {
            () = &mut work => return most,
            count = sqlx::query_scalar(COUNT).fetch_one(&mut db) => most = most.max(count.unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_never_has_more_sessions_than_its_setting_says() {
    const JOBS: usize = 100;
    for setting in [11, 16] {
        let Some(mut home) = shared().await else {
            return;
        };
        home.set("GAVEL_DATABASE_MAX_CONNECTIONS", setting);
        if setting == 16 {
            home.unset("GAVEL_DATABASE_MAX_CONNECTIONS");
        }
        let judge = JudgeServer::start(Say::Score(70)).await;
        let mut fleet = Fleet::start(home).await;
        let api = &fleet.api;
        let client = |_| async move {
            api.enqueue(session()).await;
            api.get("/api/v1/jobs").await.expect(200);
            api.get("/api/v1/sessions").await.expect(200);
            api.get("/readyz").await;
        };
        let requests = async {
            join_all((0..JOBS).map(client)).await;
        };
        let of_serve = most_sessions(&fleet.home, requests).await;
        fleet.serve.stop().await;
        let runs = async {
            let mut worker = fleet.worker("a", &judge.url("a"), 32);
            all_scored_once(&fleet.home, JOBS).await;
            worker.stop().await;
        };
        let of_worker = most_sessions(&fleet.home, runs).await;
        eprintln!("at most {setting}: serve had {of_serve}, worker had {of_worker}");
        for most in [of_serve, of_worker] {
            assert!((1..=setting).contains(&most), "{most} of {setting}");
        }
        fleet.home.remove().await;
    }
}

#[tokio::test]
async fn too_few_connections_to_work_with_are_refused_with_the_remedy() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("GAVEL_DATABASE_MAX_CONNECTIONS", 10);
    for command in ["serve", "worker", "migrate"] {
        let (code, output) = run(&home, &[command]).await;
        assert_eq!(code, Some(2), "gavel {command}:\n{output}");
        let said = "GAVEL_DATABASE_MAX_CONNECTIONS (database.max_connections): \"10\" is out of range; give a whole number from 11";
        assert!(output.contains(said), "{output}");
    }
    home.remove().await;
}

#[tokio::test]
async fn a_pooler_that_shares_sessions_is_refused_with_the_remedy() {
    for lines in [
        "pool_mode = transaction",
        "pool_mode = transaction\nserver_round_robin = 1",
        "pool_mode = transaction\ndefault_pool_size = 1",
        "pool_mode = statement",
    ] {
        let Some(mut home) = shared().await else {
            return;
        };
        let Some(pooler) = Pooler::start(lines).await else {
            return home.remove().await;
        };
        home.set("DATABASE_URL", pooler.url(&home.database_url()));
        home.judge_at("http://127.0.0.1:9/v1", "");
        // Whoever tries again does so for longer than the test waits.
        home.set("GAVEL_DATABASE_CONNECT_TIMEOUT_S", 3_600);
        for (command, refused) in [
            (&["migrate"][..], 2),
            (&["serve"][..], 2),
            (&["worker"][..], 2),
            (&["jobs", "list"][..], 2),
            (&["doctor", "--no-probe"][..], 3),
        ] {
            let (code, output) = run(&home, command).await;
            assert_eq!(code, Some(refused), "{lines}: gavel {command:?}:\n{output}");
            for remedy in ["pool_mode = session", "DATABASE_URL"] {
                assert!(output.contains(remedy), "{lines}: {output}");
            }
        }
        home.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_of_whole_sessions_a_killed_worker_loses_no_job() {
    const JOBS: usize = 20;
    let Some(mut home) = shared().await else {
        return;
    };
    let lines = "pool_mode = session\ndefault_pool_size = 60";
    let Some(pooler) = Pooler::start(lines).await else {
        return home.remove().await;
    };
    let direct = home.database_url();
    home.set("DATABASE_URL", pooler.url(&direct));
    let judge = JudgeServer::start(Say::Score(70)).await;
    judge.holds_calls_of("killed");
    let mut fleet = Fleet::start(home).await;
    let ready = fleet.api.get("/readyz").await;
    let reasons = ready.body["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{:#}", ready.body);
    assert!(reasons[0].as_str().unwrap().contains("no worker"));
    let worker = fleet.starter(8);
    // The test itself looks past the pooler.
    fleet.home.set("DATABASE_URL", direct);
    let mut killed = worker("killed", &judge.url("killed"));
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(8).await;
    killed.kill();
    killed.exit_code().await;
    let mut other = worker("b", &judge.url("b"));
    all_scored_once(&fleet.home, JOBS).await;
    other.stop().await;
    end(fleet).await;
}
