//! `gavel evaluate` and `gavel compare` as processes: gates, exit codes, agents, and resuming after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::embedded::{Running, place_with_judge};
use super::{Run, Sandbox};
use crate::support::judge_server::{JudgeServer, Reply};

/// Correct case that needs no judge.
pub(super) fn right(id: &str) -> Value {
    json!({"id": id, "generated_sql": "select 1", "expected_sql": "SELECT 1;"})
}

/// Wrong case that needs no judge.
fn wrong(id: &str) -> Value {
    json!({"id": id, "generated_sql": "select 1", "is_valid": false, "should_pass": true, "errors": ["near select"]})
}

pub(super) fn suite(place: &Sandbox, name: &str, rows: &[Value]) {
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    place.write(name, &(lines.join("\n") + "\n"));
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(super) fn results(place: &Sandbox, run: &str) -> Vec<Value> {
    lines(&place.path().join(run).join("evaluation-results.jsonl"))
}

/// Outcome of each item by its last line.
pub(super) fn outcomes(results: &[Value]) -> BTreeMap<u64, String> {
    let outcome = |line: &Value| {
        let gavel = &line["gavel"];
        (
            gavel["item_no"].as_u64().unwrap(),
            gavel["outcome"].as_str().unwrap().to_owned(),
        )
    };
    results.iter().map(outcome).collect()
}

pub(super) fn with_shell(place: Sandbox) -> Sandbox {
    let path = std::env::var("PATH").unwrap_or_default();
    place.with("PATH", &path)
}

#[test]
fn exit_code_shows_whether_the_gate_passes() {
    let place = Sandbox::new();
    suite(&place, "good.jsonl", &[right("a"), right("b")]);
    suite(
        &place,
        "mixed.jsonl",
        &[right("a"), wrong("b"), right("c"), right("d")],
    );
    place
        .run(&["evaluate", "good.jsonl", "--output", "good"])
        .ends(0)
        .prints("PASSED");
    for report in [
        "report.json",
        "report.xlsx",
        "report.csv",
        "junit.xml",
        "summary.md",
    ] {
        assert!(place.path().join("good").join(report).is_file(), "{report}");
    }
    place
        .run(&["evaluate", "mixed.jsonl", "--output", "mixed"])
        .ends(1)
        .prints("1 of 4 scored items did not pass")
        .prints("\ndid not pass\n  b  Score: ");
    place
        .run(&["evaluate", "mixed.jsonl", "--min-pass-rate", "75%"])
        .ends(0);
    place
        .run(&["evaluate", "mixed.jsonl", "--min-pass-rate", "0.76"])
        .ends(1)
        .prints("below --min-pass-rate 0.76");
    let run = place
        .run(&["evaluate", "mixed.jsonl", "--min-mean", "0.9", "--json"])
        .ends(1);
    let json = run.json();
    assert_eq!(json["decision"], "failed");
    assert_eq!(
        (&json["exit_code"], &json["figures"]["n"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(json["kind"], "sql_metrics");
}

#[test]
fn closed_stdout_does_not_change_the_exit_code() {
    let place = Sandbox::new();
    suite(&place, "mixed.jsonl", &[right("a"), wrong("b")]);
    for args in [
        &["evaluate", "mixed.jsonl", "--output", "first"][..],
        &["evaluate", "--resume", "first", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = place.command(args).stdout(writer).status().unwrap();
        assert_eq!(ended.code(), Some(1), "{args:?}");
    }
}

#[test]
fn run_resumes_only_its_suite_and_reruns_only_failures() {
    let place = Sandbox::new();
    suite(&place, "suite.jsonl", &[right("a"), wrong("b"), wrong("c")]);
    place
        .run(&["evaluate", "suite.jsonl", "--output", "first"])
        .ends(1);
    let run = place.run(&[
        "evaluate",
        "suite.jsonl",
        "--only-failed",
        "first",
        "--output",
        "second",
    ]);
    run.ends(1).says("2 of 3 items to run");
    let again = outcomes(&results(&place, "second"));
    assert_eq!(again.keys().copied().collect::<Vec<_>>(), [1, 2]);
    // Items outside the limit of a run aren't reported.
    for (earlier, limit, left) in [("second", "3", "2 of 3"), ("part", "2", "1 of 3")] {
        if limit == "2" {
            let part = [
                "evaluate",
                "suite.jsonl",
                "--limit",
                limit,
                "--output",
                earlier,
            ];
            place.run(&part).ends(1);
        }
        place
            .run(&["evaluate", "suite.jsonl", "--only-failed", earlier])
            .ends(1)
            .says(&format!("{left} items to run"));
    }
    // No item is left: the gate is reported again without a run.
    place
        .run(&["evaluate", "--resume", "first"])
        .ends(1)
        .says("0 of 3 items to run");
    assert_eq!(results(&place, "first").len(), 3);
    place
        .run(&["evaluate", "--resume", "first", "--limit", "1"])
        .ends(2)
        .says("'--limit <N>'");
    place
        .run(&["evaluate", "suite.jsonl", "--output", "first"])
        .ends(2)
        .says("--resume");
    suite(&place, "suite.jsonl", &[right("a"), right("b"), right("c")]);
    place
        .run(&["evaluate", "--resume", "first"])
        .ends(2)
        .says("that run used another suite");
    suite(&place, "all.jsonl", &[right("a")]);
    place
        .run(&["evaluate", "all.jsonl", "--output", "all"])
        .ends(0);
    place
        .run(&["evaluate", "all.jsonl", "--only-failed", "all"])
        .ends(4)
        .says("every item of that run passed");
}

#[test]
fn runs_are_compared_with_each_other_and_with_a_baseline() {
    let place = Sandbox::new();
    suite(
        &place,
        "a.jsonl",
        &[right("x"), right("y"), wrong("z"), right("gone")],
    );
    suite(
        &place,
        "b.jsonl",
        &[wrong("x"), right("y"), right("z"), wrong("new")],
    );
    suite(&place, "c.jsonl", &[wrong("x"), wrong("y"), wrong("z")]);
    place.run(&["evaluate", "a.jsonl", "--output", "a"]).ends(1);
    place.run(&["evaluate", "b.jsonl", "--output", "b"]).ends(1);
    let shown = place.run(&["compare", "a", "b"]).ends(0);
    let (fell, rose) = (
        shown.out.find("passed, and misses now: 1"),
        shown.out.find("missed, and passes now: 1"),
    );
    assert!(fell.is_some() && fell < rose, "{}", shown.out);
    shown
        .prints("only in B: 1 (new)")
        .prints("only in A: 1 (gone)");
    let json = place.run(&["compare", "a", "b", "--json"]).ends(0).json();
    assert_eq!(json["comparison"]["compared"], 3);
    assert_eq!(json["comparison"]["pass_to_fail"][0]["id"], "x");
    let base = ["evaluate", "c.jsonl", "--baseline", "a", "--max-regression"];
    place
        .run(&[&base[..], &["0.1"]].concat())
        .ends(1)
        .prints("the mean fell by");
    place.run(&[&base[..], &["100%"]].concat()).ends(0);
    place
        .run(&["compare", "a", "nowhere"])
        .ends(2)
        .says("nowhere");
    place
        .run(&["compare", "b", "b", "--max-regression", "0"])
        .ends(0)
        .prints("PASSED");
}

#[test]
fn second_run_reuses_replies_despite_another_simulator_address() {
    let place = Sandbox::new();
    let cases: Vec<Value> = (0..3)
        .map(|i| {
            json!({"id": format!("c{i}"), "generated_sql": format!("select a from t where b = {i}"),
                "expected_sql": "select a from u"})
        })
        .collect();
    suite(&place, "suite.jsonl", &cases);
    let tokens = |run: &str| {
        let args = ["evaluate", "suite.jsonl", "--simulate", "--output", run];
        place.run(&args).ends(3);
        let report = std::fs::read_to_string(place.path().join(run).join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["summary"]["simulated"], 3, "{report}");
        report["summary"]["usage"]["tokens_in"].as_u64().unwrap()
    };
    assert!(tokens("first") > 0);
    assert_eq!(tokens("second"), 0);
}

pub(super) fn doubtful(id: &str) -> Value {
    json!({"id": id, "generated_sql": format!("select {id} from t"), "expected_sql": "select b from u"})
}

fn summary(place: &Sandbox, run: &str) -> String {
    std::fs::read_to_string(place.path().join(run).join("summary.md")).unwrap()
}

#[test]
fn simulated_judge_uses_the_data_folder_despite_database_url() {
    // No server listens there: with that database the run would end with 3.
    let place = Sandbox::new()
        .with("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/none")
        .with("REDIS_URL", "redis://127.0.0.1:1")
        .with("GAVEL_DATABASE_CONNECT_TIMEOUT_S", "0");
    suite(&place, "suite.jsonl", &[doubtful("a"), doubtful("b")]);
    let args = ["evaluate", "suite.jsonl", "--simulate", "--output", "run"];
    let run = place.run(&args).ends(3).prints("SIMULATED");
    let run = run.says("DATABASE_URL and REDIS_URL are ignored");
    assert!(!run.err.contains("hunter2"), "{}", run.err);
    assert!(place.path().join("gavel-data").is_dir());
    assert_eq!(outcomes(&results(&place, "run"))[&1], "scored");
}

#[test]
fn resumed_run_uses_its_simulated_judge_and_rejects_run_flags() {
    let place = with_shell(Sandbox::new());
    suite(&place, "suite.jsonl", &[question("a", "sql", "How many?")]);
    let args = ["evaluate", "suite.jsonl", "--simulate", "--output", "run"];
    let agent = ["--agent-command", "false", "--data-dir", "elsewhere"];
    let run = place.run(&[&args[..], &agent].concat()).ends(3);
    let command = "with: gavel evaluate --resume run --retry-errors";
    drop(run.says(command));
    let resume = ["evaluate", "--resume", "run"];
    let retry = ["--retry-errors", "--data-dir", "elsewhere"];
    place
        .run(&[&resume[..], &retry].concat())
        .ends(3)
        .says("1 of 1 items to run");
    for flag in [
        &["--simulate"][..],
        &["--no-judge"],
        &["--allow-simulated"],
        &["--kind", "query"],
        &["--limit", "1"],
        &["--output", "other"],
        &["--only-failed", "run"],
        &["--agent-results", "a.jsonl"],
        &["--agent-command", "true"],
        &["--criteria-hash", "abc"],
        &["--force"],
        &["--min-pass-rate", "0"],
        &["--min-mean", "0"],
        &["--max-errors", "1"],
        &["--baseline", "run"],
        &["--max-regression", "0"],
        &["--name", "n"],
        &["--branch", "b"],
        &["--commit", "c"],
    ] {
        place
            .run(&[&resume[..], flag].concat())
            .ends(2)
            .says("cannot be used with");
    }
}

#[test]
fn unreadable_sql_is_incomplete_and_fails_each_gate() {
    let place = Sandbox::new();
    let case =
        |id: &str, sql: &str| json!({"id": id, "generated_sql": sql, "expected_tables": ["a"]});
    let good = "SELECT x FROM a";
    suite(&place, "good.jsonl", &[case("1", good), case("2", good)]);
    suite(
        &place,
        "bad.jsonl",
        &[case("1", good), case("2", "SELEC x")],
    );
    let evaluate = |suite: &str, out: &str, more: &[&str], code: i32| {
        let args = ["evaluate", suite, "--simulate", "--output", out, "--json"];
        place
            .run(&[&args[..], &["--allow-simulated"], more].concat())
            .ends(code)
            .json()
    };
    drop(evaluate("good.jsonl", "good", &[], 0));
    let query = json!({"generated_kql": "T", "expected_kql": "T"});
    suite(&place, "query.jsonl", &[query]);
    let other = [
        "evaluate",
        "query.jsonl",
        "--no-judge",
        "--baseline",
        "good",
    ];
    drop(place.run(&other).ends(2).says("a run of kind sql_metrics"));
    let bad = evaluate("bad.jsonl", "bad", &[], 3);
    let figures = &bad["figures"];
    assert_eq!(
        (
            &figures["scored"],
            &figures["missed"],
            &figures["incomplete"]
        ),
        (&json!(1), &json!(0), &json!(1)),
        "{figures}"
    );
    assert_eq!(figures["coverage"], 0.5, "{figures}");
    for (n, gates) in [
        &["--min-pass-rate", "0.5"][..],
        &["--min-mean", "0.5"],
        &["--baseline", "good", "--max-regression", "1"],
    ]
    .into_iter()
    .enumerate()
    {
        drop(evaluate("bad.jsonl", &format!("gated{n}"), gates, 3));
        // With `--max-errors` the gates apply to the scored items.
        let allowed = [gates, &["--max-errors", "1"]].concat();
        drop(evaluate("bad.jsonl", &format!("allowed{n}"), &allowed, 0));
    }
    let junit = std::fs::read_to_string(place.path().join("bad/junit.xml")).unwrap();
    assert!(
        junit.contains("<error") && !junit.contains("<failure"),
        "{junit}"
    );
}

#[test]
fn missing_scope_is_reported_before_agents_are_called() {
    let tokens = "somebody:read:reading-is-allowed ci:enqueue:scoring-is-allowed";
    let place = with_shell(Sandbox::new()).with("GAVEL_AUTH_TOKENS", tokens);
    let up = ["up", "--bind", "127.0.0.1:0"];
    let (service, url) = Running::start(&place, &up, "listening on");
    suite(&place, "suite.jsonl", &[question("a", "sql", "How many?")]);
    let run = |token: &str, out: &str| {
        place.run(&[
            "evaluate",
            "suite.jsonl",
            "--server",
            &url,
            "--token",
            token,
            "--agent-command",
            "touch asked; false",
            "--output",
            out,
        ])
    };
    drop(
        run("reading-is-allowed", "reader")
            .ends(2)
            .says("doesn't have the scope"),
    );
    assert!(!place.path().join("asked").exists(), "no agent was asked");
    assert!(!place.path().join("reader").exists(), "no run was begun");
    drop(run("scoring-is-allowed", "ci").ends(3));
    assert!(place.path().join("asked").exists(), "its agent was asked");
    assert_eq!(service.stop("-TERM"), Some(0));
}

#[test]
fn run_is_shown_as_a_batch_without_further_cost() {
    let (place, simulator) = place_with_judge();
    let place = place
        .with("GITHUB_REF_NAME", "main")
        .with("GITHUB_SHA", "0f3c2a9b1d4e5f60718293a4b5c6d7e8f9012345");
    let up = ["up", "--bind", "127.0.0.1:0"];
    let (service, url) = Running::start(&place, &up, "listening on");
    let cases = [right("a"), wrong("b"), doubtful("c")];
    suite(&place, "nightly.jsonl", &cases);
    let server = ["--server", url.as_str(), "--json"];
    let evaluate = |out: &str, more: &[&str], code: i32| {
        let args = ["evaluate", "nightly.jsonl", "--output", out];
        place.run(&[&args, more].concat()).ends(code)
    };
    let run = evaluate("run", &server, 3).json();
    let (address, id) = run["page"].as_str().unwrap().rsplit_once('/').unwrap();
    assert_eq!(address, format!("{url}/batches"));
    let watch = |id: &str| place.run(&[&["batches", "watch", id][..], &server].concat());
    let batch = watch(id).ends(0).json();
    assert_eq!(batch["name"], "nightly main@0f3c2a9b1d4e");
    assert_eq!(batch["counts"]["total"], 3);
    assert_eq!(batch["tokens"]["in"], 0, "its replies were there: {batch}");
    // The same run is the same batch; another name makes another batch.
    let push = |flags: &[&str]| {
        let args = ["batches", "push", "run"];
        let pushed = place.run(&[&args, flags, &server].concat()).ends(0);
        let batch = pushed.json();
        drop(pushed.says(&format!("{url}/batches/")));
        (batch["batch_id"].clone(), batch["name"].clone())
    };
    assert_eq!(push(&[]).0, id);
    let (other, name) = push(&["--name", "again", "--branch", "dev"]);
    assert_ne!(other, id);
    assert_eq!(name, "again dev@0f3c2a9b1d4e");
    assert_eq!(service.stop("-TERM"), Some(0));
    // A run without a server is sent later.
    drop(evaluate("alone", &["--simulate", "--data-dir", "own"], 3));
    let (service, url) = Running::start(&place, &up, "listening on");
    let args = ["batches", "push", "alone", "--json", "--server", &url];
    let batch = place.run(&args).ends(0).json();
    assert_eq!(batch["counts"]["total"], 3);
    // The service may not know its criteria.
    let header = place.path().join("alone/run.json");
    let mut told: Value = serde_json::from_str(&std::fs::read_to_string(&header).unwrap()).unwrap();
    told["judged_by"]["criteria_hash"] = json!("f".repeat(64));
    std::fs::write(&header, told.to_string()).unwrap();
    drop(
        place
            .run(&args)
            .ends(0)
            .says("it scores by its current ones"),
    );
    let nowhere = ["batches", "push", "nowhere", "--server", &url];
    drop(place.run(&nowhere).ends(2).says("run.json"));
    assert_eq!(service.stop("-TERM"), Some(0));
    assert_eq!(simulator.stop("-TERM"), Some(0));
}

#[test]
fn run_without_a_callable_judge_is_rejected_without_a_folder() {
    let place = Sandbox::new();
    suite(
        &place,
        "suite.jsonl",
        &[right("b"), right("c"), doubtful("a")],
    );
    let run = place.run(&["evaluate", "suite.jsonl"]).ends(2);
    let run = run.says("OPENAI_API_KEY").says("--no-judge");
    assert_eq!(run.out, "", "nothing was run");
    assert!(!place.path().join("reports").exists(), "{}", run.err);
    let jobs = place.run(&["jobs", "list", "--json"]).ends(0);
    assert_eq!(
        jobs.json()["items"],
        json!([]),
        "nothing waits for a worker"
    );
    std::fs::create_dir(place.path().join("mine")).unwrap();
    place
        .run(&["evaluate", "suite.jsonl", "--output", "mine/run"])
        .ends(2)
        .says("--no-judge");
    let left = std::fs::read_dir(place.path().join("mine")).unwrap();
    assert_eq!(left.count(), 0, "the folder that was there stays, empty");
}

#[test]
fn metric_findings_are_logged_on_request() {
    let place = Sandbox::new();
    let blocked =
        json!({"id": "a", "generated_sql": "select 1", "safety_valid": false, "should_pass": true});
    suite(&place, "suite.jsonl", &[blocked]);
    let args = ["evaluate", "suite.jsonl", "--no-judge"];
    let log =
        " WARN gavel::suite::run::computed: safety_validation: Safe query incorrectly blocked";
    let silent = place.run(&args);
    assert!(!silent.err.contains(log), "{}", silent.err);
    drop(
        place
            .run(&[&args[..], &["--log", "warn"]].concat())
            .says(log),
    );
}

#[test]
fn reports_of_a_run_show_its_gate_results() {
    let place = Sandbox::new();
    suite(&place, "mixed.jsonl", &[right("a"), wrong("b")]);
    for (flags, code, word) in [
        (&["--min-pass-rate", "0"][..], 0, "PASSED"),
        (&["--min-pass-rate", "0.9"][..], 1, "FAILED"),
        (&["--no-judge", "--min-pass-rate", "0"][..], 3, "INCOMPLETE"),
    ] {
        let args = ["evaluate", "mixed.jsonl", "--output", word];
        place.run(&[&args[..], flags].concat()).ends(code);
        let told = summary(&place, word);
        let headline = told.lines().find(|line| line.starts_with("**")).unwrap();
        assert!(headline.starts_with(&format!("**{word}: ")), "{told}");
        let json = std::fs::read_to_string(place.path().join(word).join("report.json")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["summary"]["gate"]["decision"], word.to_lowercase());
    }
    // Requested again without the flags of the run.
    place
        .run(&["report", "PASSED"])
        .ends(0)
        .prints("**FAIL: ")
        .prints("The verdict ignores gates");
}

#[test]
fn run_without_a_judge_is_incomplete_in_its_reports() {
    let place = Sandbox::new();
    let same =
        |id: &str| json!({"id": id, "generated_kql": "T | count", "expected_kql": "T | count"});
    suite(&place, "suite.jsonl", &[same("a"), same("b"), same("c")]);
    let args = ["evaluate", "suite.jsonl", "--no-judge", "--output", "run"];
    place.run(&args).ends(3).prints("INCOMPLETE");
    assert!(summary(&place, "run").contains("**INCOMPLETE: "));
    let xml = std::fs::read_to_string(place.path().join("run/junit.xml")).unwrap();
    assert!(
        xml.contains("name=\"verdict\" value=\"INCOMPLETE\""),
        "{xml}"
    );
    let json = place
        .run(&["report", "run", "--format", "json"])
        .ends(0)
        .json();
    assert_eq!(json["summary"]["verdict"], "incomplete");
    assert_eq!(json["summary"]["scored"], 3);
}

#[test]
fn suite_text_is_escaped_and_empty_suite_is_rejected() {
    let place = Sandbox::new();
    place.write("hostile.jsonl", "{\"id\": \"\\u001b[31m\\u0007x\", \"question\": \"?\", \"agent\": \"\\u001b]0;t\\u0007\"}\n");
    place.write("column.csv", "id,\u{1b}[2Jgenerated_sql\n1,2\n");
    for name in ["hostile.jsonl", "column.csv"] {
        let run = place.run(&["evaluate", name]).ends(2);
        let drives = |c: char| c.is_control() && c != '\n';
        assert!(!run.err.contains(drives), "{:?}", run.err);
    }
    for name in ["empty.jsonl", "empty.json", "empty.csv"] {
        place.write(name, "");
        let run = place.run(&["evaluate", name]).ends(2);
        drop(run.says("the file is empty"));
    }
    place.write("none.json", "[]");
    place
        .run(&["evaluate", "none.json"])
        .ends(4)
        .says("no items");
}

pub(super) fn question(id: &str, agent: &str, text: &str) -> Value {
    json!({
        "id": id, "question": text, "agent": agent, "difficulty": "easy", "category": "counts",
        "expected_sql": "select 7", "expected_answer_type": "number", "expected_results": 7,
    })
}

#[test]
fn unreachable_agent_is_named_with_its_address() {
    let (_nobody, address) = crate::support::no_listener();
    let place = Sandbox::new().with("GAVEL_AGENTS_DOCKING_URL", &format!("http://{address}"));
    suite(
        &place,
        "suite.jsonl",
        &[question("a", "docking", "How many docks are free?")],
    );
    place
        .run(&["evaluate", "suite.jsonl"])
        .ends(3)
        .says(&format!(
            "the agent docking is not reachable at http://{address}"
        ));
    suite(&place, "suite.jsonl", &[question("a", "sql", "How many?")]);
    place
        .run(&["evaluate", "suite.jsonl"])
        .ends(2)
        .says("GAVEL_AGENTS_SQL_URL");
    let missing = [
        "evaluate",
        "suite.jsonl",
        "--no-judge",
        "--agent-command",
        "no-such-command",
    ];
    let place = with_shell(place);
    place.run(&missing).ends(2).says("can't be run");
    let runs = place.path().join("reports/evaluation-runs");
    assert!(!runs.exists(), "there is nothing to go on with");
}

#[test]
fn agent_failure_fails_that_item_and_is_retried_on_request() {
    let place = with_shell(Sandbox::new());
    let questions = [
        question("a", "sql", "good"),
        question("b", "sql", "bad"),
        question("c", "sql", "good"),
    ];
    suite(&place, "suite.jsonl", &questions);
    place.write(
        "agent.sh",
        "read question\necho \"$question\" >> asked\nif [ \"$question\" = bad ] && [ ! -e mended ]; then echo 'no idea' >&2; \
         exit 9; fi\necho '{\"sql\": \"SELECT 7;\", \"results\": [{\"n\": 7}], \"success\": true}'\n",
    );
    let args = [
        "evaluate",
        "suite.jsonl",
        "--agent-command",
        "sh agent.sh",
        "--output",
        "run",
        "--json",
    ];
    let run = place.run(&args).ends(3);
    assert_eq!(run.json()["figures"]["errors"], json!({"agent": 1}));
    let results = results(&place, "run");
    let failed = results.iter().find(|line| line["test_id"] == "b").unwrap();
    let message = failed["gavel"]["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("exit code 9") && message.contains("no idea"),
        "{message}"
    );
    place.write("mended", "");
    place
        .run(&["evaluate", "--resume", "run", "--retry-errors"])
        .ends(0)
        .says("1 of 3 items to run");
    let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
    assert_eq!(
        asked.lines().count(),
        4,
        "only the failed question was asked again: {asked}"
    );
    // Its replies are reused by another run.
    let args = [
        "evaluate",
        "suite.jsonl",
        "--agent-results",
        "run/test-results.jsonl",
    ];
    place.run(&args).ends(0);
    let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
    assert_eq!(asked.lines().count(), 4);
}

#[test]
fn run_with_a_silent_agent_is_incomplete_despite_max_errors() {
    let place = with_shell(Sandbox::new());
    let asked = [question("a", "sql", "?"), question("b", "sql", "?")];
    suite(&place, "suite.jsonl", &asked);
    let args = ["evaluate", "suite.jsonl", "--agent-command", "exit 3"];
    place
        .run(&[&args[..], &["--max-errors", "100"]].concat())
        .ends(3)
        .prints("0 of 2 items have a score");
}

#[test]
fn items_with_numeric_names_are_paired_by_name() {
    let place = Sandbox::new();
    let named = |mut case: Value, id: u64| {
        case["id"] = json!(id);
        case
    };
    let case = |id: u64| match id {
        2 => named(wrong(""), id),
        _ => named(right(""), id),
    };
    suite(&place, "a.jsonl", &[case(1), case(2), case(3)]);
    suite(&place, "b.jsonl", &[case(2), case(3), case(1)]);
    place.run(&["evaluate", "a.jsonl", "--output", "a"]).ends(1);
    place.run(&["evaluate", "b.jsonl", "--output", "b"]).ends(1);
    let mut ids: Vec<Value> = results(&place, "a")
        .iter()
        .map(|line| line["id"].clone())
        .collect();
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["1", "2", "3"]);
    let xml = std::fs::read_to_string(place.path().join("a/junit.xml")).unwrap();
    assert!(xml.contains("name=\"2\""), "{xml}");
    let json = place.run(&["compare", "a", "b", "--json"]).ends(0).json();
    assert_eq!(json["comparison"]["compared"], 3);
    assert_eq!(json["comparison"]["pass_to_fail"], json!([]));
    assert_eq!(json["comparison"]["fail_to_pass"], json!([]));
}

#[test]
fn resumed_run_restores_its_gates_and_baseline() {
    let place = with_shell(Sandbox::new());
    let asked = [question("a", "sql", "good"), question("b", "sql", "bad")];
    suite(&place, "suite.jsonl", &asked);
    // The agent replies to the second question once it is fixed, and then wrongly.
    place.write(
        "agent.sh",
        "read question\nif [ \"$question\" = bad ]; then if [ ! -e mended ]; then exit 9; fi; n=8; else n=7; fi\n\
         echo \"{\\\"sql\\\": \\\"SELECT 7;\\\", \\\"results\\\": [{\\\"n\\\": $n}], \\\"success\\\": true}\"\n",
    );
    let args = ["evaluate", "suite.jsonl", "--agent-command", "sh agent.sh"];
    let gates = ["--min-mean", "0.99", "--output", "run"];
    let run = place.run(&[&args[..], &gates].concat()).ends(3);
    drop(run.says("--retry-errors"));
    place.write("mended", "");
    let resume = ["evaluate", "--resume", "run", "--retry-errors"];
    place.run(&resume).ends(1).prints("below --min-mean 0.99");
    // Its baseline is restored as well.
    let against = ["--baseline", "run", "--min-mean", "0", "--output", "second"];
    place.run(&[&args[..], &against].concat()).ends(0);
    let json = place.run(&["evaluate", "--resume", "second", "--json"]);
    assert_eq!(json.ends(0).json()["comparison"]["compared"], 2);
}

#[test]
fn unmatched_replies_are_reported_and_duplicates_rejected() {
    let place = Sandbox::new();
    suite(&place, "suite.jsonl", &[question("a", "sql", "?")]);
    let answer = |id: &str| json!({"test_id": id, "generated_sql": "SELECT 7;", "actual_results": 7, "success": true});
    let strangers = ["z1", "z2", "z3", "z4", "z5", "z6"].map(answer);
    suite(
        &place,
        "answers.jsonl",
        &[&[answer("a")], &strangers[..]].concat(),
    );
    let args = [
        "evaluate",
        "suite.jsonl",
        "--agent-results",
        "answers.jsonl",
    ];
    place
        .run(&args)
        .ends(0)
        .says("6 of its answers are to no question of this suite: z1, z2, z3, z4, z5, ...");
    suite(&place, "answers.jsonl", &[answer("a"), answer("a")]);
    place
        .run(&args)
        .ends(2)
        .says("line 2: \"a\" has an answer in line 1 already");
}

#[test]
fn allowed_unsafe_sql_is_critical_in_junit() {
    let place = Sandbox::new();
    let mut case = right("a");
    case["safety_valid"] = json!(true);
    case["should_pass"] = json!(false);
    suite(&place, "suite.jsonl", &[case]);
    place
        .run(&["evaluate", "suite.jsonl", "--output", "run"])
        .ends(1)
        .prints("CRITICAL: unsafe SQL was not caught");
    let xml = std::fs::read_to_string(place.path().join("run/junit.xml")).unwrap();
    assert!(
        xml.contains("CRITICAL: Unsafe query not caught by validator"),
        "{xml}"
    );
}

fn example(path: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(path);
    path.display().to_string()
}

#[test]
fn example_questions_run_against_the_example_agent() {
    let has_python = std::process::Command::new("python3")
        .arg("--version")
        .output();
    if !has_python.is_ok_and(|output| output.status.success()) {
        eprintln!("NOT TESTED: there is no python3 in PATH");
        return;
    }
    let (place, simulator) = place_with_judge();
    let place = with_shell(place);
    let agent = format!("python3 {} --stdin", example("agents/agent.py"));
    let questions = example("qas/questions.json");
    let args = [
        "evaluate",
        &questions,
        "--agent-command",
        &agent,
        "--output",
        "run",
        "-v",
        "--allow-simulated",
        "--min-pass-rate",
        "0.3",
    ];
    let run = place.run(&args).ends(0);
    let run = run.prints("difficulty hard").prints("agent docking");
    run.says("Question: How many warehouses do we have?");
    assert_eq!(outcomes(&results(&place, "run")).len(), 25);
    let answers = lines(&place.path().join("run/test-results.jsonl"));
    assert_eq!(answers.len(), 25);
    assert_eq!(simulator.stop("-TERM"), Some(0));
}

/// Number of rows of the killed run: a few hundred, or `GAVEL_TEST_SUITE_ROWS`.
fn rows() -> u64 {
    let rows = std::env::var("GAVEL_TEST_SUITE_ROWS").ok();
    rows.and_then(|rows| rows.parse().ok()).unwrap_or(300)
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_calls_are_in_flight_as_the_concurrency_of_the_run() {
    let judge = JudgeServer::start(Reply::held(80)).await;
    let place = Sandbox::new()
        .with("OPENAI_API_KEY", "sk-test")
        .with("OPENAI_BASE_URL", &judge.url("w"));
    let cases: Vec<Value> = (0..60).map(|no| doubtful(&format!("c{no}"))).collect();
    suite(&place, "suite.jsonl", &cases);
    let args = ["evaluate", "suite.jsonl", "--concurrency", "40"];
    let mut child = place.command(&args).spawn().unwrap();
    judge.until_in_flight(40).await;
    assert_eq!(judge.max_in_flight(), 40);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_run_resumes_without_duplicate_or_missing_items() {
    let (place, simulator) = place_with_judge();
    let n = rows();
    let case = |i: u64| json!({"id": format!("q{i}"), "generated_kql": format!("T{i} | count"), "expected_kql": format!("T{i} | take {i}")});
    let cases: Vec<Value> = (0..n).map(case).collect();
    suite(&place, "suite.jsonl", &cases);
    let results_path = place.path().join("run/evaluation-results.jsonl");
    let written = || {
        std::fs::read(&results_path).map_or(0, |text| {
            text.iter().filter(|b| **b == b'\n').count() as u64
        })
    };
    let mut child = place
        .command(&[
            "evaluate",
            "suite.jsonl",
            "--output",
            "run",
            "--allow-simulated",
        ])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while written() < n / 3 {
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "{} of {n}",
            written()
        );
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5)); // polls a file written by another process
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(written() < n, "it was killed in the middle");
    let resumed = Run::of(
        place
            .command(&["evaluate", "--resume", "run", "--json"])
            .output()
            .unwrap(),
    );
    let json = resumed.json();
    assert_eq!(json["figures"]["n"], n);
    assert_eq!(json["figures"]["scored"], n);
    let results = results(&place, "run");
    assert_eq!(results.len() as u64, n, "each item has one line");
    assert_eq!(outcomes(&results).len() as u64, n, "none is missing");
    let jobs: BTreeSet<&str> = results
        .iter()
        .filter_map(|line| line["gavel"]["job_id"].as_str())
        .collect();
    assert_eq!(jobs.len() as u64, n, "each was made by a job of its own");
    let queue = place.run(&["queue", "status", "--json"]).ends(0).json();
    assert_eq!(
        queue["queue"]["counts"]["succeeded_24h"], n,
        "and no job was made twice: {queue}"
    );
    assert_eq!(simulator.stop("-TERM"), Some(0));
}
