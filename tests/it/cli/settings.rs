//! Help, usage, settings and files: commands that need no store.

use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::Sandbox;

#[test]
fn invalid_settings_file_is_exit_2_with_its_line() {
    let place = Sandbox::new();
    place.write(
        "gavel.toml",
        "bind = \"127.0.0.1:0\"\n[worker\nconcurrency = 1\n",
    );
    place
        .run(&["--config", "gavel.toml", "doctor", "--no-probe"])
        .ends(2)
        .says("gavel.toml:2: not TOML");
    place
        .run(&["--config", "none.toml", "doctor", "--no-probe"])
        .ends(2)
        .says("none.toml: can't be read");
}

#[test]
fn unknown_key_is_exit_2_with_a_suggestion() {
    let place = Sandbox::new().with("GAVEL_CONFIG", "gavel.toml");
    place.write("gavel.toml", "[worker]\nconcurency = 1\n");
    place
        .run(&["doctor", "--no-probe"])
        .ends(2)
        .says("gavel.toml:2: unknown key worker.concurency; did you mean worker.concurrency?");
}

#[test]
fn invalid_value_is_exit_2_and_names_its_source() {
    let place = Sandbox::new().with("GAVEL_WORKER_CONCURRENCY", "0");
    place
        .run(&["doctor", "--no-probe"])
        .ends(2)
        .says("GAVEL_WORKER_CONCURRENCY (worker.concurrency): \"0\" is out of range; give an integer from 1 to 10000");
    place
        .run(&["up", "--concurrency", "lots"])
        .ends(2)
        .says("--concurrency (worker.concurrency): \"lots\" is not an integer");
}

#[test]
fn unknown_gavel_variable_is_a_warning() {
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
fn completions_are_generated_for_each_shell() {
    let place = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = place.run(&["completions", shell]).ends(0);
        assert!(run.out.contains("gavel"), "{shell}");
    }
}

#[test]
fn new_token_is_accepted_by_the_settings_and_unique() {
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
fn serve_and_worker_name_missing_servers_and_the_alternative() {
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
fn public_bind_without_tokens_is_rejected_first() {
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
fn unreachable_database_is_named_with_the_setting() {
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
fn healthcheck_without_a_server_is_exit_3() {
    let server = "http://127.0.0.1:1";
    Sandbox::new()
        .run(&["healthcheck", "--server", server])
        .ends(3)
        .says(server);
}

#[tokio::test]
async fn unready_service_gives_reasons_and_foreign_errors_are_hidden() {
    let lacks = "the database is missing 1 migration(s)";
    for (status, body, said) in [
        (
            503,
            json!({"status": "unavailable", "reasons": [lacks]}),
            lacks,
        ),
        (503, json!({"message": "no upstream"}), "is unavailable"),
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
fn config_show_names_sources_and_hides_secrets() {
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
fn config_show_output_is_a_settings_file() {
    let place = Sandbox::new();
    let shown = place.run(&["config", "show"]).ends(0).out;
    place.write("same.toml", &shown);
    let again = place
        .run(&["config", "show", "--config", "same.toml"])
        .ends(0);
    assert_eq!(again.out, shown);
}

#[test]
fn invalid_tarsy_address_is_rejected_by_its_key() {
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
    // Credentials in an address would be shown along with it.
    let place = Sandbox::new().with("GAVEL_HISTORY_BASE_URL", "https://u:hunter2@tarsy");
    let run = place.run(&["sessions", "list", "--data-dir", "."]).ends(2);
    let run = run.says("GAVEL_HISTORY_TOKEN");
    assert!(!run.err.contains("hunter2"), "{}", run.err);
}
