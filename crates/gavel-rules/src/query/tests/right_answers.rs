use super::*;

/// A payload with the same result for the generated query and the second accepted one.
fn payload(generated: &str) -> Value {
    json!({
        "generated_kql": generated,
        "expected_kql": "AppRequests | summarize count() by Name",
        "expected_results": [{"Name": "a", "count_": 1}],
        "generated_results": [{"op": "b", "n": 2}],
        "accepted": [
            {"kql": "AppDependencies | count", "results": []},
            {"kql": "requests | summarize n = count() by op = name", "results": [{"op": "b", "n": 2}]},
            {"kql": "requests | summarize n = count() by op = name", "results": [{"op": "b", "n": 2}]},
        ],
    })
}

#[test]
fn judge_gets_best_right_answer() {
    let case = case(payload(
        "requests | where true | summarize n = count() by op = name",
    ));
    let questions = asked(&case);
    assert!(
        questions[0]
            .prompt
            .to_string()
            .contains("requests | summarize n")
    );
    assert!(!questions[0].prompt.to_string().contains("AppRequests"));
    let evaluation = evaluated(&case, &[grade(1.0)]);
    // The first among equals.
    assert_eq!(evaluation.result["accepted"], 1);
    assert_eq!(score_of(&evaluation, "schema_match"), 1.0);
    assert_eq!(score_of(&evaluation, "results_match"), 1.0);
}

#[test]
fn identical_accepted_query_needs_no_judge() {
    let case = case(payload("requests\n| summarize n=count() by op=name"));
    assert!(case.needs_judge(), "results have to be compared first");
    assert!(asked(&case).is_empty());
    let evaluation = evaluated(&case, &[]);
    assert_eq!(evaluation.total, Some(1.0));
    assert_eq!(evaluation.result["accepted"], 1);
}

#[test]
fn prefers_expected_query_among_equals() {
    let case = case(json!({
        "generated_kql": "T | take 1",
        "expected_kql": "T | take 2",
        "accepted": [{"kql": "T | take 3"}],
    }));
    assert_eq!(
        evaluated(&case, &[grade(1.0)]).result["accepted"],
        Value::Null
    );
}

#[test]
fn accepted_query_defaults_to_expected_result() {
    let case = case(json!({
        "generated_kql": "T | where a == 1 | project a",
        "expected_kql": "U | project a",
        "expected_results": [{"a": 1}],
        "generated_results": [{"a": 1}],
        "accepted": [{"kql": "T | where a == 2 | project a"}],
    }));
    let evaluation = evaluated(&case, &[grade(1.0)]);
    assert_eq!(evaluation.result["accepted"], 0);
    assert_eq!(evaluation.total, Some(1.0));
}

#[test]
fn auto_order_follows_each_right_answer() {
    let rows = json!([{"a": 1}, {"a": 2}]);
    let case = case(json!({
        "generated_kql": "T | take 5",
        "expected_kql": "U",
        "expected_results": rows,
        "generated_results": [{"a": 2}, {"a": 1}],
        "accepted": [{"kql": "T | take 6 | sort by a", "results": rows}],
        "ordered": "auto",
    }));
    let evaluation = evaluated(&case, &[grade(1.0)]);
    // The accepted query has the right table but requires an order that isn't met; the expected one requires no order.
    assert_eq!(evaluation.result["accepted"], Value::Null);
    assert_eq!(score_of(&evaluation, "results_match"), 1.0);
}
