//! Failed starts: message and exit code.

use super::shared;
use crate::support::home::Home;
use crate::support::process::{free_address, run, run_to_end};

fn unreachable_database() -> Home {
    let mut home = Home::embedded();
    home.judge_at("http://127.0.0.1:9/v1", "");
    home.set(
        "DATABASE_URL",
        format!("postgres://gavel@{}/gavel", free_address()),
    );
    home.set("REDIS_URL", format!("redis://{}", free_address()));
    home.set("GAVEL_DATABASE_CONNECT_TIMEOUT_S", "1");
    home
}

#[tokio::test]
async fn unreachable_database_ends_every_command_with_code_3() {
    let home = unreachable_database();
    for command in ["serve", "worker", "migrate"] {
        let (code, output) = run(&home, &[command]).await;
        assert_eq!(code, Some(3), "gavel {command}:\n{output}");
        assert!(output.to_lowercase().contains("database"), "{output}");
    }
}

#[tokio::test]
async fn missing_database_is_a_settings_error() {
    let mut home = Home::embedded();
    home.judge_at("http://127.0.0.1:9/v1", "");
    for command in ["serve", "worker"] {
        let (code, output) = run(&home, &[command]).await;
        assert_eq!(code, Some(2), "gavel {command}:\n{output}");
        assert!(output.contains("DATABASE_URL"), "{output}");
    }
}

#[tokio::test]
async fn pending_migrations_are_named_with_their_remedy() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.judge_at("http://127.0.0.1:9/v1", "");
    for command in ["serve", "worker"] {
        let (code, output) = run(&home, &[command]).await;
        assert_eq!(code, Some(2), "gavel {command}:\n{output}");
        assert!(output.contains("gavel migrate"), "{output}");
    }
    run_to_end(&home, &["migrate"]).await;
    home.remove().await;
}

#[tokio::test]
async fn worker_without_a_judge_names_the_setting() {
    let Some(mut home) = shared().await else {
        return;
    };
    run_to_end(&home, &["migrate"]).await;
    home.set("DEFAULT_LLM_PROVIDER", "openai-default");
    let (code, output) = run(&home, &["worker"]).await;
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("OPENAI_API_KEY"), "{output}");
    home.remove().await;
}
