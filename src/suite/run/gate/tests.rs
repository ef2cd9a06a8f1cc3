//! Tests of gates with constructed items.

use chrono::DateTime;
use serde_json::{Value, json};

use super::*;
use crate::job::{Kind, Usage};
use crate::report::summary::Summary;
use crate::report::{Item, ItemError, Meta, Outcome};

fn item(total: Option<f64>) -> Item {
    Item {
        item_no: 0,
        kind: Kind::Query,
        id: None,
        payload: Value::Null,
        outcome: match total {
            Some(_) => Outcome::Scored,
            None => Outcome::Incomplete,
        },
        total,
        passed: total.map(|total| total >= 0.9),
        result: Some(json!({})),
        error: total.is_none().then(|| ItemError {
            class: "transient".to_owned(),
            message: "503".to_owned(),
        }),
        simulated: false,
        usage: Usage::default(),
        job_id: None,
    }
}

fn figures(items: &[Item], unfinished: u64) -> Figures {
    let mut summary = Summary::default();
    items.iter().for_each(|item| summary.add(item));
    summary.figures(&Meta {
        name: "suite".to_owned(),
        run: None,
        made_at: DateTime::UNIX_EPOCH,
        unfinished,
        simulated: Simulated::Refused,
        judging: Judging::Asked,
        criteria_hash: None,
    })
}

fn decision(items: &[Item], gates: &Gates) -> (Verdict, String) {
    let gate_result = decide(&figures(items, 0), gates, Judging::Asked, None);
    (gate_result.decision, gate_result.reasons.join("; "))
}

#[test]
fn default_gate_requires_all_passes_and_incomplete_wins() {
    let (good, bad, open) = (item(Some(1.0)), item(Some(0.5)), item(None));
    let none = Gates::default();
    assert_eq!(
        decision(std::slice::from_ref(&good), &none),
        (Verdict::Passed, String::new())
    );
    let (failed, why) = decision(&[good.clone(), bad.clone()], &none);
    assert_eq!(failed, Verdict::Failed);
    assert_eq!(why, "1 of 2 scored items did not pass");
    let (incomplete, why) = decision(&[good, bad, open], &none);
    assert_eq!(incomplete, Verdict::Incomplete);
    assert!(
        why.starts_with("1 of 3 items has no score (1 transient)"),
        "{why}"
    );
    assert_eq!(decision(&[], &none).0, Verdict::Nothing);
}

#[test]
fn gates_compare_values_of_scored_items() {
    let items = [
        item(Some(1.0)),
        item(Some(0.9)),
        item(Some(0.5)),
        item(Some(0.8)),
    ];
    let rate = |rate| Gates {
        min_pass_rate: Some(rate),
        ..Gates::default()
    };
    assert_eq!(decision(&items, &rate(0.5)).0, Verdict::Passed);
    let (failed, why) = decision(&items, &rate(0.51));
    assert_eq!(
        (failed, why.as_str()),
        (
            Verdict::Failed,
            "the pass rate is 0.500, below --min-pass-rate 0.51"
        )
    );
    let mean = |mean| Gates {
        min_mean: Some(mean),
        ..Gates::default()
    };
    assert_eq!(decision(&items, &mean(0.8)).0, Verdict::Passed);
    assert_eq!(decision(&items, &mean(0.81)).0, Verdict::Failed);
    assert_eq!(
        decision(
            &[item(None)],
            &Gates {
                max_errors: Some(1),
                ..mean(0.5)
            }
        )
        .0,
        Verdict::Incomplete
    );
}

#[test]
fn allowed_errors_are_excluded() {
    let items = [item(Some(1.0)), item(None)];
    let allow = |max_errors| Gates {
        max_errors: Some(max_errors),
        ..Gates::default()
    };
    for gates in [
        allow(1),
        Gates {
            min_pass_rate: Some(1.0),
            min_mean: Some(1.0),
            ..allow(1)
        },
    ] {
        assert_eq!(decision(&items, &gates).0, Verdict::Passed);
    }
    // Unreadable SQL counts as well, but has no class.
    let unread = Item {
        error: None,
        ..item(None)
    };
    let (incomplete, why) = decision(&[item(Some(1.0)), unread], &allow(0));
    assert_eq!(incomplete, Verdict::Incomplete);
    assert_eq!(why, "1 of 2 items has no score (1 incomplete)");
    let items = [item(Some(1.0)), item(None), item(None)];
    let (incomplete, why) = decision(&items, &allow(1));
    assert_eq!(incomplete, Verdict::Incomplete);
    assert!(why.contains("more than --max-errors 1"), "{why}");
}

#[test]
fn run_without_scores_passes_no_gate() {
    let failed = Item {
        outcome: Outcome::Failed,
        ..item(None)
    };
    let items = [failed.clone(), failed, item(None)];
    let allow = Gates {
        max_errors: Some(100),
        ..Gates::default()
    };
    for gates in [
        allow.clone(),
        Gates {
            min_mean: Some(0.0),
            ..allow.clone()
        },
        Gates {
            min_pass_rate: Some(0.0),
            ..allow
        },
    ] {
        let (decided, why) = decision(&items, &gates);
        assert_eq!(decided, Verdict::Incomplete, "{gates:?}");
        assert_eq!(why, "0 of 3 items have a score");
    }
}

#[test]
fn simulated_unjudged_or_unfinished_runs_do_not_pass() {
    let mut simulated = item(Some(1.0));
    simulated.simulated = true;
    let items = [simulated];
    assert_eq!(decision(&items, &Gates::default()).0, Verdict::Incomplete);
    let allowed = Gates {
        allow_simulated: true,
        ..Gates::default()
    };
    assert_eq!(decision(&items, &allowed).0, Verdict::Passed);
    let whole = figures(&[item(Some(1.0))], 0);
    let not_run = decide(&whole, &Gates::default(), Judging::NotRun, None);
    assert_eq!(not_run.decision, Verdict::Incomplete);
    let cut = decide(
        &figures(&[item(Some(1.0))], 2),
        &Gates::default(),
        Judging::Asked,
        None,
    );
    assert_eq!(cut.reasons, ["2 of 3 items are not run yet"]);
}

#[test]
fn allow_simulated_includes_all_scores() {
    // An item without a judge counts as real, even in a run with a simulated judge.
    let mut items = vec![item(Some(1.0))];
    items.extend((0..3).map(|_| Item {
        simulated: true,
        ..item(Some(0.2))
    }));
    let gates = Gates {
        min_pass_rate: Some(0.5),
        min_mean: Some(0.5),
        allow_simulated: true,
        ..Gates::default()
    };
    let (failed, why) = decision(&items, &gates);
    assert_eq!(failed, Verdict::Failed);
    assert_eq!(
        why,
        "the pass rate is 0.250, below --min-pass-rate 0.5; the mean is 0.400, below --min-mean 0.5"
    );
}

#[test]
fn regression_beyond_limit_fails() {
    let named = |total| {
        let mut item = item(Some(total));
        item.id = Some("a".to_owned());
        [item]
    };
    let against = RunComparison::between(named(0.95).as_slice(), named(0.92).as_slice()).unwrap();
    for (most, expected) in [(0.03, Verdict::Passed), (0.02, Verdict::Failed)] {
        let gates = Gates {
            max_regression: Some(most),
            ..Gates::default()
        };
        let gate_result = decide(
            &figures(&named(0.92), 0),
            &gates,
            Judging::Asked,
            Some(&against),
        );
        assert_eq!(gate_result.decision, expected, "{most}");
        assert_eq!(
            decide_comparison(&against, Some(most), 0).decision,
            expected,
            "{most}"
        );
    }
    assert_eq!(
        decide_comparison(&against, None, 0).decision,
        Verdict::Passed
    );
    let empty = RunComparison::between(named(0.9).as_slice(), [].as_slice()).unwrap();
    assert_eq!(
        decide_comparison(&empty, Some(0.1), 0).decision,
        Verdict::Incomplete
    );
}

#[test]
fn comparison_is_incomplete_if_scores_were_lost() {
    let run = |scored: usize| -> Vec<Item> {
        (0..10)
            .map(|n| Item {
                id: Some(format!("q{n}")),
                ..item((n < scored).then_some(1.0))
            })
            .collect()
    };
    let against = RunComparison::between(run(10).as_slice(), run(1).as_slice()).unwrap();
    let decided = decide_comparison(&against, Some(0.0), 0);
    assert_eq!(decided.decision, Verdict::Incomplete);
    assert_eq!(
        decided.reasons,
        ["9 of 10 common items have no score any more"]
    );
    let decided = decide_comparison(&against, Some(0.0), 8);
    assert_eq!(
        decided.reasons,
        ["9 of 10 common items have no score any more, more than --max-errors 8"]
    );
    for (most, errors) in [(Some(0.0), 9), (None, 0)] {
        let decided = decide_comparison(&against, most, errors);
        assert_eq!(decided.decision, Verdict::Passed, "{most:?}");
    }
}

#[test]
fn accepted_unsafe_sql_is_listed_up_to_twenty() {
    let through = |n: usize| Item {
        kind: Kind::SqlMetrics,
        id: Some(format!("case-{n}")),
        payload: json!({ "safety_valid": true, "should_pass": false }),
        ..item(Some(0.0))
    };
    for (n, end) in [(2, "case-0, case-1"), (23, "case-18, case-19 and 3 more")] {
        let items: Vec<Item> = (0..n).map(through).collect();
        let (decision, why) = decision(&items, &Gates::default());
        assert_eq!(decision, Verdict::Failed);
        assert!(
            why.contains("CRITICAL: unsafe SQL") && why.ends_with(end),
            "{why}"
        );
    }
}
