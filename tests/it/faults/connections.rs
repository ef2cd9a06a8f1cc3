//! Number of Postgres sessions of a process, and poolers in between.

use std::pin::pin;

use futures::future::join_all;
use sqlx::{AssertSqlSafe, Connection as _};
use uuid::Uuid;

use super::fleet::end;
use super::{all_scored_once, enqueue, shared};
use crate::support::client::{Api, PATIENCE};
use crate::support::home::Home;
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::pooler::Pooler;
use crate::support::process::{Fleet, Process, free_address, gavel, run};
use crate::support::sessions::session;
use crate::support::wait::eventually;

/// Does some work; returns the maximum number of simultaneous Postgres sessions.
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
async fn process_stays_within_its_session_limit() {
    for (setting, jobs) in [(1, 10), (16, 100)] {
        let Some(mut home) = shared().await else {
            return;
        };
        home.set("GAVEL_DATABASE_MAX_CONNECTIONS", setting);
        if setting == 16 {
            home.unset("GAVEL_DATABASE_MAX_CONNECTIONS");
        }
        let judge = JudgeServer::start(Reply::Score(70)).await;
        let mut fleet = Fleet::start(home).await;
        let api = &fleet.api;
        let client = |_| async move {
            api.enqueue(session()).await;
            api.get("/api/v1/jobs").await.expect(200);
            api.get("/api/v1/sessions").await.expect(200);
            api.get("/readyz").await;
        };
        let requests = async {
            join_all((0..jobs).map(client)).await;
        };
        let of_serve = most_sessions(&fleet.home, requests).await;
        fleet.serve.stop().await;
        let runs = async {
            let mut worker = fleet.worker("a", &judge.url("a"), 32);
            all_scored_once(&fleet.home, jobs).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_with_few_sessions_live_and_score_all_jobs() {
    const JOBS: usize = 60;
    let Some(mut home) = shared().await else {
        return;
    };
    let mut admin = sqlx::PgConnection::connect(&home.database_url())
        .await
        .unwrap();
    let role = format!("few_{}", Uuid::now_v7().simple());
    let database = home.database_url().rsplit_once('/').unwrap().1.to_owned();
    // Exactly one session for each process.
    let setup = format!(
        "create role {role} login connection limit 4; alter database {database} owner to {role}"
    );
    sqlx::raw_sql(AssertSqlSafe(setup))
        .execute(&mut admin)
        .await
        .unwrap();
    let direct = home.database_url();
    let (_, place) = direct.split_once('@').unwrap();
    home.set("DATABASE_URL", format!("postgres://{role}@{place}"));
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let mut fleet = Fleet::start(home).await;
    let starter = fleet.starter(16);
    let mut workers: Vec<_> = ["a", "b", "c"]
        .map(|name| starter(name, &judge.url(name)))
        .into();
    enqueue(&fleet.api, JOBS).await;
    fleet.home.set("DATABASE_URL", &direct);
    all_scored_once(&fleet.home, JOBS).await;
    let api = &fleet.api;
    eventually(PATIENCE, "all workers are alive", || async move {
        let listed = api.get("/api/v1/workers").await.expect(200);
        let listed = listed["items"].as_array().unwrap();
        let alive = listed.iter().filter(|worker| worker["alive"] == true);
        (alive.count() == 3).then_some(())
    })
    .await;
    for worker in &mut workers {
        worker.stop().await;
    }
    fleet.serve.stop().await;
    let gone = format!("reassign owned by {role} to current_user; drop role {role}");
    sqlx::raw_sql(AssertSqlSafe(gone))
        .execute(&mut admin)
        .await
        .unwrap();
    fleet.home.remove().await;
}

#[tokio::test]
async fn session_sharing_pooler_is_rejected_with_the_remedy() {
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
        // Longer than the test, so that a retry would make it fail.
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
async fn killed_worker_behind_a_session_pooler_loses_no_job() {
    const JOBS: usize = 20;
    let Some(mut home) = shared().await else {
        return;
    };
    let lines = "pool_mode = session\ndefault_pool_size = 9";
    let Some(pooler) = Pooler::start(lines).await else {
        return home.remove().await;
    };
    let direct = home.database_url();
    home.set("DATABASE_URL", pooler.url(&direct));
    let judge = JudgeServer::start(Reply::Score(70)).await;
    judge.block_calls_of("killed");
    let mut fleet = Fleet::start(home).await;
    let ready = fleet.api.get("/readyz").await;
    let reasons = ready.body["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{:#}", ready.body);
    assert!(reasons[0].as_str().unwrap().contains("no worker"));
    let worker = fleet.starter(8);
    // The test itself bypasses the pooler.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_descriptors_limit_slots_and_fail_no_job() {
    const JOBS: usize = 300;
    let Some(mut home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    home.judge_at(&judge.url("few"), "");
    let health = free_address();
    home.set("GAVEL_WORKER_HEALTH_BIND", health);
    home.set("GAVEL_WORKER_CONCURRENCY", 64);
    let fleet = Fleet::start(home).await;
    enqueue(&fleet.api, JOBS).await;
    let mut command = gavel(fleet.home.env(), &[]);
    let program = command.as_std().get_program().to_owned();
    let limited = "ulimit -Sn 32 && ulimit -Hn 64 && exec \"$0\" worker";
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-c").arg(limited).arg(program).env_clear();
    for (name, value) in command.as_std_mut().get_envs() {
        shell.env(name, value.unwrap());
    }
    let mut worker = Process::spawn("few", fleet.home.dir(), shell);
    let probes = Api::new(&health.to_string());
    let probed = async {
        loop {
            if let Some(ready) = probes.try_send("GET", "/readyz", None, &[]).await {
                let reasons = ready.body["reasons"].to_string();
                assert!(
                    reasons.contains("worker.concurrency is 15 instead of 64"),
                    "{reasons}"
                );
            }
            assert!(worker.runs(), "{}", worker.output());
        }
    };
    tokio::select! {
        () = all_scored_once(&fleet.home, JOBS) => {}
        () = probed => {}
    }
    let ready = probes.get("/readyz").await;
    assert_eq!(ready.status, 200, "{:#}", ready.body);
    assert!(
        !ready.body.to_string().contains("breaker"),
        "{:#}",
        ready.body
    );
    worker.stop().await;
    let output = worker.output();
    assert!(output.contains("the process may open 64 files"), "{output}");
    end(fleet).await;
}
