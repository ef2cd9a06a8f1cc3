//! Outcomes of the suite in `examples/queries`.

use super::*;

/// Computed components of a case (schema, semantic, results), and whether it passes with the judge's full mark.
const OUTCOMES: [(&str, [f64; 3], bool); 12] = [
    ("failed-logons-identical", [1.0, 1.0, 1.0], true),
    (
        "errors-by-severity-minutes-for-hours",
        [1.0, 1.0, 1.0],
        true,
    ),
    ("slow-requests-extra-column", [1.0, 0.94, 1.0], true),
    ("levels-wrong-table-no-grouping", [0.5, 0.5, 0.0], false),
    (
        "sign-ins-outside-home-country-negated",
        [1.0, 0.94, 0.0],
        false,
    ),
    (
        "dependency-failures-did-not-execute",
        [0.0, 0.85, 0.0],
        false,
    ),
    ("latest-alerts-in-order", [1.0, 1.0, 1.0], true),
    ("busiest-hosts-order-lost", [1.0, 1.0, 0.5], false),
    ("exceptions-per-hour-accepted", [1.0, 1.0, 1.0], true),
    ("cpu-average-rounded", [1.0, 1.0, 1.0], true),
    (
        "no-suspicious-consents",
        [1.0, 0.4 + 0.3 * 2.0 / 7.0 + 0.3, 1.0],
        true,
    ),
    ("beaconing-join-duplicates", [1.0, 1.0, 0.0], false),
];

#[test]
fn example_cases_have_documented_outcomes() {
    let suite = include_str!("../../../../../examples/queries/kql-suite.jsonl");
    assert_eq!(suite.lines().count(), OUTCOMES.len());
    for (line, (id, [schema, semantic, results], passes)) in suite.lines().zip(OUTCOMES) {
        let case = case(serde_json::from_str(line).unwrap());
        assert_eq!(case.id.as_deref(), Some(id));
        let evaluation = evaluated(&case, &[grade(1.0)]);
        for (component, expected) in [
            ("schema_match", schema),
            ("semantic_similarity", semantic),
            ("results_match", results),
        ] {
            let found = score_of(&evaluation, component);
            assert!((found - expected).abs() < 1e-9, "{id} {component}: {found}");
        }
        assert_eq!(evaluation.passed, Some(passes), "{id}");
    }
}
