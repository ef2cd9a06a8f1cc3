//! Tests of the settings layers, their errors, and hidden secrets.

use std::collections::BTreeMap;

use super::*;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gavel.toml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn faults_of(text: &str) -> String {
    let (_dir, path) = file(text);
    load(&Sources {
        file: Some(path),
        ..Sources::default()
    })
    .expect_err("faulty")
    .to_string()
}

#[test]
fn flags_override_environment_file_and_defaults() {
    let (_dir, path) = file("[worker]\nconcurrency = 2\nmax_wait_s = 2\neconomy_part = 2\n");
    let loaded = load(&Sources {
        flags: vec![Flag {
            flag: "--concurrency",
            key: "worker.concurrency",
            value: "4".to_owned(),
        }],
        env: env(&[
            ("GAVEL_WORKER_CONCURRENCY", "3"),
            ("GAVEL_WORKER_MAX_WAIT_S", "3"),
        ]),
        file: Some(path),
    })
    .unwrap();
    let worker = &loaded.settings.worker;
    assert_eq!(worker.concurrency, 4, "the flag");
    assert_eq!(worker.max_wait_s, 3, "the environment");
    assert_eq!(worker.economy_part, 2, "the file");
    assert_eq!(worker.drain_timeout_s, 15, "the default");
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn environment_supports_all_value_shapes() {
    let settings = load(&Sources {
        env: env(&[
            ("GAVEL_AUTH_TOKENS", "ci:read,enqueue:aaaa  ops:admin:bbbb"),
            ("GAVEL_WORKER_LEASE_S", "2.5"),
            ("GAVEL_AUTH_INSECURE_NO_AUTH", "true"),
            ("GAVEL_BIND", "localhost:9000"),
            ("GAVEL_LOG_FORMAT", ""),
        ]),
        ..Sources::default()
    })
    .unwrap()
    .settings;
    let tokens: Vec<&str> = settings
        .auth
        .tokens
        .iter()
        .map(|token| token.as_str())
        .collect();
    assert_eq!(tokens, ["ci:read,enqueue:aaaa", "ops:admin:bbbb"]);
    assert!((settings.worker.lease_s - 2.5).abs() < f64::EPSILON);
    assert!(settings.auth.insecure_no_auth);
    assert_eq!(settings.bind, "127.0.0.1:9000");
    assert_eq!(settings.log.format, "text", "an empty variable is not set");
}

#[test]
fn gavel_database_url_overrides_database_url() {
    let url = |pairs: &[(&str, &str)]| {
        let sources = Sources {
            env: env(pairs),
            ..Sources::default()
        };
        load(&sources).unwrap().settings.database.url.to_string()
    };
    let plain = ("DATABASE_URL", "postgres://plain/db");
    let named = ("GAVEL_DATABASE_URL", "postgres://named/db");
    assert_eq!(url(&[plain]), "postgres://plain/db");
    assert_eq!(url(&[plain, named]), "postgres://named/db");
}

#[test]
fn unknown_key_reports_line_and_suggestion() {
    let fault = faults_of("bind = \"127.0.0.1:1\"\n\n[worker]\nconcurency = 4\n");
    assert!(
        fault.contains(
            "gavel.toml:4: unknown key worker.concurency; did you mean worker.concurrency?"
        ),
        "{fault}"
    );
    let fault = faults_of("[wroker]\nconcurrency = 4\n");
    assert!(
        fault.contains("did you mean worker.concurrency?"),
        "{fault}"
    );
}

#[test]
fn syntax_error_reports_line_without_excerpt() {
    let fault = faults_of("[database]\nurl = \"postgres://u:hunter2@h/db\nmax_connections = 1\n");
    assert!(fault.contains("gavel.toml:2: not TOML"), "{fault}");
    assert!(!fault.contains("hunter2"), "{fault}");
}

#[test]
fn rejects_values_of_wrong_type() {
    let fault = faults_of("[worker]\nconcurrency = \"16\"\n");
    assert!(
        fault.contains("gavel.toml:2: worker.concurrency has the wrong type; give an integer"),
        "{fault}"
    );
    let fault = faults_of("[worker]\nconcurrency = 1.6\n");
    assert!(fault.contains("give an integer"), "{fault}");
    let (_dir, path) = file("[worker]\nlease_s = 5\n");
    let sources = Sources {
        file: Some(path),
        ..Sources::default()
    };
    assert!(load(&sources).is_ok(), "a whole number is a number");
}

#[test]
fn reports_all_errors_with_the_given_names() {
    let (_dir, path) = file("[worker]\nlease_s = 0.1\n[judge]\nmax_retries = 99\n");
    let fault = load(&Sources {
        flags: vec![Flag {
            flag: "--bind",
            key: "bind",
            value: "8080".to_owned(),
        }],
        env: env(&[
            ("GAVEL_WORKER_CONCURRENCY", "0"),
            ("GAVEL_LOG_FORMAT", "xml"),
            ("GAVEL_WORKER_MAX_WAIT_S", "many"),
            ("GAVEL_JUDGE_BREAKER_FAILURES", "-1"),
            ("REDIS_URL", "http://example.com"),
        ]),
        file: Some(path),
    })
    .expect_err("faulty")
    .to_string();
    for part in [
        "GAVEL_WORKER_CONCURRENCY (worker.concurrency): \"0\" is out of range; give an integer from 1 to 10000",
        "GAVEL_WORKER_MAX_WAIT_S (worker.max_wait_s): \"many\" is not an integer",
        "GAVEL_JUDGE_BREAKER_FAILURES (judge.breaker_failures): \"-1\" is not an integer of at least 0; give an integer of at least 0",
        "GAVEL_LOG_FORMAT (log.format): \"xml\" is not a log format; give text or json",
        "gavel.toml:2: worker.lease_s: \"0.1\" is out of range; give a number from 0.5 to 3600",
        "gavel.toml:4: judge.max_retries",
        "--bind (bind): \"8080\" is not an address with a port",
        "REDIS_URL (redis.url)",
    ] {
        assert!(fault.contains(part), "{part}\n-- not in --\n{fault}");
    }
}

#[test]
fn accepts_single_postgres_connection() {
    let loaded = |most: &str| {
        load(&Sources {
            env: env(&[
                ("GAVEL_DATABASE_MAX_CONNECTIONS", most),
                ("DATABASE_URL", "postgres://h/db"),
            ]),
            ..Sources::default()
        })
    };
    assert!(loaded("1").is_ok());
    let fault = loaded("0").expect_err("none");
    assert!(
        fault.to_string().contains("give an integer from 1 to 1000"),
        "{fault}"
    );
}

#[test]
fn unknown_variable_warns_with_suggestion() {
    let loaded = load(&Sources {
        env: env(&[
            ("GAVEL_WORKER_CONCURENCY", "4"),
            ("GAVEL_SERVER", "http://127.0.0.1:8080"),
            ("GAVEL_SIMULATED_URL", "http://127.0.0.1:1"),
            ("HOME", "/root"),
        ]),
        ..Sources::default()
    })
    .unwrap();
    assert_eq!(
        loaded.warnings,
        [
            "unknown environment variable GAVEL_WORKER_CONCURENCY; did you mean GAVEL_WORKER_CONCURRENCY?; it is not read"
        ]
    );
}

#[test]
fn debug_and_errors_hide_secrets() {
    let settings = load(&Sources {
        env: env(&[
            ("DATABASE_URL", "postgres://u:hunter2@h/db?password=hunter2"),
            ("REDIS_URL", "redis://:hunter2@h/0"),
            ("GAVEL_AUTH_TOKENS", "ci:admin:hunter2"),
        ]),
        ..Sources::default()
    })
    .unwrap()
    .settings;
    let printed = format!("{settings:?}");
    assert!(!printed.contains("hunter2"), "{printed}");
    let fault = load(&Sources {
        env: env(&[("DATABASE_URL", "mysql://u:hunter2@h/db")]),
        ..Sources::default()
    })
    .expect_err("not Postgres")
    .to_string();
    assert!(!fault.contains("hunter2"), "{fault}");
    assert!(fault.contains("DATABASE_URL (database.url)"), "{fault}");
    assert_eq!(
        redacted_url("postgres://u:p/w@h/db"),
        "postgres://u:***@h/db"
    );
}

#[test]
fn default_judge_variable_uses_setting_and_overrides() {
    let mut settings = load(&Sources {
        env: env(&[("DEFAULT_LLM_PROVIDER", "anthropic-default")]),
        ..Sources::default()
    })
    .unwrap()
    .settings;
    settings
        .substitutions
        .insert("GAVEL_SIMULATED_URL".to_owned(), "http://x".to_owned());
    let look_up = env_with_default(&settings);
    assert_eq!(
        look_up("DEFAULT_LLM_PROVIDER").as_deref(),
        Some("anthropic-default")
    );
    assert_eq!(look_up("GAVEL_SIMULATED_URL").as_deref(), Some("http://x"));
    assert_eq!(look_up("GAVEL_NO_SUCH_VARIABLE"), None);
}

#[test]
fn dotenv_error_reports_line_without_excerpt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".env");
    std::fs::write(&path, "# keys\nOPENAI_API_KEY=a b hunter2\n").unwrap();
    let fault = read_dotenv(&path).expect_err("faulty").to_string();
    assert!(fault.contains(".env:2: not a line"), "{fault}");
    assert!(!fault.contains("hunter2"), "{fault}");
    assert_eq!(read_dotenv(&dir.path().join("none")), Ok(()));
}

#[test]
fn webhooks_from_file_or_variable_are_hidden() {
    let secret = crate::outbound::secret_of(&[7; 32]);
    let text = format!(
        "[[webhooks.endpoints]]\nname = \"ops\"\nurl = \"https://hooks.example.com/a-path\"\nsecret = \"{secret}\"\nevents = [\"job.failed\"]\n\n\
         [[webhooks.endpoints]]\nname = \"chat\"\nurl = \"https://chat.example.com\"\nformat = \"slack\"\n"
    );
    let (_dir, path) = file(&text);
    let loaded = load(&Sources {
        file: Some(path),
        ..Sources::default()
    })
    .unwrap();
    let of_file = &loaded.settings.webhooks.endpoints;
    let events: Vec<usize> = of_file.iter().map(|one| one.events.len()).collect();
    assert_eq!(events, [1, crate::wire::WebhookEvent::ALL.len()]);
    let json = serde_json::to_string(of_file).unwrap();
    let sources = Sources {
        env: env(&[("GAVEL_WEBHOOKS_ENDPOINTS", &json)]),
        ..Sources::default()
    };
    assert_eq!(
        &load(&sources).unwrap().settings.webhooks.endpoints,
        of_file
    );
    let shown = loaded
        .values
        .iter()
        .find(|one| one.key == "webhooks.endpoints")
        .unwrap();
    assert_eq!(shown.value, serde_json::json!(["ops", "chat"]));
    let debug = format!("{:?}", loaded.settings);
    assert!(
        !debug.contains(&secret) && !debug.contains("a-path"),
        "{debug}"
    );

    for (endpoint, fault) in [
        (
            "name = \"ops\"\nurl = \"hooks\"\nsecret = \"whsec_short\"\n".to_owned(),
            "\"ops\": url is not an address",
        ),
        (
            format!("name = \"ops\"\nurl = \"https://a\"\nsecret = \"{secret}\"\nevents = []\n"),
            "\"ops\": events is empty",
        ),
        (
            "name = \"ops\"\nurl = \"https://a\"\n".to_owned(),
            "\"ops\": secret is missing",
        ),
        (
            "name = \"ops\"\nurl = \"https://a\"\nformat = \"teams\"\n".to_owned(),
            "teams",
        ),
    ] {
        let found = faults_of(&format!("[[webhooks.endpoints]]\n{endpoint}"));
        assert!(
            found.contains(fault) && !found.contains("whsec_short"),
            "{found}"
        );
    }
    for value in ["{\"name\": \"whsec_x\"}", "[\"whsec_x\"]", "whsec_x"] {
        let sources = Sources {
            env: env(&[("GAVEL_WEBHOOKS_ENDPOINTS", value)]),
            ..Sources::default()
        };
        let found = load(&sources).unwrap_err().to_string();
        assert!(
            found.contains("is not a JSON list of objects") && !found.contains("whsec_x"),
            "{found}"
        );
    }
}
