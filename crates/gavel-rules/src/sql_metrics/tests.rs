use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Alert, ErrorClass, JudgeAnswer, JudgeError, Limits, ModelFamily, Nonce, Question, Reply,
};
use crate::{Criteria, Evaluation, Scorable, Scorecard};

const LIMITS: Limits = Limits {
    context_window: 128_000,
    max_output_tokens: 4_000,
    family: ModelFamily::Other,
};

fn criteria() -> Criteria {
    let file = json!({
        "kind": "sql_metrics",
        "scoring": { "llm_provider": "judge" },
        "judge_prompt": "{{EXPECTED_QUERY}} {{GENERATED_QUERY}} {{OUTPUT_SCHEMA}}",
    });
    Criteria::from_value(&file).unwrap()
}

fn case(payload: &Value) -> MetricsCase {
    MetricsCase::read(payload).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(payload: &Value) -> Vec<String> {
    let told = MetricsCase::read(payload).unwrap_err();
    told.iter()
        .map(|fault| format!("{} {}", fault.pointer, fault.message))
        .collect()
}

fn label(label: &str) -> JudgeAnswer {
    Ok(Reply {
        value: json!({ "reasoning": "The order differs.", "label": label }),
        provider: "judge".to_owned(),
        model: "judge-1".to_owned(),
        simulated: true,
        repaired: false,
        cached: false,
        by_fallback: false,
        weaknesses: Vec::new(),
        odd_finish: false,
        trimmed_tokens: 0,
    })
}

fn timeout() -> JudgeAnswer {
    Err(JudgeError {
        class: ErrorClass::Transient,
        message: "LLM judge timeout".to_owned(),
        status: None,
        retry_after: None,
        raw_reply: None,
        unasked: None,
    })
}

fn evaluate(payload: &Value, answers: &[JudgeAnswer]) -> Evaluation {
    match case(payload).score(&criteria(), answers) {
        Scorecard::Evaluated(evaluation) => *evaluation,
        Scorecard::Session(_) | Scorecard::Unscored(_) => panic!("a case is evaluated"),
    }
}

fn questions(payload: &Value) -> Vec<Question> {
    case(payload)
        .questions(&criteria(), &LIMITS, &Nonce("nonce".to_owned()))
        .unwrap()
}

#[test]
fn identical_queries_are_correct_without_judge() {
    let payload =
        json!({ "id": "a", "generated_sql": "select 1 -- one", "expected_sql": "SELECT\n1;" });
    assert!(!case(&payload).needs_judge() && questions(&payload).is_empty());
    let evaluation = evaluate(&payload, &[]);
    assert_eq!(
        (evaluation.total, evaluation.passed),
        (Some(1.0), Some(true))
    );
    let expected = json!({
        "id": "a", "total": 1.0, "passed": true, "status": "complete", "parse_error": null,
        "metrics": { "query_correctness": { "score": 1.0, "error": null, "details": {
            "label": "correct", "reasoning": "Queries are identical", "judge": null,
        }}},
    });
    assert_eq!(evaluation.result, expected);
}

#[test]
fn hidden_tables_fail_only_table_accuracy() {
    let payload = json!({
        "generated_sql": "execute immediate :text", "dialect": "snowflake", "expected_tables": [],
        "expected_sql": "execute immediate :text",
    });
    let evaluation = evaluate(&payload, &[]);
    assert_eq!(evaluation.result["parse_error"], Value::Null);
    let metrics = &evaluation.result["metrics"];
    assert_eq!(metrics["query_correctness"]["score"], 1.0);
    assert_eq!(metrics["table_accuracy"]["error"]["class"], "hidden_tables");
    assert_eq!(evaluation.passed, None);
}

#[test]
fn judge_label_determines_score() {
    let payload =
        json!({ "generated_sql": "select a from t", "expected_sql": "select a from t order by a" });
    assert_eq!(questions(&payload).len(), 1);
    let cases = [
        ("correct", 1.0, true),
        ("partial", 0.5, false),
        ("wrong", 0.0, false),
    ];
    for (word, score, passes) in cases {
        let evaluation = evaluate(&payload, &[label(word)]);
        assert_eq!(
            (evaluation.total, evaluation.passed),
            (Some(score), Some(passes)),
            "{word}"
        );
        let details = &evaluation.result["metrics"]["query_correctness"]["details"];
        assert_eq!(
            (&details["label"], &details["reasoning"]),
            (&json!(word), &json!("The order differs."))
        );
        assert!(evaluation.simulated());
    }
    for generated in ["", "-- I can't"] {
        let payload = json!({ "generated_sql": generated, "expected_sql": "select 1" });
        assert!(!case(&payload).needs_judge(), "{generated}");
        let nothing = evaluate(&payload, &[]);
        assert_eq!((nothing.total, nothing.passed), (Some(0.0), Some(false)));
    }
}

#[test]
fn judge_failure_leaves_no_total() {
    let payload = json!({
        "generatedSql": "select a from t", "expectedSql": "select b from t", "expectedTables": ["t"],
        "safetyValid": true, "shouldPass": true,
    });
    let evaluation = evaluate(&payload, &[timeout()]);
    assert_eq!((evaluation.total, evaluation.passed), (None, None));
    assert_eq!(evaluation.result["status"], "incomplete");
    assert_eq!(evaluation.result["missing"], json!(["query_correctness"]));
    let correctness = &evaluation.result["metrics"]["query_correctness"];
    assert_eq!(correctness["score"], 0.0);
    let error = json!({
        "metric": "query_correctness", "message": "LLM judge timeout", "class": "transient", "at": null,
        "input": { "generated_sql": "select a from t", "expected_sql": "select b from t" }, "chain": [], "backtrace": null,
    });
    assert_eq!(correctness["error"], error);
    assert_eq!(
        evaluation.components,
        [
            ("query_correctness", None),
            ("table_accuracy", Some(1.0)),
            ("safety_validation", Some(1.0))
        ]
    );
    assert_eq!(evaluation.error.unwrap().class, ErrorClass::Transient);

    let mut missed = payload.clone();
    missed["expectedTables"] = json!(["u"]);
    let evaluation = evaluate(&missed, &[timeout()]);
    assert_eq!((evaluation.total, evaluation.passed), (None, None));
    assert_eq!(
        evaluation.result["passed"], false,
        "it fails whatever the judge says"
    );

    let not_run = evaluate(&payload, &[]);
    assert_eq!(
        (not_run.total, not_run.passed, &not_run.error),
        (None, None, &None)
    );
    let correctness = &not_run.result["metrics"]["query_correctness"];
    assert_eq!(
        (&correctness["score"], &correctness["error"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn broken_sql_fails_its_metric_and_the_case() {
    let payload = json!({
        "generated_sql": "SELEC name FORM users", "expected_tables": ["users"], "is_valid": false, "should_pass": false,
        "errors": ["syntax error at or near \"SELEC\""], "dialect": "postgres",
    });
    let evaluation = evaluate(&payload, &[]);
    let result = &evaluation.result;
    assert_eq!(
        (&result["total"], &result["passed"]),
        (&json!(1.0), &json!(false))
    );
    assert_eq!(
        (&result["status"], &result["missing"]),
        (&json!("incomplete"), &json!(["table_accuracy"]))
    );
    // Averages and gates don't use the score of the remaining metrics.
    assert_eq!((evaluation.total, evaluation.passed), (None, None));
    let error = &evaluation.result["metrics"]["table_accuracy"]["error"];
    assert_eq!(
        (&error["class"], &error["metric"]),
        (&json!("syntax"), &json!("table_accuracy"))
    );
    assert_eq!(error["input"]["generated_sql"], "SELEC name FORM users");
    assert!(
        error["message"].as_str().unwrap().contains("postgres"),
        "{error}"
    );
    assert!(
        error["chain"][0].as_str().unwrap().contains("Expected"),
        "{error}"
    );
    assert_eq!(evaluation.result["parse_error"], error["message"]);
    assert_eq!(
        evaluation.result["metrics"]["validation_accuracy"]["details"]["category"],
        "syntax error"
    );
    let alone = evaluate(
        &json!({ "generated_sql": "SELEC", "expected_tables": [] }),
        &[],
    );
    assert_eq!(
        (&alone.result["total"], &alone.result["passed"]),
        (&Value::Null, &json!(false))
    );
    // Without a metric that parses it, the text may be a fragment.
    for (flag, passed) in [(false, true), (true, false)] {
        let fragment = json!({ "generated_sql": "' or true--", "safety_valid": flag, "is_valid": flag, "should_pass": false });
        let fragment = evaluate(&fragment, &[]);
        let total = f64::from(u8::from(passed));
        assert_eq!(
            (fragment.total, fragment.passed),
            (Some(total), Some(passed))
        );
        assert_eq!(fragment.result["parse_error"], Value::Null);
    }
    let judged = json!({ "generated_sql": "SELEC", "expected_sql": "SELEC", "safety_valid": true, "should_pass": true });
    let judged = evaluate(&judged, &[]);
    assert_eq!((judged.total, judged.passed), (Some(1.0), Some(false)));
    let nested = format!("select {}1{}", "(".repeat(30_000), ")".repeat(30_000));
    let deep = evaluate(
        &json!({ "generated_sql": nested, "expected_tables": [] }),
        &[],
    );
    assert_eq!(
        deep.result["metrics"]["table_accuracy"]["error"]["class"],
        "too_deep"
    );
}

#[test]
fn table_accuracy_is_the_overlap() {
    let score = |sql: &str, tables: Value| {
        let evaluation = evaluate(
            &json!({ "generated_sql": sql, "expected_tables": tables }),
            &[],
        );
        evaluation.total.unwrap()
    };
    let shadow = "WITH users AS (SELECT * FROM users) SELECT * FROM users";
    assert_eq!(score(shadow, json!(["users"])), 1.0);
    assert_eq!(score("select * from public.users", json!(["users"])), 1.0);
    assert_eq!(
        score("select * from a join b on true", json!(["a", "c"])),
        1.0 / 3.0
    );
    assert_eq!(score("select 1", json!([])), 1.0);
    assert_eq!(score("select 1", json!(["a"])), 0.0);
}

#[test]
fn safety_reports_accepted_unsafe_query() {
    let details = |valid: bool, should: bool| {
        let payload =
            json!({ "generated_sql": "select 1", "safety_valid": valid, "should_pass": should });
        let evaluation = evaluate(&payload, &[]);
        let metric = evaluation.result["metrics"]["safety_validation"].clone();
        (metric["score"].as_f64().unwrap(), metric["details"].clone())
    };
    let critical = "CRITICAL: Unsafe query not caught by validator";
    let (score, found) = details(true, false);
    assert_eq!(
        (score, found),
        (
            0.0,
            json!({ "outcome": "false negative", "severity": "error", "message": critical })
        )
    );
    let (score, found) = details(false, true);
    assert_eq!(
        (score, &found["outcome"], &found["severity"]),
        (0.0, &json!("false positive"), &json!("warning"))
    );
    assert_eq!(found["message"], "Safe query incorrectly blocked");
    assert_eq!(details(true, true).0, 1.0);
    assert_eq!(details(false, false).1["outcome"], "true positive");
}

#[test]
fn alerts_contain_no_sql() {
    let warning = |said: &str| Alert::Warning(said.to_owned());
    for (payload, alerts) in [
        (
            json!({ "generated_sql": "drop table t", "safety_valid": true, "should_pass": false }),
            vec![Alert::Error(
                "safety_validation: CRITICAL: Unsafe query not caught by validator".to_owned(),
            )],
        ),
        (
            json!({ "generated_sql": "select 1", "safety_valid": false, "is_valid": false, "should_pass": true }),
            vec![
                warning("safety_validation: Safe query incorrectly blocked"),
                warning("validation_accuracy: Investigation needed"),
            ],
        ),
        (
            json!({ "generated_sql": "selec t", "expected_tables": ["t"] }),
            vec![
                warning("the generated SQL can't be read"),
                warning("table_accuracy has no score: syntax"),
            ],
        ),
        (
            json!({ "generated_sql": "select 1", "safety_valid": true, "should_pass": true }),
            vec![],
        ),
    ] {
        assert_eq!(evaluate(&payload, &[]).alerts, alerts, "{payload}");
    }
}

#[test]
fn validation_reports_rejection_reason() {
    let details = |payload: Value| {
        evaluate(&payload, &[]).result["metrics"]["validation_accuracy"]["details"].clone()
    };
    let rejected = details(json!({
        "generated_sql": "select 1", "is_valid": false, "should_pass": true, "errors": ["column \"deleted_at\" does not exist"],
    }));
    let expected = json!({
        "outcome": "false rejection", "category": "schema violation", "detail": "column", "contradictory": false,
        "message": "Investigation needed", "errors": ["column \"deleted_at\" does not exist"],
    });
    assert_eq!(rejected, expected);
    let unsafe_one = details(json!({
        "generated_sql": "select 1", "safety_valid": false, "is_valid": false, "should_pass": false, "errors": ["syntax error"],
    }));
    assert_eq!(unsafe_one["category"], "safety violation");
    let odd = details(
        json!({ "generated_sql": "select 1", "is_valid": true, "should_pass": true, "errors": ["x"] }),
    );
    assert_eq!(
        (&odd["contradictory"], &odd["category"]),
        (&json!(true), &Value::Null)
    );
}

#[test]
fn missing_flag_is_an_error() {
    let sql = "select 1";
    assert_eq!(
        faults(&json!({ "generated_sql": sql, "safetyValid": true, "isValid": true })),
        [
            "/should_pass is missing; beside safety_valid and is_valid whether the query should pass, true or false, is expected"
        ]
    );
    assert_eq!(
        faults(&json!({ "generated_sql": sql, "expected_sql": sql, "shouldPass": true })),
        [
            "/shouldPass has nothing to be held against: give safety_valid or is_valid, or leave it out"
        ]
    );
    assert_eq!(
        faults(&json!({ "confidence": "sure", "expectedTables": ["a", " "] })),
        [
            "/generated_sql is missing; the generated query, \"\" where nothing was generated, is expected",
            "/expectedTables/1 is empty; the name of a table is expected",
            "/confidence is \"sure\"; one of high, medium, low is expected",
        ]
    );
    assert_eq!(
        faults(&json!({ "generated_sql": sql })),
        [
            " asks for no metric: give expected_sql, expected_tables, or should_pass with safety_valid or is_valid"
        ]
    );
    assert!(
        faults(&json!({ "generated_sql": "x".repeat(65_537), "expected_tables": [] }))[0]
            .contains("at most 65536")
    );
}

#[test]
fn the_examples_cover_every_scenario() {
    let lines = include_str!("../../../../examples/metrics/cases.jsonl").lines();
    let cases: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut told = std::collections::BTreeSet::new();
    let mut confident = 0;
    for payload in &cases {
        let evaluation = evaluate(payload, &[label("partial")]);
        confident += usize::from(case(payload).confidence.is_some());
        for metric in evaluation.result["metrics"].as_object().unwrap().values() {
            for name in [
                "/details/outcome",
                "/details/category",
                "/details/label",
                "/details/reasoning",
                "/error/class",
            ] {
                told.extend(
                    metric
                        .pointer(name)
                        .and_then(Value::as_str)
                        .map(str::to_owned),
                );
            }
        }
    }
    assert!(confident >= calibration::FEWEST_CASES, "{confident}");
    let scenarios = [
        "Queries are identical",
        "correct",
        "partial",
        "syntax",
        "true negative",
        "true positive",
        "false positive",
        "false negative",
        "correct acceptance",
        "correct rejection",
        "false rejection",
        "false acceptance",
        "safety violation",
        "schema violation",
        "syntax error",
        "other",
    ];
    for scenario in scenarios {
        assert!(
            told.contains(scenario),
            "{scenario} is in no example: {told:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_payload_has_total_in_range(
        sql in "\\PC{0,40}|select [a-c] from [a-c](, [a-c])?", expected in prop::option::of("select [a-c] from [a-c]"),
        tables in prop::option::of(prop::collection::vec("\\PC{1,6}", 0..4)),
        flags in any::<(Option<bool>, Option<bool>, Option<bool>)>(), errors in prop::collection::vec("\\PC{0,20}", 0..3),
    ) {
        let payload = json!({
            "generated_sql": sql, "expected_sql": expected, "expected_tables": tables, "safety_valid": flags.0,
            "is_valid": flags.1, "should_pass": flags.2, "errors": errors,
        });
        if MetricsCase::read(&payload).is_ok() {
            let evaluation = evaluate(&payload, &[label("partial")]);
            prop_assert!(evaluation.total.is_none_or(|total| (0.0..=1.0).contains(&total)));
            prop_assert_eq!(evaluation.passed.is_some(), evaluation.total.is_some());
            prop_assert!(evaluation.result["passed"].is_boolean());
        }
    }
}
