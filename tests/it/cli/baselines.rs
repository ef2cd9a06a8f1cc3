//! Baselines of `gavel evaluate`: unmeasurable items, and runs that can't be compared.

use serde_json::{Value, json};

use super::Sandbox;
use super::evaluate::{doubtful, right, suite};

/// Case with a correct validator and readable or unreadable SQL.
fn case(sql: &str) -> Value {
    json!({"id": "q", "generated_sql": sql, "expected_tables": ["t", "u"], "safety_valid": true, "is_valid": true,
        "should_pass": true})
}

#[test]
fn unreadable_sql_fails_each_gate_with_a_reason_in_reports() {
    let place = Sandbox::new();
    suite(&place, "good.jsonl", &[case("SELECT x FROM t")]);
    suite(&place, "bad.jsonl", &[case("SELEC x FRM t")]);
    let gated = ["evaluate", "good.jsonl", "--output", "good", "--min-mean"];
    drop(place.run(&[&gated[..], &["0.8"]].concat()).ends(0));
    let base = ["evaluate", "bad.jsonl", "--min-mean", "0.8"];
    let mean = place.run(&[&base[..], &["--json"]].concat()).ends(3).json();
    assert_eq!(mean["figures"]["mean"], Value::Null, "{mean}");
    assert_eq!(mean["figures"]["incomplete"], 1, "{mean}");
    let against = [
        "evaluate",
        "bad.jsonl",
        "--baseline",
        "good",
        "--max-regression",
        "0",
        "--output",
        "bad",
        "-v",
    ];
    let run = place
        .run(&against)
        .ends(3)
        .prints("1 of 1 items has no score (1 incomplete)");
    run.says("can't be read: ").says("missing: Tables");
    let compare = ["compare", "good", "bad"];
    drop(
        place
            .run(&compare)
            .ends(3)
            .prints("has no score any more: 1"),
    );
    let gated = [&compare[..], &["--max-regression", "1"]].concat();
    drop(place.run(&gated).ends(3));
    for report in ["report.csv", "report.json", "summary.md", "junit.xml"] {
        let text = std::fs::read_to_string(place.path().join("bad").join(report)).unwrap();
        assert!(text.contains("Expected: "), "{report}: {text}");
    }
}

#[test]
fn runs_of_two_kinds_are_distinguished_without_headers() {
    let place = Sandbox::new();
    suite(&place, "sql.jsonl", &[case("SELECT x FROM t, u")]);
    let query = json!({"id": "q", "generated_kql": "T", "expected_kql": "T"});
    suite(&place, "kql.jsonl", &[query]);
    for (file, run) in [("sql.jsonl", "sql"), ("kql.jsonl", "kql")] {
        drop(place.run(&["evaluate", file, "--output", run]).ends(0));
    }
    std::fs::remove_file(place.path().join("sql/run.json")).unwrap();
    let against = ["evaluate", "kql.jsonl", "--baseline", "sql"];
    drop(
        place
            .run(&against)
            .ends(2)
            .says("a run of kind sql_metrics"),
    );
    drop(
        place
            .run(&["compare", "sql", "kql"])
            .ends(2)
            .says("one of kind query"),
    );
}

#[test]
fn simulated_baseline_of_a_real_run_is_rejected_before_any_cost() {
    let place = Sandbox::new();
    suite(&place, "suite.jsonl", &[doubtful("a")]);
    let simulated = [
        "evaluate",
        "suite.jsonl",
        "--simulate",
        "--output",
        "simulated",
    ];
    drop(place.run(&simulated).ends(3));
    let against = [
        "evaluate",
        "suite.jsonl",
        "--baseline",
        "simulated",
        "--output",
        "real",
    ];
    let without = [&against[..], &["--no-judge"]].concat();
    drop(
        place
            .run(&without)
            .ends(2)
            .says("use --allow-simulated to compare them"),
    );
    // No server listens there: a judge call would delay the run, and end it with 3.
    let judge =
        "real:\n  type: openai\n  base_url: http://127.0.0.1:9/v1\n  model: m\n  key: none\n";
    place.write("judges.yaml", judge);
    let place = place
        .with("DEFAULT_LLM_PROVIDER", "real")
        .with("GAVEL_LLM_PROVIDERS", "judges.yaml");
    let refused = place
        .run(&against)
        .ends(2)
        .says("use --allow-simulated to compare them");
    assert_eq!(refused.out, "");
    assert!(!place.path().join("real").exists(), "no run was begun");
}

#[test]
fn run_resumes_only_with_its_suite_whatever_its_errors() {
    let place = Sandbox::new();
    suite(&place, "suite.jsonl", &[right("a")]);
    suite(&place, "other.jsonl", &[case("SELECT x FROM t, u")]);
    drop(
        place
            .run(&["evaluate", "suite.jsonl", "--output", "run"])
            .ends(0),
    );
    let other = ["evaluate", "other.jsonl", "--resume", "run"];
    drop(
        place
            .run(&other)
            .ends(2)
            .says("that run used another suite"),
    );
    let none = ["evaluate", "suite.jsonl", "--limit", "0"];
    drop(
        place
            .run(&none)
            .ends(4)
            .says("no items to run: --limit is 0"),
    );
}

#[test]
fn baseline_without_common_items_is_rejected_before_the_run() {
    let place = Sandbox::new();
    suite(&place, "a.jsonl", &[right("a")]);
    suite(&place, "b.jsonl", &[right("b")]);
    suite(&place, "none.jsonl", &[right("")]);
    drop(place.run(&["evaluate", "a.jsonl", "--output", "a"]).ends(0));
    drop(
        place
            .run(&["evaluate", "none.jsonl", "--output", "none"])
            .ends(0),
    );
    std::fs::create_dir(place.path().join("empty")).unwrap();
    place.write("empty/evaluation-results.jsonl", "");
    let held = |suite: &str, run: &str, ends: i32| {
        place
            .run(&[
                "evaluate",
                suite,
                "--baseline",
                run,
                "--max-regression",
                "0",
                "--output",
                "new",
            ])
            .ends(ends)
    };
    drop(held("b.jsonl", "a", 2).says("its items have other ids, such as a"));
    drop(held("b.jsonl", "empty", 2).says("that run has no items"));
    drop(held("b.jsonl", "none", 2).says("such as #1"));
    assert!(!place.path().join("new").exists(), "no run was begun");
    drop(held("none.jsonl", "none", 0));
    // Without the gate, an empty comparison is only reported.
    let args = ["evaluate", "b.jsonl", "--baseline", "a"];
    drop(place.run(&args).ends(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_run_is_rejected_against_a_real_baseline() {
    // A simulator configured by its URL counts as a real judge.
    let place = Sandbox::new();
    suite(&place, "suite.jsonl", &[doubtful("a")]);
    let simulated = ["evaluate", "suite.jsonl", "--simulate", "--output", "a"];
    drop(place.run(&[&simulated[..], &["--allow-simulated"]].concat()));
    // The same run, marked as scored by a real judge.
    let results = place.path().join("a/evaluation-results.jsonl");
    let text = std::fs::read_to_string(&results).unwrap();
    assert!(text.contains("\"simulated\":true"), "{text}");
    let real = text.replace("\"simulated\":true", "\"simulated\":false");
    std::fs::write(&results, real).unwrap();
    let held = |more: &[&str]| {
        let base = ["evaluate", "suite.jsonl", "--simulate", "--baseline", "a"];
        place.run(&[&base[..], &["--max-regression", "1", "--output", "b"], more].concat())
    };
    drop(
        held(&[])
            .ends(2)
            .says("use --allow-simulated to compare them anyway"),
    );
    assert!(!place.path().join("b").exists(), "no run was begun");
    let run = held(&["--allow-simulated"]);
    assert!(place.path().join("b").exists(), "{}", run.err);
}
