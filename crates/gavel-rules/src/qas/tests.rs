//! Cases of the rules with their numbers.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ModelFamily;
use crate::{ErrorClass, Reply};

const LIMITS: Limits = Limits {
    context_window: 128_000,
    max_output_tokens: 4_000,
    family: ModelFamily::Other,
};

fn criteria() -> Criteria {
    let file = json!({
        "kind": "qas",
        "scoring": { "llm_provider": "judge" },
        "judge_prompt": "Queries {{QUESTION}} {{EXPECTED_QUERY}} {{GENERATED_QUERY}} {{OUTPUT_SCHEMA}}",
        "answer_prompt": "Answers {{QUESTION}} {{EXPECTED_ANSWER}} {{ACTUAL_ANSWER}} {{OUTPUT_SCHEMA}}",
    });
    Criteria::from_value(&file).unwrap()
}

fn payload(change: Value) -> Value {
    let mut payload = json!({
        "test_id": "Q1", "question": "How many orders?", "agent_used": "sql", "difficulty": "easy",
        "expected_sql": "select count(*) from orders", "generated_sql": "select count(*) from orders;",
        "expected_answer_type": "number", "expected_results": [{ "count": 100 }], "actual_results": [{ "n": 100 }],
        "success": true,
    });
    for (name, value) in change.as_object().unwrap() {
        payload[name] = value.clone();
    }
    payload
}

fn case(change: Value) -> QasCase {
    let payload = payload(change);
    QasCase::read(&payload).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(change: Value) -> Vec<String> {
    let told = QasCase::read(&payload(change)).unwrap_err();
    told.iter()
        .map(|fault| format!("{} {}", fault.pointer, fault.message))
        .collect()
}

fn reply(score: f64) -> JudgeAnswer {
    Ok(Reply {
        value: json!({ "explanation": "The join is another one.", "score": score }),
        provider: "judge".to_owned(),
        model: "judge-1".to_owned(),
        simulated: false,
        repaired: false,
        cached: false,
        by_fallback: false,
        weaknesses: Vec::new(),
        odd_finish: false,
        trimmed_tokens: 0,
    })
}

fn failure() -> JudgeAnswer {
    Err(JudgeError {
        class: ErrorClass::Transient,
        message: "the judge is away".to_owned(),
        status: Some(503),
        retry_after: None,
        raw_reply: None,
        unasked: None,
    })
}

fn evaluate(case: &QasCase, answers: &[JudgeAnswer]) -> Evaluation {
    match case.score(&criteria(), answers) {
        Scorecard::Evaluated(evaluation) => *evaluation,
        Scorecard::Session(_) | Scorecard::Unscored(_) => panic!("a case is evaluated"),
    }
}

fn questions(case: &QasCase) -> Vec<Question> {
    case.questions(&criteria(), &LIMITS, &Nonce("nonce".to_owned()))
        .unwrap()
}

#[test]
fn the_total_weighs_four_four_two() {
    let cases = [
        ([0.95, 1.0, 1.0], 0.98, true),
        ([0.8, 0.8, 1.0], 0.84, true),
        ([0.3, 0.2, 1.0], 0.40, false),
        ([0.7, 0.7, 0.7], 0.7, true),
        ([0.6999, 0.7, 0.7], 0.69996, false),
    ];
    for (scores, expected, passes) in cases {
        let findings = scores.map(|score| Finding::Scored(score, String::new()));
        let evaluation = case(json!({})).evaluation(&findings, None);
        let total = evaluation.total.unwrap();
        assert!((total - expected).abs() < 1e-9, "{scores:?} {total}");
        assert_eq!(evaluation.passed, Some(passes), "{scores:?}");
        assert_eq!(
            evaluation.result["final_score"],
            json!(expected),
            "{scores:?}"
        );
    }
}

#[test]
fn identical_queries_and_equal_results_need_no_judge() {
    let case = case(json!({}));
    assert!(!case.needs_judge());
    assert!(questions(&case).is_empty());
    let evaluation = evaluate(&case, &[]);
    assert_eq!(
        (evaluation.total, evaluation.passed),
        (Some(1.0), Some(true))
    );
    let expected = json!({
        "semantic_score": 1.0, "execution_score": 1.0, "datatype_score": 1.0, "final_score": 1.0,
        "passed": true, "threshold": 0.7, "status": "complete", "judge": null,
        "breakdown": {
            "semantic_explanation": "the queries are identical",
            "execution_explanation": "100 against 100 expected: off by 0.00 %",
            "datatype_explanation": "a number",
        },
    });
    assert_eq!(evaluation.result, expected);
}

#[test]
fn rows_without_names_of_columns_match_and_have_half_of_their_form() {
    let rows = json!([{ "name": "Ada", "n": 3 }, { "name": "Bo", "n": 2 }]);
    for (actual, form) in [
        // SQLDatabase.run of LangChain
        (json!("[('Ada', 3), ('Bo', 2)]"), 0.5),
        (json!([["Ada", 3], ["Bo", 2]]), 0.5),
        (json!("```json\n[[\"Ada\", 3], [\"Bo\", 2]]\n```"), 0.5),
        (json!("[Row(name='Ada', n=3), Row(name='Bo', n=2)]"), 1.0),
        (
            json!({ "columns": ["name", "n"], "rows": [["Ada", 3], ["Bo", 2]] }),
            1.0,
        ),
        (json!({ "data": rows, "metadata": { "row_count": 2 } }), 1.0),
    ] {
        let case = case(json!({
            "expected_answer_type": "table", "expected_results": rows, "actual_results": actual,
        }));
        let result = evaluate(&case, &[]).result;
        assert_eq!(result["execution_score"], 1.0, "{actual}");
        assert_eq!(result["datatype_score"], form, "{actual}");
    }
}

#[test]
fn a_percentage_is_the_number_before_its_sign() {
    for (expected, actual, scores) in [
        (json!(12.5), json!("12.5 %"), (1.0, 0.5)),
        (json!("12.5 %"), json!([{ "rate": 12.5 }]), (1.0, 1.0)),
        (json!(0.125), json!("12.5 %"), (0.0, 0.5)),
        (json!("12.5 %"), json!(0.125), (0.0, 1.0)),
    ] {
        let case = case(json!({ "expected_results": expected, "actual_results": actual }));
        let result = evaluate(&case, &[]).result;
        let found = (&result["execution_score"], &result["datatype_score"]);
        assert_eq!(found, (&json!(scores.0), &json!(scores.1)), "{actual}");
    }
}

#[test]
fn the_judges_word_is_the_semantic_component() {
    let case =
        case(json!({ "generated_sql": "select count(id) from orders", "actual_results": 105 }));
    assert!(case.needs_judge());
    let asked = questions(&case);
    assert_eq!(asked.len(), 1);
    assert!(asked[0].prompt.to_string().starts_with("Queries"));
    assert!(
        asked[0]
            .prompt
            .to_string()
            .contains("<<<EVIDENCE generated-sql nonce\nselect count(id) from orders")
    );
    let evaluation = evaluate(&case, &[reply(0.85)]);
    // 0.4 · 0.85 + 0.4 · 0.5 + 0.2
    assert!((evaluation.total.unwrap() - 0.74).abs() < 1e-9);
    assert_eq!(
        evaluation.result["breakdown"]["semantic_explanation"],
        "The join is another one."
    );
    assert_eq!(evaluation.result["judge"]["model"], "judge-1");
    assert_eq!(evaluation.components[0], ("semantic", Some(0.85)));
}

#[test]
fn both_questions_are_asked_where_both_are_open() {
    let case = case(json!({
        "generated_sql": "select 1", "expected_answer_type": "analysis",
        "expected_results": "Sales fell in May.", "actual_results": { "trend": "down", "since": "May" },
    }));
    let asked = questions(&case);
    assert_eq!(asked.len(), 2);
    assert!(
        asked[1].prompt.to_string().starts_with("Answers")
            && asked[1].prompt.to_string().contains("Sales fell in May.")
    );
    let evaluation = evaluate(&case, &[reply(0.5), reply(1.0)]);
    assert!((evaluation.total.unwrap() - 0.8).abs() < 1e-9);
    let half = evaluate(&case, &[reply(0.5), failure()]);
    assert_eq!(
        (half.total, half.components[0].1, half.components[1].1),
        (None, Some(0.5), None)
    );
    assert_eq!(half.result["missing"], json!(["execution"]));
}

#[test]
fn a_judge_that_failed_or_was_not_run_leaves_the_total_open() {
    let case = case(json!({ "generated_sql": "select count(id) from orders" }));
    let failed = evaluate(&case, &[failure()]);
    assert_eq!(
        (
            failed.total,
            failed.passed,
            failed.result["status"].as_str()
        ),
        (None, None, Some("incomplete"))
    );
    assert_eq!(failed.result["missing"], json!(["semantic"]));
    assert_eq!(failed.result["semantic_score"], Value::Null);
    assert_eq!(failed.result["execution_score"], 1.0);
    assert_eq!(
        failed.result["breakdown"]["semantic_explanation"],
        "the judge failed (transient): the judge is away"
    );
    assert_eq!(failed.error.unwrap().class, ErrorClass::Transient);
    let not_run = evaluate(&case, &[]);
    assert_eq!(
        (not_run.total, not_run.passed, not_run.error),
        (None, None, None)
    );
    assert_eq!(
        not_run.result["breakdown"]["semantic_explanation"],
        "not_run: no judge was asked"
    );
}

#[test]
fn what_cannot_be_known_is_absent_and_never_free() {
    let no_results = evaluate(
        &case(json!({ "expected_results": null, "actual_results": "many" })),
        &[],
    );
    // (0.4 · 1 + 0.2 · 0) / 0.6
    assert!((no_results.total.unwrap() - 0.4 / 0.6).abs() < 1e-9);
    assert_eq!(no_results.result["execution_score"], Value::Null);
    let why = no_results.result["breakdown"]["execution_explanation"]
        .as_str()
        .unwrap();
    assert!(why.starts_with("no_ground_truth"), "{why}");
    let no_sql = evaluate(
        &case(json!({ "expected_sql": null, "actual_results": 105 })),
        &[],
    );
    // (0.4 · 0.5 + 0.2 · 1) / 0.6
    assert!((no_sql.total.unwrap() - 0.4 / 0.6).abs() < 1e-9);
    let neither = evaluate(
        &case(json!({ "expected_sql": null, "expected_results": null })),
        &[],
    );
    assert_eq!(neither.total, Some(1.0), "all that is left is the datatype");
}

#[test]
fn semantic_is_decided_in_order() {
    let score = |change| evaluate(&case(change), &[]).components[0].1;
    assert_eq!(
        score(json!({ "generated_sql": " ", "expected_sql": null })),
        Some(0.0)
    );
    assert_eq!(
        score(json!({ "generated_sql": "-- I can't", "expected_sql": null })),
        Some(0.0)
    );
    assert_eq!(score(json!({ "expected_sql": null })), None);
    let docking = |change: Value| {
        let mut change = change;
        change["agent_used"] = json!("docking");
        score(change)
    };
    assert_eq!(
        docking(json!({ "generated_sql": null, "api_success": true, "success": false })),
        Some(1.0)
    );
    assert_eq!(docking(json!({ "api_success": false })), Some(0.0));
    assert_eq!(docking(json!({ "success": false })), Some(0.0));
    assert_eq!(docking(json!({ "success": true })), Some(1.0));
}

#[test]
fn an_answer_is_an_error_by_its_structure_and_never_by_its_words() {
    let score = |wanted: &str, expected: &Value, actual: &Value| {
        let case = case(json!({
            "expected_answer_type": wanted, "expected_results": expected, "actual_results": actual,
        }));
        // The judge, where it is asked for the answers, finds them different.
        let answers: &[JudgeAnswer] = &[reply(0.0)];
        let answers = if case.needs_judge() { answers } else { &[] };
        let components = evaluate(&case, answers).components;
        (components[1].1.unwrap(), components[2].1.unwrap())
    };
    for (wanted, expected) in [
        ("text", json!("disk full")),
        ("number", json!(5)),
        ("list", json!(["a"])),
        ("analysis", json!("The disk is full.")),
    ] {
        for error in [
            json!({ "error": "no such table" }),
            json!({ "error": { "code": 5 } }),
            json!("{\"error\": \"5\"}"),
        ] {
            assert_eq!(score(wanted, &expected, &error), (0.0, 0.0), "{error}");
        }
    }
    let (text, number) = (json!("disk full"), json!(5));
    assert_eq!(score("text", &text, &json!("Error: disk full")), (0.0, 1.0));
    assert_eq!(score("number", &number, &json!("Error: 5")), (1.0, 0.5));
    // A number is a rate, a row may have such a column, and what is empty says nothing.
    assert_eq!(score("number", &number, &json!({ "error": 5 })), (1.0, 1.0));
    let rows = json!([{ "error": "disk full" }]);
    assert_eq!(score("table", &rows, &rows), (1.0, 1.0));
    for more in [
        json!({ "error": "x", "cause": "y" }),
        json!({ "error": " " }),
        json!({ "error": null }),
    ] {
        assert_eq!(score("plan", &text, &more).1, 1.0, "{more}");
    }
}

#[test]
fn an_error_that_nobody_calls_a_success_is_a_failed_run() {
    let list = json!({
        "expected_answer_type": "list", "expected_results": [], "actual_results": [], "error": "timeout",
        "success": null,
    });
    let execution = |payload: &Value| evaluate(&case(payload.clone()), &[]).components[1].1;
    assert_eq!(execution(&list), Some(0.0));
    let mut said = list.clone();
    said["success"] = json!(true);
    assert_eq!(execution(&said), Some(1.0), "what is said stands");
    said["success"] = json!(null);
    said["error"] = json!("none");
    assert_eq!(execution(&said), Some(0.0), "no text is guessed at");
    said["error"] = json!(" ");
    assert_eq!(execution(&said), Some(1.0), "a blank error is none");
    // It says all that a docking case needs.
    let docking = json!({ "agent_used": "docking", "error": "503", "success": null });
    assert_eq!(evaluate(&case(docking), &[]).components[0].1, Some(0.0));
}

#[test]
fn a_failed_run_is_worth_nothing_before_anything_else() {
    let failed = evaluate(
        &case(json!({ "success": false, "expected_results": null, "error": "no such table" })),
        &[],
    );
    assert_eq!(failed.components[1].1, Some(0.0));
    let error = evaluate(
        &case(
            json!({ "actual_results": "no such table", "error": "no such table", "success": true }),
        ),
        &[],
    );
    assert_eq!(
        (error.components[1].1, error.components[2].1),
        (Some(0.0), Some(0.0))
    );
    // Also as the one entry of a list, where lists are asked for.
    for own in [
        json!(["no such table"]),
        json!([{ "error": "no such table" }]),
    ] {
        let payload = json!({
            "actual_results": own, "error": "no such table", "success": true, "expected_answer_type": "list",
            "expected_results": ["a"],
        });
        let error = evaluate(&case(payload), &[]);
        assert_eq!(
            (error.components[1].1, error.components[2].1),
            (Some(0.0), Some(0.0))
        );
    }
}

#[test]
fn every_fault_of_a_payload_is_told_at_once() {
    let found = faults(json!({
        "question": " ", "agent_used": "mcp", "difficulty": "extreme", "expected_answer_type": "chart",
        "success": "yes", "threshold": 70, "dialect": "oracle9", "expected_sql": 5, "generatedsql": "x",
    }));
    assert_eq!(
        found,
        [
            "/generatedsql is unknown; did you mean generated_sql?",
            "/question is missing; what the agent was asked is expected",
            "/agent_used is \"mcp\"; one of sql, docking is expected",
            "/difficulty is \"extreme\"; one of easy, medium, hard is expected",
            "/expected_sql is 5; text is expected",
            "/expected_answer_type is \"chart\"; one of number, kpi, table, list, schedule, boolean, text, analysis, plan, optimization_plan is expected",
            "/success is \"yes\"; true or false is expected",
            "/threshold is 70; a number from 0 to 1 is expected",
            "/dialect is \"oracle9\"; one of generic, postgres, mysql, sqlite, mssql, bigquery, snowflake, redshift, clickhouse, duckdb, databricks, hive, ansi is expected",
        ]
    );
    let docking = faults(json!({ "agent_used": "docking", "success": null }));
    assert_eq!(
        docking,
        [
            "/api_success is missing; for agent docking api_success or success, true or false, is expected"
        ]
    );
    let unanswered = json!({ "generated_sql": null, "actual_results": null, "success": null });
    assert_eq!(
        faults(unanswered),
        [
            "/generated_sql is missing; an answer of the agent (this, actual_results or error; gavel evaluate FILE asks agents) is expected"
        ]
    );
    let failed =
        json!({ "generated_sql": null, "actual_results": null, "success": null, "error": "503" });
    assert_eq!(case(failed).error.as_deref(), Some("503"));
}

#[test]
fn an_expected_answer_fits_its_type_and_every_answer_its_limits() {
    assert!(
        faults(json!({ "expected_results": "many" }))[0]
            .starts_with("/expected_results doesn't fit")
    );
    assert!(
        faults(json!({ "expected_answer_type": "table", "expected_results": 5 }))[0]
            .contains("columns and rows")
    );
    let rows = vec![json!({ "a": 1 }); 10_001];
    let many =
        json!({ "expected_answer_type": "table", "expected_results": [], "actual_results": rows });
    assert!(faults(many)[0].starts_with("/actual_results can't be compared: 10001 rows"));
    let wide: Value = (0..501)
        .map(|at| (format!("c{at}"), json!(at)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let wide = json!({ "expected_answer_type": "table", "expected_results": [wide] });
    assert!(faults(wide)[0].contains("more than 500 columns"));
    let long = json!({ "expected_answer_type": "text", "expected_results": "a", "actual_results": "x".repeat(65_537) });
    assert!(faults(long)[0].contains("at most 65536"));
    let sql = json!({ "generated_sql": "x".repeat(65_537) });
    assert!(faults(sql)[0].starts_with("/generated_sql is 65537 bytes"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[-$0-9.,ekm% ]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|columns|rows|data|error", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_payload_panics_and_every_total_is_a_share(
        wanted in prop::sample::select(AnswerType::NAMES.map(|(name, _)| name).to_vec()),
        expected in any_json(), actual in any_json(), error in any_json(), sql in any_json(),
    ) {
        let payload = json!({
            "question": "?", "expected_answer_type": wanted, "expected_results": expected, "actual_results": actual,
            "error": error, "generated_sql": sql, "expected_sql": "select 1",
        });
        if let Ok(case) = QasCase::read(&payload) {
            let asked = questions(&case).len();
            prop_assert_eq!(asked > 0, case.needs_judge());
            let answers: Vec<JudgeAnswer> = (0..asked).map(|_| reply(0.5)).collect();
            let evaluation = evaluate(&case, &answers);
            let total = evaluation.total.unwrap();
            prop_assert!((0.0..=1.0).contains(&total), "{}", total);
        }
        let _ = QasCase::read(&error);
    }
}

#[test]
fn an_answer_is_compared_in_the_form_in_which_it_came() {
    let rows = json!([{"name": "Ada", "n": 3}, {"name": "Bo", "n": 2}]);
    for (actual, datatype) in [
        (json!("[('Ada', 3), ('Bo', 2)]"), 0.5),
        (
            json!({"columns": ["name", "n"], "index": [0, 1], "data": [["Ada", 3], ["Bo", 2]]}),
            1.0,
        ),
        (
            json!({"columns": ["name", "n"], "rows": [["Bo", 2], ["Ada", 3]], "row_count": 2}),
            1.0,
        ),
        (
            json!("| name | n |\n|---|---|\n| Ada | 3 |\n| Bo | 2 |"),
            1.0,
        ),
    ] {
        let case = case(json!({
            "expected_answer_type": "table", "expected_results": rows, "actual_results": actual,
        }));
        let Preliminary::Known(execution, _) = execution::execution(&case) else {
            panic!("{actual}");
        };
        assert_eq!(
            (execution, datatype::datatype(&case).0),
            (1.0, datatype),
            "{actual}"
        );
    }
}

#[test]
fn rows_in_text_with_a_field_twice_are_refused() {
    for name in ["expected_results", "actual_results"] {
        let mut payload = payload(json!({
            "expected_answer_type": "table", "expected_results": [[1]], "actual_results": [[1]],
        }));
        payload[name] = json!(r#"[{"name": "Bo", "name": "Ada"}]"#);
        let faults = QasCase::read(&payload).unwrap_err();
        assert_eq!(faults[0].pointer, format!("/{name}"));
        assert!(
            faults[0]
                .message
                .starts_with("has the field `name` twice in one object")
        );
    }
}
