//! Commands with Postgres and Redis, if configured.

use super::Sandbox;
use crate::support;

async fn database() -> Option<String> {
    let url = support::postgres_database().await;
    if url.is_none() {
        eprintln!("DATABASE_URL names no Postgres: left out");
    }
    url
}

#[tokio::test]
async fn migrate_applies_reverts_and_reapplies_on_postgres() {
    let Some(url) = database().await else { return };
    let place = Sandbox::new().with("DATABASE_URL", &url);
    let migrate = |more: &[&str]| place.run(&[&["migrate"], more].concat()).ends(0);
    drop(
        migrate(&[])
            .prints("from version 0 to ")
            .prints("; applied 1"),
    );
    let now = migrate(&[]).prints("no change, at version ").out;
    let now = now.trim().rsplit(' ').next().unwrap();
    let reverted = migrate(&["--revert", "1"]).prints(&format!("from version {now} to "));
    drop(reverted.prints(&format!("; reverted {now}")));
    drop(migrate(&[]).prints(&format!(" to {now}; applied {now}")));
}

#[tokio::test]
async fn serve_and_worker_reject_an_unmigrated_database() {
    let (Some(url), Some(redis)) = (database().await, support::redis_server()) else {
        return;
    };
    let place = Sandbox::new()
        .with("DATABASE_URL", &url)
        .with("REDIS_URL", &redis)
        .with("OPENAI_API_KEY", "sk-test");
    for command in ["serve", "worker"] {
        place.run(&[command]).ends(2).says("gavel migrate");
    }
    place
        .run(&["doctor"])
        .ends(3)
        .prints("FAULT  migrations")
        .prints("gavel migrate");
}

#[tokio::test]
async fn worker_without_a_judge_is_exit_2_with_the_remedy() {
    let (Some(url), Some(redis)) = (database().await, support::redis_server()) else {
        return;
    };
    let place = Sandbox::new()
        .with("DATABASE_URL", &url)
        .with("REDIS_URL", &redis);
    place.run(&["migrate"]).ends(0);
    place.run(&["worker"]).ends(2).says("OPENAI_API_KEY");
    let run = place.run(&["doctor"]).ends(3).prints("ok     redis");
    drop(
        run.prints("ok     migrations")
            .prints("ok     clock")
            .prints("ok     workers: no worker is alive")
            .prints("FAULT  judge"),
    );
}

#[tokio::test]
async fn unreachable_database_is_exit_3() {
    let place = Sandbox::new()
        .with("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/none")
        .with("GAVEL_DATABASE_CONNECT_TIMEOUT_S", "0");
    let run = place.run(&["migrate"]).ends(3);
    assert!(!run.err.contains("hunter2"), "{}", run.err);
}

#[tokio::test]
async fn missing_password_file_is_exit_2_and_names_the_file() {
    let place = Sandbox::new()
        .with("DATABASE_URL", "postgres://gavel@127.0.0.1:9/gavel")
        .with("GAVEL_DATABASE_PASSWORD_FILE", "/no/such/password");
    place
        .run(&["migrate"])
        .ends(2)
        .says("/no/such/password")
        .says("correct database.password_file");
}
