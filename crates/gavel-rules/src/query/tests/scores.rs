use super::*;

const RIGHT: &str = "AppTraces | where TimeGenerated > ago(1h) | where SeverityLevel >= 3 \
    | summarize count() by SeverityLevel";

fn with_the_same_result(generated: &str, expected: &str) -> Value {
    let rows = json!([{"SeverityLevel": 3, "count_": 17}, {"SeverityLevel": 4, "count_": 2}]);
    json!({
        "prompt": "How many errors were there in the last hour, by severity?",
        "generated_kql": generated,
        "expected_kql": expected,
        "generated_columns": ["SeverityLevel", "count_"],
        "expected_columns": ["SeverityLevel", "count_"],
        "generated_results": rows,
        "expected_results": rows,
    })
}

#[test]
fn perfect_match_scores_1_and_passes() {
    let other_layout = RIGHT.replace(" | ", "\n| // next\n");
    for generated in [RIGHT, &other_layout] {
        let case = case(with_the_same_result(generated, RIGHT));
        assert!(!case.needs_judge());
        assert!(asked(&case).is_empty());
        let evaluation = evaluated(&case, &[]);
        assert_eq!(evaluation.total, Some(1.0));
        assert_eq!(evaluation.passed, Some(true));
        for (name, score) in &evaluation.components {
            assert_eq!(*score, Some(1.0), "{name}");
        }
        let grading = &evaluation.result["components"]["llm_grading"];
        assert_eq!(grading["details"]["outcome"], "identical");
        assert!(
            grading["details"]["reasoning"]
                .as_str()
                .unwrap()
                .contains("identical")
        );
        assert_eq!(evaluation.result["judge"], Value::Null);
    }
}

#[test]
fn query_that_is_empty_scores_0_without_a_judge() {
    for (generated, expected, language) in [
        ("", "SELECT 1", "sql"),
        ("-- none\n;", "SELECT a FROM t", "sql"),
        ("// none", RIGHT, "kql"),
    ] {
        let mut payload = with_the_same_result(generated, expected);
        payload["language"] = json!(language);
        payload["accepted"] = json!([{"kql": format!("{expected} ")}]);
        let case = case(payload);
        assert!(asked(&case).is_empty());
        let evaluation = evaluated(&case, &[]);
        assert_eq!(score_of(&evaluation, "semantic_similarity"), 0.0);
        assert_eq!(score_of(&evaluation, "llm_grading"), 0.0);
        assert_eq!(evaluation.total, Some(0.5));
        let components = &evaluation.result["components"];
        assert_eq!(components["semantic_similarity"]["error"]["class"], "empty");
        assert_eq!(components["llm_grading"]["details"]["outcome"], "no_query");
    }
}

#[test]
fn minor_differences_score_0_9875_and_pass() {
    let generated = RIGHT.replace("ago(1h)", "ago(60m)");
    let evaluation = scored(with_the_same_result(&generated, RIGHT), 0.95);
    assert_near(score_of(&evaluation, "schema_match"), 1.0);
    assert_near(score_of(&evaluation, "semantic_similarity"), 1.0);
    assert_near(score_of(&evaluation, "results_match"), 1.0);
    assert_near(score_of(&evaluation, "llm_grading"), 0.95);
    assert_near(evaluation.total.unwrap(), 0.9875);
    assert_eq!(evaluation.passed, Some(true));
    // One hour equals sixty minutes, also among the literals.
    let literals =
        &evaluation.result["components"]["semantic_similarity"]["details"]["filter_literals"];
    assert_eq!(literals["score"], 1.0);
}

#[test]
fn another_table_without_the_grouping_fails() {
    let evaluation = scored(
        json!({
            "generated_kql": "AppTraces | where TimeGenerated > ago(1h) | summarize count()",
            "expected_kql": "Traces | where TimeGenerated > ago(1h) | summarize count() by level",
            "generated_columns": ["count_"],
            "expected_columns": ["level", "count_"],
            "generated_results": [{"count_": 19}],
            "expected_results": [{"level": 3, "count_": 17}, {"level": 4, "count_": 2}],
        }),
        0.3,
    );
    assert_near(score_of(&evaluation, "schema_match"), 0.5);
    let semantic = &evaluation.result["components"]["semantic_similarity"]["details"];
    assert_eq!(semantic["tables"]["score"], 0.0);
    assert_near(
        semantic["aggregations"]["score"].as_f64().unwrap(),
        2.0 / 3.0,
    );
    assert_near(
        score_of(&evaluation, "semantic_similarity"),
        0.3 + 0.3 * 2.0 / 3.0,
    );
    assert_eq!(score_of(&evaluation, "results_match"), 0.0);
    assert_eq!(evaluation.passed, Some(false));
    assert_eq!(evaluation.result["is_successful"], false);
}

#[test]
fn count_operator_scores_two_thirds_of_count_by_column() {
    let evaluation = scored(
        json!({
            "generated_kql": "SecurityEvent | where EventID == 4625 | count",
            "expected_kql": "SecurityEvent | where EventID == 4625 | summarize count() by Account",
        }),
        0.5,
    );
    let details = &evaluation.result["components"]["semantic_similarity"]["details"];
    let found = details["aggregations"]["score"].as_f64().unwrap();
    assert_eq!((found * 1000.0).round(), 667.0);
}

#[test]
fn threshold_tolerates_rounding_errors() {
    let case = case(with_the_same_result("T", RIGHT));
    for (components, passes) in [
        ([0.65, 1.0, 0.95, 1.0], true),
        ([0.65, 1.0, 0.95, 0.99], false),
        ([0.9, 0.9, 0.9, 0.9], true),
    ] {
        let mut computed = case.computed(&criteria()).clone();
        computed.schema.score = components[0];
        computed.semantic_score = Some(components[1]);
        computed.results_score = components[2];
        let grading = Grading::from_answer(Some(&grade(components[3])));
        let total = QueryCase::total(&computed, grading.score().unwrap()).unwrap();
        assert_eq!(case.passes(total), passes, "{components:?}: {total}");
    }
}

#[test]
fn payload_threshold_overrides_default() {
    let mut payload = with_the_same_result(&RIGHT.replace("ago(1h)", "ago(60m)"), RIGHT);
    payload["threshold"] = json!(0.99);
    let evaluation = scored(payload, 0.95);
    assert_eq!(evaluation.threshold, Some(0.99));
    assert_eq!(evaluation.passed, Some(false));
    assert_eq!(evaluation.result["threshold"], 0.99);
}

#[test]
fn judge_failure_leaves_no_total() {
    let case = case(with_the_same_result("Heartbeat | count", RIGHT));
    let evaluation = evaluated(&case, &[failure()]);
    assert_eq!((evaluation.total, evaluation.passed), (None, None));
    assert_eq!(evaluation.error.unwrap().class, ErrorClass::Transient);
    let result = &evaluation.result;
    assert_eq!(result["total_score"], Value::Null);
    assert_eq!(result["is_successful"], false);
    assert_eq!(result["status"], "incomplete");
    assert_eq!(result["missing"], json!(["llm_grading"]));
    let grading = &result["components"]["llm_grading"];
    assert_eq!(grading["score"], Value::Null);
    assert_eq!(grading["weighted_score"], Value::Null);
    assert_eq!(
        grading["error"],
        json!({"class": "transient", "message": "judge answered 500 four times"})
    );
    for computed in ["schema_match", "semantic_similarity", "results_match"] {
        assert!(
            result["components"][computed]["score"].is_f64(),
            "{computed}"
        );
    }
}

#[test]
fn without_judge_only_computed_components_score() {
    let case = case(with_the_same_result(
        &RIGHT.replace("ago(1h)", "ago(60m)"),
        RIGHT,
    ));
    let evaluation = evaluated(&case, &[]);
    assert_eq!((evaluation.total, evaluation.passed), (None, None));
    assert_eq!(evaluation.error, None);
    let result = &evaluation.result;
    assert_eq!(
        (&result["status"], &result["is_successful"]),
        (&json!("incomplete"), &json!(false))
    );
    assert_eq!(
        result["components"]["llm_grading"]["error"]["class"],
        "not_run"
    );
    assert_eq!(result["components"]["results_match"]["score"], 1.0);
}

#[test]
fn failed_execution_is_never_successful() {
    let mut payload = with_the_same_result(RIGHT, RIGHT);
    payload["generated_error"] = json!("SEM0100: 'AppTraces' could not be resolved");
    payload["threshold"] = json!(0.1);
    let evaluation = evaluated(&case(payload), &[]);
    assert_eq!(score_of(&evaluation, "results_match"), 0.0);
    assert_near(evaluation.total.unwrap(), 0.75);
    assert_eq!(evaluation.passed, Some(false));
    assert_eq!(
        evaluation.result["components"]["results_match"]["error"],
        json!({"class": "execution_error", "message": "SEM0100: 'AppTraces' could not be resolved"})
    );
}

#[test]
fn score_uses_first_100_rows_and_precision_all() {
    let rows = |range: std::ops::Range<i64>| -> Value { range.map(|n| json!({"n": n})).collect() };
    let payload = |generated: Value| {
        json!({
            "generated_kql": "T | take 200", "expected_kql": "T | where true",
            "generated_results": generated, "expected_results": rows(0..200),
        })
    };
    let reversed: Value = (0..200).rev().map(|n| json!({"n": n})).collect();
    let evaluation = scored(payload(reversed), 1.0);
    assert_eq!(score_of(&evaluation, "results_match"), 1.0);
    // With the second hundred missing, the component's score is full but F1 isn't.
    let evaluation = scored(payload(rows(0..100)), 1.0);
    assert_eq!(score_of(&evaluation, "results_match"), 1.0);
    let details = &evaluation.result["components"]["results_match"]["details"];
    assert_eq!(
        (&details["compared"], &details["matched_in_all"]),
        (&json!(100), &json!(100))
    );
    assert_eq!(
        (&details["recall"], &details["precision"]),
        (&json!(0.5), &json!(1.0))
    );
    assert_eq!(
        details["missing_rows"],
        json!([{"n": 100}, {"n": 101}, {"n": 102}, {"n": 103}, {"n": 104}])
    );
}

#[test]
fn order_counts_if_requested_or_expected_query_sorts() {
    let sorted = "T | summarize c = count() by u | top 3 by c";
    let inside = "T | join (U | sort by x) on u | summarize c = count() by u";
    for (ordered, expected, counts) in [
        (json!(true), inside, true),
        (json!("auto"), sorted, true),
        (json!("auto"), inside, false),
        (json!("auto"), "T // | sort by c", false),
        (json!(false), sorted, false),
    ] {
        let evaluation = scored(
            json!({
                "generated_kql": "T | summarize c = count() by u", "expected_kql": expected,
                "generated_results": [{"u": "b"}, {"u": "a"}], "expected_results": [{"u": "a"}, {"u": "b"}],
                "ordered": ordered,
            }),
            1.0,
        );
        let score = if counts { 0.5 } else { 1.0 };
        assert_eq!(
            score_of(&evaluation, "results_match"),
            score,
            "{ordered} {expected}"
        );
        let details = &evaluation.result["components"]["results_match"]["details"];
        assert_eq!(details["ordered"], counts);
    }
}

#[test]
fn tied_rows_may_be_swapped() {
    let first = json!([{"n": "ICML", "c": 3}, {"n": "AAAS", "c": 1}, {"n": "ISA", "c": 1}]);
    let swapped = json!([{"n": "ICML", "c": 3}, {"n": "ISA", "c": 1}, {"n": "AAAS", "c": 1}]);
    let wrong = json!([{"n": "ISA", "c": 1}, {"n": "AAAS", "c": 1}, {"n": "ICML", "c": 3}]);
    let score = |query: &str, language: &str, ordered: Value, rows: &Value| {
        let payload = json!({
            "generated_kql": query, "expected_kql": query, "language": language, "ordered": ordered,
            "generated_results": rows, "expected_results": first,
        });
        score_of(&evaluated(&case(payload), &[]), "results_match")
    };
    for (query, language) in [
        ("SELECT n, c FROM t ORDER BY c DESC", "sql"),
        (
            "SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY 2 DESC",
            "sql",
        ),
        ("T | summarize c = count() by n | sort by c desc", "kql"),
        ("SELECT n, c FROM t ORDER BY c DESC NULLS LAST", "sql"),
        ("SELECT n, c FROM t ORDER BY abs(c) DESC", "sql"),
        (
            "SELECT n, c FROM t ORDER BY -coalesce(c, 0), c IS NULL",
            "sql",
        ),
        (
            "T | summarize c = count() by n | top 3 by abs(c) desc nulls last",
            "kql",
        ),
    ] {
        for ordered in [json!("auto"), json!(true)] {
            assert_near(score(query, language, ordered.clone(), &swapped), 1.0);
            assert_near(score(query, language, ordered, &wrong), 2.0 / 3.0);
        }
    }
    // No rows are tied if the query has further sort keys, or sorts by columns that aren't in the result.
    for query in [
        "SELECT n, c FROM t ORDER BY c DESC, n",
        "SELECT n, c FROM t ORDER BY d",
        "SELECT n, c FROM t ORDER BY c DESC, lower(n)",
        "SELECT n, c FROM t ORDER BY c DESC, lower(d)",
        "SELECT n, c FROM t ORDER BY c DESC, (SELECT max(d) FROM u WHERE u.c = t.c)",
    ] {
        assert_near(score(query, "sql", json!("auto"), &swapped), 2.0 / 3.0);
    }
}

#[test]
fn decimals_round_numbers() {
    let payload = |decimals: Value| {
        json!({
            "generated_kql": "T", "expected_kql": "U", "decimals": decimals,
            "generated_results": [[12.344]], "expected_results": [[12.34]],
        })
    };
    assert_eq!(
        score_of(&scored(payload(json!(2)), 1.0), "results_match"),
        1.0
    );
    assert_eq!(
        score_of(&scored(payload(json!(null)), 1.0), "results_match"),
        0.0
    );
}

#[test]
fn sql_is_read_as_sql() {
    let payload = |generated: &str| {
        json!({
            "language": "sql", "dialect": "postgres", "expected_kql":
            "SELECT name, count(*) FROM users WHERE active AND age > 30 GROUP BY name", "generated_kql": generated,
        })
    };
    let same = case(payload(
        "select name, count(*) from users -- all\nwhere active and age > 30 group by name;",
    ));
    assert!(!same.needs_judge());
    assert_eq!(evaluated(&same, &[]).total, Some(1.0));
    let other = case(payload(
        "SELECT name, count(*) FROM orders WHERE active AND age > 30 GROUP BY name",
    ));
    let evaluation = evaluated(&other, &[grade(0.2)]);
    assert_near(score_of(&evaluation, "semantic_similarity"), 0.6);
    assert!(
        asked(&other)[0]
            .prompt
            .to_string()
            .contains("<<<EVIDENCE expected_sql")
    );
}

#[test]
fn unparsable_sql_has_no_score() {
    let payload = |expected: &str, generated: &str, error: Value| {
        json!({
            "language": "sql", "dialect": "postgres", "expected_kql": expected, "generated_kql": generated,
            "generated_error": error,
        })
    };
    let (good, broken, why) = ("select 1", "select ((", json!("syntax error"));
    for (expected, generated, error, semantic, which) in [
        (good, broken, json!(null), None, "the generated query: "),
        (broken, good, json!(null), None, "the expected query: "),
        (good, broken, why, Some(0.0), "the generated query: "),
    ] {
        let evaluation = scored(payload(expected, generated, error), 1.0);
        assert_eq!(evaluation.components[1], ("semantic_similarity", semantic));
        assert_eq!(evaluation.total.is_some(), semantic.is_some());
        let missing = semantic.is_none().then(|| json!(["semantic_similarity"]));
        assert_eq!(evaluation.result["missing"], missing.unwrap_or_default());
        let error = &evaluation.result["components"]["semantic_similarity"]["error"];
        assert_eq!(error["class"], "syntax");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with(which) && message.contains("doesn't parse as postgres"),
            "{message}"
        );
        assert!(
            message.contains("EOF"),
            "it says where the parser stopped: {message}"
        );
    }
    let same = case(payload(broken, "select\n((", json!(null)));
    assert_eq!(evaluated(&same, &[]).total, Some(1.0));
    let hidden = scored(payload(good, "call p()", json!(null)), 1.0);
    let error = &hidden.result["components"]["semantic_similarity"]["error"];
    assert_eq!(error["class"], "hidden_tables");
    // A right answer that parses wins, though the rows of the other are closer.
    let rows = json!([{"n": 1}]);
    let mut accepts = payload(broken, good, json!(null));
    accepts["generated_results"] = rows.clone();
    accepts["expected_results"] = rows;
    accepts["accepted"] = json!([{"kql": "select 2", "results": [{"n": 2}]}]);
    let evaluation = scored(accepts, 1.0);
    assert_eq!(evaluation.result["accepted"], 0);
    assert!(evaluation.total.is_some());
}

#[test]
fn long_row_is_cut() {
    let evaluation = scored(
        json!({"generated_kql": "T", "expected_kql": "U", "expected_results": [{"a": "é".repeat(5_000)}]}),
        0.0,
    );
    let shown = &evaluation.result["components"]["results_match"]["details"]["missing_rows"][0];
    let shown = shown.as_str().unwrap();
    assert!(
        shown.len() < 4_200 && shown.ends_with('…'),
        "{}",
        shown.len()
    );
}

#[test]
fn prompt_fences_question_and_queries_without_results() {
    let payload = with_the_same_result("T | take 1 // {{EXPECTED_QUERY}}", RIGHT);
    let questions = asked(&case(payload));
    let [question] = questions.as_slice() else {
        panic!("one question is asked");
    };
    let prompt = &question.prompt.to_string();
    for (name, text) in [
        (
            "question",
            "How many errors were there in the last hour, by severity?",
        ),
        ("expected_kql", RIGHT),
        ("generated_kql", "T | take 1 // {{EXPECTED_QUERY}}"),
    ] {
        let nonce = "7f".repeat(16);
        let fenced = format!("<<<EVIDENCE {name} {nonce}\n{text}\nEVIDENCE {name} {nonce}>>>");
        assert!(prompt.contains(&fenced), "{prompt}");
    }
    assert!(!prompt.contains("count_\":"), "{prompt}");
    assert_eq!(question.kind, "query");
    // The cache key ignores the nonce, but not the query.
    let again = |generated: &str| {
        let case = case(with_the_same_result(generated, RIGHT));
        let asked = case.questions(&criteria(), &limits(128_000), &Nonce("0a".repeat(16)));
        asked.unwrap().remove(0).evidence_hash
    };
    assert_eq!(
        again("T | take 1 // {{EXPECTED_QUERY}}"),
        question.evidence_hash
    );
    assert_ne!(again("T | take 2"), question.evidence_hash);
}

#[test]
fn oversized_question_error_contains_fix() {
    let case = case(with_the_same_result(
        &"T | where a == 1 ".repeat(1_000),
        RIGHT,
    ));
    let refused = case.questions(&criteria(), &limits(4_000), &Nonce("7f".repeat(16)));
    let Err(Unscorable::TooLarge(said)) = refused else {
        panic!("{refused:?}");
    };
    assert!(said.contains("name a judge with a larger window"), "{said}");
}

#[test]
fn built_in_criteria_have_this_kind() {
    let text = include_str!("../../../../../config/criteria/query.yaml");
    for fence in [
        "{{QUESTION}}",
        "{{EXPECTED_QUERY}}",
        "{{GENERATED_QUERY}}",
        "{{OUTPUT_SCHEMA}}",
    ] {
        // Once in the comment, once in the prompt.
        assert_eq!(text.matches(fence).count(), 2, "{fence}");
    }
}

#[test]
fn criteria_control_case_sensitivity() {
    let payload = json!({
        "generated_kql": "T", "expected_kql": "T",
        "generated_results": [{"Name": "ADA", "tags": ["X"]}], "expected_results": [{"name": "Ada", "tags": ["x"]}],
    });
    let mut heeding = criteria();
    heeding.case = crate::criteria::Case::Heeded;
    for (criteria, score) in [(criteria(), 1.0), (heeding, 0.0)] {
        let Scorecard::Evaluated(evaluation) = case(payload.clone()).score(&criteria, &[]) else {
            panic!("not evaluated");
        };
        assert_eq!(score_of(&evaluation, "results_match"), score);
        assert_eq!(
            score_of(&evaluation, "schema_match"),
            1.0,
            "names aren't cells"
        );
    }
}

#[test]
fn column_with_other_name_costs_a_tenth() {
    let cases = [
        (
            json!([{"n": 4}]),
            json!([{"course_id": 4}]),
            0.9,
            json!([{"expected": "n", "generated": "course_id"}]),
        ),
        (
            json!([[4]]),
            json!([{"course_id": 4}]),
            1.0,
            json!([{"expected": null, "generated": "course_id"}]),
        ),
        (
            json!([{"a": 1, "n": 4}]),
            json!([{"N": 4, "x": 1}]),
            0.95,
            json!([{"expected": "a", "generated": "x"}]),
        ),
        (
            json!([{"n": 4}]),
            json!([{"N": 4, "course_id": 4}]),
            1.0,
            json!([]),
        ),
        (json!([[4]]), json!([[4]]), 1.0, json!([])),
    ];
    for (expected, generated, score, told) in cases {
        let payload = json!({
            "generated_kql": "T", "expected_kql": "T", "generated_results": generated, "expected_results": expected,
        });
        let evaluation = evaluated(&case(payload), &[]);
        assert_near(score_of(&evaluation, "results_match"), score);
        let details = &evaluation.result["components"]["results_match"]["details"];
        assert_eq!(details["columns_by_values"], told);
    }
}
