//! A database that rejects its role, or a role without a privilege: results wait, and calls are paid for once.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{DEADLINE, all_scored_once, enqueue, number, private_postgres};
use crate::support::home::Home;
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, PrivatePostgres, Process, gavel, run, run_to_end};
use crate::support::wait::{eventually, stays};

const OPEN: &str = "host all gavel 127.0.0.1/32 trust\nhost app app 127.0.0.1/32 scram-sha-256\n";
const SHUT: &str = "host all gavel 127.0.0.1/32 trust\nhost app app 127.0.0.1/32 reject\n";
const RELOAD: &str = "select pg_reload_conf()";
const CUT_OFF: &str =
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'";

/// Migrated database `app` with a role `app` that owns and creates no tables. The password is in a file.
struct Refusing {
    postgres: PrivatePostgres,
    admin: PgConnection,
    password_file: PathBuf,
    /// For queries of the test, as the owner.
    owner_url: String,
}

async fn refusing() -> Option<(Home, Refusing)> {
    let (mut home, postgres) = private_postgres().await?;
    let mut admin = PgConnection::connect(&postgres.url()).await.unwrap();
    tell(&mut admin, "create database app").await;
    tell(&mut admin, "create role app login password 'first'").await;
    postgres.admit(OPEN);
    tell(&mut admin, RELOAD).await;
    let owner_url = postgres.url_of("gavel", "app");
    home.set("DATABASE_URL", &owner_url);
    run_to_end(&home, &["migrate"]).await;
    let mut owner = PgConnection::connect(&owner_url).await.unwrap();
    let grant = "grant select, insert, update, delete on all tables in schema public to app";
    tell(&mut owner, grant).await;
    owner.close().await.unwrap();
    let password_file = home.dir().join("password");
    std::fs::write(&password_file, "first\n").unwrap();
    home.set("DATABASE_URL", postgres.url_of("app", "app"));
    home.set("GAVEL_DATABASE_PASSWORD_FILE", password_file.display());
    let refusing = Refusing {
        postgres,
        admin,
        password_file,
        owner_url,
    };
    Some((home, refusing))
}

async fn tell(db: &mut PgConnection, statement: &str) {
    let told = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
    told.execute(db).await.unwrap();
}

/// Rejects the role while the judge replies, and accepts it again.
async fn assert_no_loss(
    refuse: impl AsyncFnOnce(&mut Refusing),
    accept: impl AsyncFnOnce(&mut Refusing),
    reason: &str,
) {
    const JOBS: usize = 12;
    let Some((home, mut server)) = refusing().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::held(70)).await;
    let mut fleet = Fleet::start_migrated(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 6);
    fleet.home.set("DATABASE_URL", &server.owner_url);
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(6).await;

    refuse(&mut server).await;
    tell(&mut server.admin, CUT_OFF).await;
    judge.release();
    judge.until_in_flight(0).await;
    eventually(DEADLINE, "the worker keeps its results", || async {
        let waits = "results wait for the database";
        worker.output().contains(waits).then_some(())
    })
    .await;
    let refused = fleet.api.ask(uuid::Uuid::now_v7()).await;
    let kind = "urn:gavel:problem:database-unavailable";
    assert_eq!(refused.body["type"], kind, "{:#}", refused.body);
    assert!(refused.header("retry-after").is_some());
    refused.expect(503);
    let ready = fleet.api.get("/readyz").await;
    let said = ready.body["reasons"].to_string();
    assert!(said.contains(reason) && said.contains("app"), "{said}");
    ready.expect(503);

    accept(&mut server).await;
    all_scored_once(&fleet.home, JOBS).await;
    assert_eq!(judge.count(), JOBS, "no answer is paid for twice");
    worker.stop().await;
    let logged = number(&fleet.home, "select count(*) from judge_calls").await;
    assert_eq!(logged, JOBS as i64, "each call is in the log");
    fleet.serve.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn role_without_login_loses_no_result() {
    assert_no_loss(
        async |server| tell(&mut server.admin, "alter role app nologin").await,
        async |server| tell(&mut server.admin, "alter role app login").await,
        "SQLSTATE 28000",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn role_rejected_by_pg_hba_loses_no_result() {
    assert_no_loss(
        async |server| {
            server.postgres.admit(SHUT);
            tell(&mut server.admin, RELOAD).await;
        },
        async |server| {
            server.postgres.admit(OPEN);
            tell(&mut server.admin, RELOAD).await;
        },
        "SQLSTATE 28000",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_that_allows_no_connections_loses_no_result() {
    let allow = "alter database app allow_connections";
    assert_no_loss(
        async |server| tell(&mut server.admin, &format!("{allow} false")).await,
        async |server| tell(&mut server.admin, &format!("{allow} true")).await,
        "SQLSTATE 55000",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotated_password_file_needs_no_restart() {
    assert_no_loss(
        async |server| tell(&mut server.admin, "alter role app password 'second'").await,
        async |server| std::fs::write(&server.password_file, "second").unwrap(),
        "SQLSTATE 28P01",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_privilege_stops_claims_and_preserves_results() {
    const JOBS: usize = 40;
    let Some((home, server)) = refusing().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::held(70)).await;
    let mut fleet = Fleet::start_migrated(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 2);
    let role_url = fleet.home.get("DATABASE_URL").to_owned();
    fleet.home.set("DATABASE_URL", &server.owner_url);
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(2).await;
    let mut owner = PgConnection::connect(&server.owner_url).await.unwrap();
    let revoke = "revoke insert on session_scores from app";
    tell(&mut owner, revoke).await;
    judge.release();
    eventually(DEADLINE, "claims stop", || async {
        worker.output().contains("claims stopped").then_some(())
    })
    .await;
    // Jobs claimed before still make their calls.
    eventually(DEADLINE, "every claimed job has had its call", || async {
        let claimed = number(
            &fleet.home,
            "select count(*) from scoring_jobs where claim_no > 0",
        );
        (usize::try_from(claimed.await).ok() == Some(judge.count())).then_some(())
    })
    .await;
    judge.until_in_flight(0).await;
    let asked = judge.count();
    stays(
        Duration::from_millis(3_500),
        "no job is claimed",
        || async { judge.count() == asked },
    )
    .await;
    assert!(asked < JOBS, "{asked}");
    let grant = "grant insert on table public.session_scores to app";
    assert!(worker.output().contains(grant), "{}", worker.output());
    let ready = fleet.api.get("/readyz").await.expect(200);
    assert!(ready["reasons"].to_string().contains(grant), "{ready:#}");

    // No process starts without the privilege.
    fleet.home.set("DATABASE_URL", &role_url);
    let judges = fleet.home.dir().join("judges-a.yaml");
    fleet.home.set("GAVEL_LLM_PROVIDERS", judges.display());
    let mut second = Process::spawn("b", fleet.home.dir(), gavel(fleet.home.env(), &["worker"]));
    assert_eq!(second.exit_code().await, Some(2), "{}", second.output());
    assert!(second.output().contains(grant), "{}", second.output());
    let (code, said) = run(&fleet.home, &["doctor", "--no-probe"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(grant), "{said}");
    fleet.home.set("DATABASE_URL", &server.owner_url);

    tell(&mut owner, grant).await;
    all_scored_once(&fleet.home, JOBS).await;
    assert_eq!(judge.count(), JOBS, "no answer is paid for twice");
    worker.stop().await;
    fleet.serve.stop().await;

    // Checks each table.
    tell(
        &mut owner,
        "revoke all on all tables in schema public from app",
    )
    .await;
    let tables = "select count(*) from pg_tables where schemaname = 'public'";
    let tables = number(&fleet.home, tables).await;
    fleet.home.set("DATABASE_URL", &role_url);
    let (_, said) = run(&fleet.home, &["doctor", "--no-probe"]).await;
    let named = said.matches(" on table public.").count();
    assert_eq!(i64::try_from(named).unwrap(), tables, "{said}");
}
