//! The suite in `examples/queries`: what it shows is what is computed.

use super::*;

/// What each case comes to: schema, semantic, results, and whether it passes if the judge finds no fault.
const OUTCOMES: [(&str, [f64; 3], bool); 1] = [("failed-logons-identical", [1.0, 1.0, 1.0], true)];

#[test]
fn every_case_of_the_suite_comes_to_what_it_shows() {
    let suite = include_str!("../../../../examples/queries/kql-suite.jsonl");
    for line in suite.lines() {
        let case = case(serde_json::from_str(line).unwrap());
        let e = evaluated(&case, &[grade(1.0)]);
        eprintln!(
            "(\"{}\", [{:.4}, {:.4}, {:.4}], {}), {}",
            case.id.as_deref().unwrap(),
            score_of(&e, "schema_match"),
            score_of(&e, "semantic_similarity"),
            score_of(&e, "results_match"),
            e.passed.unwrap(),
            e.result["accepted"]
        );
    }
}
