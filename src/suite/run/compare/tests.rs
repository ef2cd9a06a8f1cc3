//! Tests of comparisons of constructed runs: changed items, means and judges.

use super::*;
use crate::job::{Kind, Usage};
use crate::report::Outcome;
use serde_json::Value;

fn item(id: &str, total: Option<f64>) -> Item {
    Item {
        item_no: 0,
        kind: Kind::Query,
        id: Some(id.to_owned()),
        payload: Value::Null,
        outcome: match total {
            Some(_) => Outcome::Scored,
            None => Outcome::Incomplete,
        },
        total,
        passed: total.map(|total| total >= 0.9),
        result: None,
        error: None,
        simulated: false,
        usage: Usage::default(),
        job_id: None,
    }
}

#[test]
fn part_means_use_items_with_the_part_in_both_runs() {
    let of = |id: &str, schema: f64, llm: Option<f64>| Item {
        result: Some(serde_json::json!({"components": {
            "schema_match": {"score": schema}, "llm_grading": {"score": llm}}})),
        ..item(id, llm)
    };
    let a = [of("x", 1.0, Some(0.5)), of("y", 0.5, Some(1.0))];
    let b = [of("x", 0.5, Some(1.0)), of("y", 0.5, None)];
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    let parts: Vec<_> = found
        .parts
        .iter()
        .map(|part| (part.name, part.compared, part.difference))
        .collect();
    assert_eq!(parts, [("schema_match", 2, -0.25), ("llm_grading", 1, 0.5)]);
}

fn ids(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.id.as_str()).collect()
}

#[test]
fn classifies_changes_and_compares_common_items() {
    let a = [
        item("same", Some(1.0)),
        item("broke", Some(0.95)),
        item("fixed", Some(0.2)),
        item("lost", Some(1.0)),
        item("found", None),
        item("never", None),
        item("gone", Some(0.0)),
    ];
    let b = [
        item("new", Some(0.0)),
        item("never", None),
        item("found", Some(0.0)),
        item("lost", None),
        item("fixed", Some(1.0)),
        item("broke", Some(0.25)),
        item("same", Some(1.0)),
    ];
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    assert_eq!(ids(&found.pass_to_fail), ["broke"]);
    assert_eq!(ids(&found.fail_to_pass), ["fixed"]);
    assert_eq!(ids(&found.lost_score), ["lost"]);
    assert_eq!(ids(&found.gained_score), ["found"]);
    assert_eq!(
        (found.new.as_slice(), found.gone.as_slice()),
        (&["new".to_owned()][..], &["gone".to_owned()][..])
    );
    assert_eq!((found.common, found.compared), (6, 3));
    let mean = |value: Option<f64>| (value.unwrap() * 1_000.0).round() / 1_000.0;
    assert_eq!((mean(found.mean_a), mean(found.mean_b)), (0.717, 0.75));
    assert_eq!(mean(found.difference), 0.033);
    assert!(!found.mixes_simulated());
}

#[test]
fn item_that_lost_its_score_is_excluded() {
    let incomplete = Item {
        kind: Kind::SqlMetrics,
        result: Some(
            serde_json::json!({"total": 1.0, "passed": false, "missing": ["table_accuracy"], "metrics": {
            "safety_validation": {"score": 1.0}, "table_accuracy": {"score": 0.0, "error": {"class": "syntax"}}}}),
        ),
        ..item("y", None)
    };
    let a = [item("x", Some(1.0)), item("y", Some(1.0))];
    let b = [item("x", Some(1.0)), incomplete];
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    assert_eq!(ids(&found.lost_score), ["y"]);
    assert_eq!((ids(&found.pass_to_fail), found.compared), (vec![], 1));
    let decide =
        |errors| crate::suite::run::gate::decide_comparison(&found, Some(0.0), errors).decision;
    assert_eq!(decide(0), crate::report::Verdict::Incomplete);
    assert_eq!(decide(1), crate::report::Verdict::Passed);
    let back = RunComparison::between(b.as_slice(), a.as_slice()).unwrap();
    assert_eq!(ids(&back.gained_score), ["y"]);
}

#[test]
fn comparison_without_common_scores_does_not_pass() {
    let (a, b) = ([item("x", Some(1.0))], [item("x", None)]);
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    for max_regression in [None, Some(0.5)] {
        let gate_result = crate::suite::run::gate::decide_comparison(&found, max_regression, 0);
        assert_eq!(gate_result.decision, crate::report::Verdict::Incomplete);
        assert_eq!(gate_result.reasons.len(), 1, "{gate_result:?}");
    }
}

#[test]
fn interval_contains_difference_and_is_deterministic() {
    let run = |shift: f64| -> Vec<Item> {
        (0..200)
            .map(|n| item(&format!("q{n}"), Some(f64::from(n % 10) / 20.0 + shift)))
            .collect()
    };
    let (a, b) = (run(0.0), run(0.1));
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    let (low, high) = found.interval.unwrap();
    assert!(
        (low - 0.1).abs() < 1e-9 && (high - 0.1).abs() < 1e-9,
        "{low} {high}"
    );
    let mut noisy = b.clone();
    for (n, item) in noisy.iter_mut().enumerate() {
        item.total = item
            .total
            .map(|total| total + if n % 2 == 0 { 0.2 } else { -0.2 });
    }
    let found = RunComparison::between(a.as_slice(), noisy.as_slice()).unwrap();
    let (low, high) = found.interval.unwrap();
    assert!(
        low < 0.09 && high > 0.11 && low > 0.05 && high < 0.15,
        "{low} {high}"
    );
    assert_eq!(
        found,
        RunComparison::between(a.as_slice(), noisy.as_slice()).unwrap()
    );
}

#[test]
fn single_pair_has_no_interval() {
    let (a, b) = ([item("a", Some(1.0))], [item("a", Some(0.5))]);
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    assert_eq!((found.difference, found.interval), (Some(-0.5), None));
    let found = RunComparison::between(a.as_slice(), [].as_slice()).unwrap();
    assert_eq!((found.difference, found.compared), (None, 0));
}

#[test]
fn reports_different_judges_and_criteria() {
    let by = |model: &str| Item {
        result: Some(serde_json::json!({"judge": {"provider": "j", "model": model}})),
        ..item("a", Some(1.0))
    };
    let bench = |hash: &str| Bench {
        criteria_hash: hash.to_owned(),
        judge: None,
        model: None,
    };
    let found =
        |a: &str, b: &str| RunComparison::between([by(a)].as_slice(), [by(b)].as_slice()).unwrap();
    assert_eq!(found("m1", "m1").judged.otherwise(), [""; 0]);
    assert_eq!(
        found("m1", "m2").judged.otherwise(),
        [
            "judged by j (m1) in A and by j (m2) in B: a difference may be the judges' and not the agent's"
        ]
    );
    let same = found("m1", "m1").under(Some(&bench("f00")), Some(&bench("f00")));
    assert_eq!(same.judged.otherwise(), [""; 0]);
    let other = found("m1", "m1").under(Some(&bench("f00")), Some(&bench("ba7")));
    assert_eq!(
        other.judged.otherwise(),
        [
            "judged under criteria f00 in A and ba7 in B: a difference may be the criteria's and not the agent's"
        ]
    );
    // Unknown without judged items or without the other header.
    let nobody = RunComparison::between([by("m1")].as_slice(), [item("a", Some(1.0))].as_slice());
    let nobody = nobody.unwrap().under(Some(&bench("f00")), None);
    assert_eq!(nobody.judged.otherwise(), [""; 0]);
}

#[test]
fn detects_simulated_and_real_runs() {
    let mut simulated = item("a", Some(1.0));
    simulated.simulated = true;
    let (a, b) = ([simulated], [item("a", Some(1.0))]);
    let found = RunComparison::between(a.as_slice(), b.as_slice()).unwrap();
    assert!(found.mixes_simulated());
    assert!(
        !RunComparison::between(a.as_slice(), a.as_slice())
            .unwrap()
            .mixes_simulated()
    );
}
