//! Help, usage, settings and files: what needs no store.

use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::Sandbox;

const COMMANDS: [&str; 20] = [
    "up",
    "demo",
    "serve",
    "worker",
    "migrate",
    "score",
    "sessions",
    "criteria",
    "ratings",
    "jobs",
    "report",
    "judges",
    "queue",
    "doctor",
    "config",
    "tokens",
    "openapi",
    "healthcheck",
    "simulate-judge",
    "completions",
];

#[test]
fn every_command_has_a_help_with_an_example() {
    let place = Sandbox::new();
    let listed = place.run(&["--help"]).ends(0).out;
    for command in COMMANDS {
        assert!(
            listed.contains(&format!("\n  {command} ")),
            "{command}:\n{listed}"
        );
        let help = place.run(&[command, "--help"]).ends(0).out;
        assert!(
            help.contains("Example"),
            "{command} has no example:\n{help}"
        );
        assert!(help.contains("Usage: gavel"), "{command}:\n{help}");
    }
}

#[test]
fn an_unknown_flag_or_command_is_exit_2() {
    let place = Sandbox::new();
    place.run(&["scroe"]).ends(2).says("score");
    place
        .run(&["up", "--binb", "127.0.0.1:1"])
        .ends(2)
        .says("--bind");
    place.run(&[]).ends(2).says("Usage: gavel");
}

#[test]
fn a_broken_settings_file_is_exit_2_with_its_line() {
    let place = Sandbox::new();
    place.write(
        "gavel.toml",
        "bind = \"127.0.0.1:0\"\n[worker\nconcurrency = 1\n",
    );
    place
        .run(&["--config", "gavel.toml", "doctor", "--no-probe"])
        .ends(2)
        .says("gavel.toml: not TOML")
        .says("line 2");
    place
        .run(&["--config", "none.toml", "doctor", "--no-probe"])
        .ends(2)
        .says("none.toml: can't be read");
}

#[test]
fn an_unknown_key_is_exit_2_and_names_the_one_that_was_meant() {
    let place = Sandbox::new().with("GAVEL_CONFIG", "gavel.toml");
    place.write("gavel.toml", "[worker]\nconcurency = 1\n");
    place
        .run(&["doctor", "--no-probe"])
        .ends(2)
        .says("gavel.toml:2: unknown key worker.concurency; did you mean worker.concurrency?");
}

#[test]
fn a_bad_value_is_exit_2_and_names_what_was_used() {
    let place = Sandbox::new().with("GAVEL_WORKER_CONCURRENCY", "0");
    place
        .run(&["doctor", "--no-probe"])
        .ends(2)
        .says("GAVEL_WORKER_CONCURRENCY (worker.concurrency): \"0\" is out of range; give a whole number from 1 to 10000");
    place
        .run(&["up", "--concurrency", "lots"])
        .ends(2)
        .says("--concurrency (worker.concurrency): \"lots\" is not a whole number");
}

#[test]
fn an_unknown_gavel_variable_is_a_warning() {
    let place = Sandbox::new().with("GAVEL_WORKER_CONCURENCY", "4");
    let run = place.run(&["criteria", "check", "none.yaml"]).ends(2);
    run.says("did you mean GAVEL_WORKER_CONCURRENCY?");
}

#[test]
fn dotenv_is_read_and_the_real_environment_wins() {
    let place = Sandbox::new();
    place.write(".env", "GAVEL_LOG_FORMAT=xml\n");
    place
        .run(&["doctor", "--no-probe"])
        .ends(2)
        .says("GAVEL_LOG_FORMAT");
    let place = Sandbox::new().with("GAVEL_LOG_FORMAT", "text");
    place.write(".env", "GAVEL_LOG_FORMAT=xml\nOPENAI_API_KEY=sk-test\n");
    place.run(&["doctor", "--no-probe"]).ends(0);
    place.write(".env", "GAVEL_LOG_FORMAT=text\nOPENAI_API_KEY=a secret\n");
    let run = place.run(&["doctor", "--no-probe"]).ends(2).says(".env:2");
    assert!(!run.err.contains("secret"), "{}", run.err);
    place.run(&["--help"]).ends(0);
}

#[test]
fn completions_are_made_for_each_shell() {
    let place = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = place.run(&["completions", shell]).ends(0);
        assert!(run.out.contains("gavel"), "{shell}");
    }
}

#[test]
fn a_new_token_is_taken_by_the_settings_and_never_twice_the_same() {
    let place = Sandbox::new();
    let made = || {
        place
            .run(&["tokens", "new", "ci", "--scope", "enqueue"])
            .ends(0)
            .out
    };
    let (one, other) = (made(), made());
    assert!(
        one.starts_with("ci:enqueue:") && one.trim().len() == 11 + 64,
        "{one}"
    );
    assert_ne!(one, other);
    place.run(&["tokens", "new", "a:b"]).ends(2).says("colon");
}

#[test]
fn openapi_prints_the_document() {
    let document = Sandbox::new().run(&["openapi"]).ends(0).json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(document["paths"]["/api/v1/scoring/sessions/{session_id}/score"].is_object());
}

#[test]
fn serve_and_worker_name_the_servers_they_lack_and_the_way_without() {
    for command in ["serve", "worker"] {
        let place = Sandbox::new();
        place
            .run(&[command])
            .ends(2)
            .says("DATABASE_URL")
            .says("REDIS_URL")
            .says("gavel up");
        let place = place.with("DATABASE_URL", "postgres://127.0.0.1:1/none");
        let run = place.run(&[command]).ends(2).says("REDIS_URL");
        assert!(!run.err.contains("set DATABASE_URL"), "{}", run.err);
    }
}

#[test]
fn a_public_bind_without_tokens_is_refused_before_anything_is_opened() {
    let place = Sandbox::new();
    for command in ["up", "demo"] {
        place
            .run(&[command, "--bind", "0.0.0.0:0"])
            .ends(2)
            .says("auth.tokens");
    }
    assert!(!place.path().join("gavel-data").exists());
    assert!(!place.path().join("gavel-demo").exists());
}

#[test]
fn the_long_help_of_a_command_says_more_than_its_summary() {
    let place = Sandbox::new();
    place.run(&["up", "--help"]).ends(0).prints("SIGHUP");
    place.run(&["score", "--help"]).ends(0).prints("Exit codes");
}

#[test]
fn a_database_that_does_not_answer_is_named_with_the_setting() {
    let place = Sandbox::new()
        .with("DATABASE_URL", "postgres://ann:hunter2@127.0.0.1:1/none")
        .with("REDIS_URL", "redis://127.0.0.1:1")
        .with("GAVEL_DATABASE_CONNECT_TIMEOUT_S", "1");
    for command in ["serve", "worker", "migrate"] {
        let run = place.run(&[command]).ends(3).says("127.0.0.1:1/none");
        let run = run.says("DATABASE_URL");
        assert!(!run.err.contains("hunter2"), "{}", run.err);
    }
}

#[test]
fn what_is_neither_a_file_nor_an_id_is_exit_2() {
    let run = Sandbox::new().run(&["score", "sesion.json"]).ends(2);
    run.says("sesion.json: no such file, and not a session id");
}

#[test]
fn a_table_goes_into_a_file_of_its_own_format() {
    let place = Sandbox::new();
    for name in ["scores.xlsx", "scores.json"] {
        let run = place.run(&["export", "scores", "--output", name]).ends(2);
        run.says(&format!(
            "{name} names no format: end it with .csv or .parquet"
        ));
        assert!(!place.path().join(name).exists());
    }
}

#[test]
fn healthcheck_of_nobody_is_exit_3() {
    let server = "http://127.0.0.1:1";
    Sandbox::new()
        .run(&["healthcheck", "--server", server])
        .ends(3)
        .says(server);
    Sandbox::new()
        .run(&["healthcheck", "--server", "localhost:1"])
        .ends(2)
        .says("--server");
}

#[tokio::test]
async fn a_service_that_is_not_ready_says_why_and_a_strangers_error_is_none_of_it() {
    let lacks = "the database lacks 1 migration(s)";
    for (status, body, said) in [
        (
            503,
            json!({"status": "unavailable", "reasons": [lacks]}),
            lacks,
        ),
        (503, json!({"message": "no upstream"}), "is away"),
        (401, json!({"message": "no"}), "is this a gavel server"),
    ] {
        let server = MockServer::start().await;
        let answer = ResponseTemplate::new(status).set_body_json(body);
        Mock::given(any()).respond_with(answer).mount(&server).await;
        let check = ["healthcheck", "--ready", "--server", &server.uri()];
        drop(Sandbox::new().run(&check).ends(3).says(said));
    }
}

#[test]
fn criteria_check_names_the_fault_by_its_line_or_prints_the_hash() {
    let place = Sandbox::new();
    let good = include_str!("../../../config/scoring_config.yaml");
    place.write("good.yaml", good);
    let checked = place
        .run(&["criteria", "check", "good.yaml", "--json"])
        .ends(0)
        .json();
    assert_eq!(checked["criteria_hash"].as_str().unwrap().len(), 64);
    assert_eq!(checked["judge"], "openai-default");
    place.write(
        "bad.yaml",
        &good.replace("  llm_provider:", "  llm_provder:"),
    );
    place
        .run(&["criteria", "check", "bad.yaml"])
        .ends(2)
        .says("bad.yaml:")
        .says("llm_provider");
}

#[test]
fn config_show_says_where_each_value_came_from_and_no_secret() {
    let place = Sandbox::new()
        .with("GAVEL_WORKER_LEASE_S", "7.5")
        .with("DATABASE_URL", "postgres://u:hunter2@db/gavel")
        .with("GAVEL_AUTH_TOKENS", "ci:read:hunter2-is-long-enough")
        .with("GAVEL_HISTORY_TOKEN", "hunter2")
        .with("GAVEL_HISTORY_BASE_URL", "https://u:hunter2@tarsy");
    place.write("gavel.toml", "# mine\n[worker]\nconcurrency = 3\n");
    let run = place
        .run(&[
            "config",
            "show",
            "--origin",
            "--config",
            "gavel.toml",
            "--log",
            "debug",
        ])
        .ends(0)
        .prints("worker.concurrency = 3  # gavel.toml:3")
        .prints("worker.lease_s = 7.5  # GAVEL_WORKER_LEASE_S")
        .prints("database.url = \"postgres://u:***@db/gavel\"  # DATABASE_URL")
        .prints("log.filter = \"debug\"  # --log")
        .prints("bind = \"127.0.0.1:8080\"  # default")
        .prints("auth.tokens = [\"[hidden]\"]  # GAVEL_AUTH_TOKENS")
        .prints("history.token = \"[hidden]\"  # GAVEL_HISTORY_TOKEN")
        .prints("history.base_url = \"https://u:***@tarsy\"  # GAVEL_HISTORY_BASE_URL");
    assert!(!run.out.contains("hunter2") && !run.err.contains("hunter2"));
    let items = place.run(&["config", "show", "--json"]).ends(0).json();
    let items = items["items"].as_array().unwrap();
    let lease = items.iter().find(|one| one["key"] == "worker.lease_s");
    assert_eq!(lease.unwrap()["value"], 7.5);
}

#[test]
fn what_config_show_prints_is_a_settings_file() {
    let place = Sandbox::new();
    let shown = place.run(&["config", "show"]).ends(0).out;
    place.write("same.toml", &shown);
    let again = place
        .run(&["config", "show", "--config", "same.toml"])
        .ends(0);
    assert_eq!(again.out, shown);
}

#[test]
fn config_show_refuses_what_every_command_refuses() {
    let place = Sandbox::new().with("GAVEL_WORKER_CONCURRENCY", "many");
    let run = place.run(&["config", "show"]).ends(2);
    drop(run.says("GAVEL_WORKER_CONCURRENCY"));
}

#[test]
fn a_tarsy_that_can_not_be_asked_is_refused_by_its_key() {
    for (name, value, said) in [
        ("GAVEL_HISTORY_BASE_URL", "tarsy.example.com", "https://"),
        ("GAVEL_HISTORY_REQUESTS_PER_SECOND", "-1", "from 0.001 to"),
        (
            "GAVEL_HISTORY_REQUESTS_PER_SECOND",
            "1e-19",
            "from 0.001 to",
        ),
        ("GAVEL_HISTORY_TIMEOUT_S", "0", "from 0.1 to"),
    ] {
        let run = Sandbox::new().with(name, value).run(&["config", "show"]);
        drop(run.ends(2).says(name).says(said));
    }
    // Credentials in an address would be shown wherever it is.
    let place = Sandbox::new().with("GAVEL_HISTORY_BASE_URL", "https://u:hunter2@tarsy");
    let run = place.run(&["sessions", "list", "--data-dir", "."]).ends(2);
    let run = run.says("GAVEL_HISTORY_TOKEN");
    assert!(!run.err.contains("hunter2"), "{}", run.err);
}
