//! Runs of `gavel evaluate` with a changed or unavailable judge or service.

use axum::http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Sandbox;
use super::embedded::{Running, place_with_judge, session};
use super::evaluate::{doubtful, outcomes, question, results, right, suite, with_shell};

/// Built-in criteria of a kind with one change.
fn other_criteria(name: &str) -> String {
    let path = format!("{}/config/criteria/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.replacen("judge_prompt: |", "judge_prompt: |\n  Be strict.", 1)
}

/// Starts a run of one question without a reply, so that it can be resumed.
fn begun(place: &Sandbox) {
    suite(place, "suite.jsonl", &[question("a", "sql", "How many?")]);
    let args = [
        "evaluate",
        "suite.jsonl",
        "--agent-command",
        "false",
        "--output",
        "run",
    ];
    drop(place.run(&args).ends(3));
}

#[test]
fn run_resumes_only_under_its_original_criteria() {
    let (place, simulator) = place_with_judge();
    let place = with_shell(place);
    begun(&place);
    let header = std::fs::read_to_string(place.path().join("run/run.json")).unwrap();
    let header: Value = serde_json::from_str(&header).unwrap();
    let began = &header["judged_by"];
    assert_eq!(began["judge"], "simulated", "{header}");
    assert!(began["model"].is_string(), "{header}");
    let hash = began["criteria_hash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    let other = other_criteria("qas");
    assert!(other.contains("Be strict."));
    place.write("qas.yaml", &other);
    let place = place.with("GAVEL_CRITERIA_QAS", "qas.yaml");
    let again = ["evaluate", "--resume", "run", "--retry-errors"];
    let run = place.run(&again).ends(2);
    let run = run
        .says(&format!(
            "that run started with judge simulated ({}), criteria {}",
            began["model"].as_str().unwrap(),
            &hash[..8]
        ))
        .says("it would resume with judge simulated")
        .says("GAVEL_CRITERIA_QAS");
    assert_eq!(run.out, "", "nothing is told of what was not run");
    // With no item left to judge, the gates can be evaluated again.
    place.run(&["evaluate", "--resume", "run"]).ends(3);
    assert_eq!(simulator.stop("-TERM"), Some(0));
}

#[test]
fn run_judged_differently_than_its_baseline_gives_a_warning() {
    let (place, simulator) = place_with_judge();
    suite(&place, "suite.jsonl", &[doubtful("a"), doubtful("b")]);
    let run = |place: &Sandbox, name: &str, more: &[&str]| {
        let args = [
            "evaluate",
            "suite.jsonl",
            "--output",
            name,
            "--allow-simulated",
        ];
        place
            .run(&[&args[..], &["--min-mean", "0"], more].concat())
            .ends(0)
    };
    drop(run(&place, "a", &[]));
    let same = run(&place, "same", &["--baseline", "a"]);
    assert!(!same.out.contains("NOTE"), "{}", same.out);
    place.write("metrics.yaml", &other_criteria("query_correctness"));
    let place = place.with("GAVEL_CRITERIA_SQL_METRICS", "metrics.yaml");
    let told = "judged under criteria";
    drop(run(&place, "b", &["--baseline", "a"]).prints(told));
    place.run(&["compare", "a", "b"]).ends(0).prints(told);
    let json = place.run(&["compare", "a", "b", "--json"]).ends(0).json();
    assert_eq!(json["judging_differs"].as_array().unwrap().len(), 1);
    let hash = json["comparison"]["judged"]["criteria_b"].as_str().unwrap();
    let report = std::fs::read_to_string(place.path().join("b/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["criteria_hash"], hash);
    let judges = report["summary"]["judges"].as_object().unwrap();
    let judges: Vec<(&String, &Value)> = judges.iter().collect();
    assert_eq!(
        judges,
        [(&"simulated (simulated-judge-v1)".to_owned(), &json!(2))]
    );
    let summary = std::fs::read_to_string(place.path().join("b/summary.md")).unwrap();
    assert!(
        summary.contains(hash) && summary.contains("simulated-judge-v1"),
        "{summary}"
    );
    assert_eq!(simulator.stop("-TERM"), Some(0));
}

#[test]
fn unreachable_server_is_reported_before_the_run() {
    // Bound but not listening, so that no other process gets the port.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", held.local_addr().unwrap());
    let place = Sandbox::new();
    suite(&place, "suite.jsonl", &[right("a")]);
    let args = ["evaluate", "suite.jsonl", "--server", &address];
    let run = place.run(&args).ends(3).says(&address);
    let run = run.says("the service is unavailable").says("for up to 3 s");
    assert!(!run.err.contains("items to run"), "{}", run.err);
    assert!(!place.path().join("reports").exists(), "no run was begun");
}

async fn rejecting_judge(status: StatusCode) -> String {
    let answer = move || async move {
        (
            status,
            axum::Json(json!({"error": {"message": "no such key"}})),
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/v1")
}

#[tokio::test(flavor = "multi_thread")]
async fn judge_rejecting_its_key_ends_an_embedded_run_at_once() {
    for status in [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND] {
        let place = Sandbox::new()
            .with("DEFAULT_LLM_PROVIDER", "simulated")
            .with("GAVEL_SIMULATED_URL", &rejecting_judge(status).await);
        let cases: Vec<Value> = (0..40).map(|n| doubtful(&format!("c{n}"))).collect();
        suite(&place, "suite.jsonl", &cases);
        let run = tokio::task::spawn_blocking(move || {
            // It would wait for a day.
            let args = [
                "evaluate",
                "suite.jsonl",
                "--output",
                "run",
                "--max-wait",
                "86400",
            ];
            let run = place.run(&args).ends(3).prints("errors   40 misconfigured");
            let lines = results(&place, "run");
            assert_eq!(outcomes(&lines).len(), 40);
            for line in &lines {
                let (item, part) = (
                    &line["gavel"]["error"],
                    &line["result"]["metrics"]["query_correctness"]["error"],
                );
                assert_eq!(item["class"], "misconfigured", "{line}");
                assert_eq!(part["class"], "misconfigured", "{line}");
            }
            run
        });
        let run = run.await.unwrap();
        let told = "correct its key, its model or its address";
        assert_eq!(run.err.matches(told).count(), 1, "{}", run.err);
        assert!(!run.err.contains("last error"), "{}", run.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_reason_is_shown_before_the_wait_ends() {
    let place = Sandbox::new()
        .with("DEFAULT_LLM_PROVIDER", "simulated")
        .with(
            "GAVEL_SIMULATED_URL",
            &rejecting_judge(StatusCode::UNAUTHORIZED).await,
        );
    suite(&place, "suite.jsonl", &[doubtful("a")]);
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    let ran = tokio::task::spawn_blocking(move || {
        let up = ["up", "--bind", "127.0.0.1:0"];
        let (service, url) = Running::start(&place, &up, "listening on");
        // The first call fails at once; later ones wait.
        let first = ["score", "session.json", "--server", &url];
        drop(place.run(&first).ends(3).prints("no such key"));
        let refuses = "its judge rejects the key, the model or the address";
        for (command, said) in [
            (
                &["score", "session.json", "--wait", "10"][..],
                format!("waiting: {refuses}"),
            ),
            (
                &["evaluate", "suite.jsonl", "--max-wait", "5"],
                format!("items wait: {refuses}"),
            ),
        ] {
            let args = [command, &["--server", &url]].concat();
            let run = place.run(&args).ends(3).says(&said);
            assert!(
                !run.out.contains("/batches/"),
                "it is sent once it is judged"
            );
        }
        assert_eq!(service.stop("-TERM"), Some(0));
    });
    ran.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn judge_rejecting_its_key_stops_no_other_judge() {
    let (place, simulator) = place_with_judge();
    let place = place
        .with(
            "REFUSING_URL",
            &rejecting_judge(StatusCode::UNAUTHORIZED).await,
        )
        .with("GAVEL_LLM_PROVIDERS", "judges.yaml");
    place.write(
        "judges.yaml",
        "simulated:\n  type: openai\n  base_url: ${GAVEL_SIMULATED_URL}\n  auth: none\n  model: m\n  simulated: true\n\
         refusing:\n  type: openai\n  base_url: ${REFUSING_URL}\n  auth: none\n  model: m\n",
    );
    let case = |n: u64| {
        let mut case = json!({
            "id": format!("q{n}"), "generated_kql": format!("T{n} | count"), "expected_kql": format!("T{n} | take {n}"),
        });
        if n.is_multiple_of(2) {
            case["model"] = json!("refusing");
        }
        case
    };
    let cases: Vec<Value> = (0..40).map(case).collect();
    suite(&place, "suite.jsonl", &cases);
    let ran = tokio::task::spawn_blocking(move || {
        let mut args = vec!["evaluate", "suite.jsonl", "--output", "run"];
        args.extend(["--concurrency", "2", "--max-wait", "86400"]);
        let run = place.run(&args).ends(3).prints("errors   20 misconfigured");
        (results(&place, "run"), run)
    });
    let (lines, run) = ran.await.unwrap();
    assert_eq!(lines.len(), 40);
    for line in &lines {
        let refused = line["payload"]["model"] == "refusing";
        let class = &line["gavel"]["error"]["class"];
        assert_eq!(*class == "misconfigured", refused, "{line}");
        assert_eq!(line["result"]["total_score"].is_null(), refused, "{line}");
    }
    assert_eq!(run.err.matches("correct its key").count(), 1, "{}", run.err);
    assert_eq!(simulator.stop("-TERM"), Some(0));
}
