//! Tests of summaries.

use super::*;
use crate::job::Usage;
use crate::report::{ItemError, Outcome};
use serde_json::{Value, json};

/// Returns an item of a kind with a payload and a body. It is scored if its body has a total.
fn item(kind: Kind, payload: Value, total: Option<f64>) -> Item {
    Item {
        item_no: 0,
        kind,
        id: Some("a".to_owned()),
        payload,
        outcome: match total {
            Some(_) => Outcome::Scored,
            None => Outcome::Incomplete,
        },
        total,
        passed: total.map(|total| total >= 0.7),
        result: None,
        error: None,
        simulated: false,
        usage: Usage::default(),
        job_id: None,
    }
}

fn qas(agent: &str, difficulty: &str, total: Option<f64>) -> Item {
    let payload = json!({ "agent_used": agent, "difficulty": difficulty });
    item(Kind::Qas, payload, total)
}

fn simulated(item: Item) -> Item {
    Item {
        simulated: true,
        ..item
    }
}

fn judged(item: Item) -> Item {
    let judge = json!({ "provider": "openai-default", "model": "judge-1", "simulated": false });
    let result = match item.kind == Kind::SqlMetrics {
        true => {
            json!({ "metrics": { "query_correctness": { "score": 1.0, "details": { "judge": judge } } } })
        }
        false => json!({ "judge": judge }),
    };
    Item {
        result: Some(result),
        ..item
    }
}

fn failed(class: &str, outcome: Outcome) -> Item {
    Item {
        outcome,
        error: Some(ItemError {
            class: class.to_owned(),
            message: "why".to_owned(),
        }),
        ..qas("sql", "easy", None)
    }
}

fn meta() -> Meta {
    Meta {
        name: "suite".to_owned(),
        run: None,
        made_at: chrono::DateTime::UNIX_EPOCH,
        unfinished: 0,
        simulated: Simulated::Refused,
        judging: Judging::Asked,
        criteria_hash: None,
    }
}

fn figures(items: &[Item]) -> Figures {
    let mut summary = Summary::default();
    for item in items {
        summary.add(item);
    }
    summary.figures(&meta())
}

#[test]
fn unscored_items_lower_coverage_but_not_means() {
    let figures = figures(&[
        qas("sql", "easy", Some(1.0)),
        qas("sql", "hard", Some(0.5)),
        failed("transient", Outcome::Incomplete),
        failed("agent", Outcome::Failed),
    ]);
    assert_eq!((figures.all.n, figures.all.scored), (4, 2));
    assert_eq!((figures.all.incomplete, figures.all.failed), (1, 1));
    assert_eq!(figures.all.coverage, Some(0.5));
    assert_eq!(figures.all.mean, Some(0.75));
    assert_eq!(figures.all.pass_rate, Some(0.5));
    assert_eq!(figures.judge_errors, 1, "an agent's error is no judge's");
    assert_eq!(figures.errors["transient"], 1);
    assert_eq!(figures.errors["agent"], 1);
}

#[test]
fn mean_uses_real_scores_if_there_are_any() {
    let mixed = figures(&[
        judged(qas("sql", "easy", Some(0.5))),
        simulated(qas("sql", "easy", Some(1.0))),
        simulated(qas("docking", "easy", Some(0.8))),
    ]);
    assert_eq!(mixed.basis, Basis::Real);
    assert_eq!((mixed.all.mean, mixed.all.measured), (Some(0.5), 1));
    assert_eq!((mixed.all.scored, mixed.all.simulated), (3, 2));
    let apart = mixed.simulated_apart.unwrap();
    assert_eq!((apart.mean, apart.measured), (Some(0.9), 2));
    let docking = &mixed.by_agent[0];
    assert_eq!(
        (docking.name.as_str(), docking.share.mean),
        ("docking", None)
    );

    let only = figures(&[simulated(qas("sql", "easy", Some(0.8)))]);
    assert_eq!((only.basis, only.all.mean), (Basis::Simulated, Some(0.8)));
    assert_eq!(only.simulated_apart, None);
}

#[test]
fn items_without_judge_count_with_either_basis() {
    for kind in [Kind::Query, Kind::Qas, Kind::SqlMetrics] {
        let computed = || Item {
            result: Some(json!({ "judge": null, "metrics": {
                "query_correctness": { "score": 1.0, "details": { "judge": null } },
            }})),
            ..item(kind, json!({ "confidence": "high" }), Some(1.0))
        };
        let made_up = || simulated(item(kind, json!({}), Some(0.5)));
        let alone = figures(&[computed()]);
        assert_eq!((alone.basis, alone.all.mean), (Basis::Real, Some(1.0)));

        let only = figures(&[computed(), made_up()]);
        assert_eq!(only.basis, Basis::Simulated, "{kind}");
        assert_eq!((only.all.mean, only.all.measured), (Some(0.75), 2));
        assert_eq!((only.all.passed, only.all.missed), (1, 1));
        assert_eq!((only.all.simulated, only.simulated_apart), (1, None));

        let real = || judged(item(kind, json!({}), Some(0.0)));
        let mixed = figures(&[computed(), made_up(), real()]);
        assert_eq!(mixed.basis, Basis::Real, "{kind}");
        assert_eq!((mixed.all.mean, mixed.all.measured), (Some(0.5), 2));
        let apart = mixed.simulated_apart.unwrap();
        assert_eq!((apart.mean, apart.measured), (Some(0.5), 1), "{kind}");
    }
}

#[test]
fn components_without_judge_count_with_simulated_ones() {
    let case = |score: f64| Item {
        result: Some(json!({ "metrics": { "query_correctness": { "score": score } } })),
        ..item(
            Kind::SqlMetrics,
            json!({ "confidence": "high" }),
            Some(score),
        )
    };
    let figures = figures(&[case(1.0), simulated(case(0.0))]);
    let correctness = &figures.components[0];
    assert_eq!((correctness.n, correctness.mean), (2, Some(0.5)));
    assert_eq!(figures.calibration.unwrap().n, 2);
}

#[test]
fn groups_by_difficulty_and_agent_up_to_limit() {
    let mut items = vec![
        qas("sql", "hard", Some(1.0)),
        qas("docking", "easy", Some(0.0)),
        qas("sql", "medium", Some(0.5)),
        qas("", "odd", None),
    ];
    let names = |groups: &[NamedShare]| -> Vec<String> {
        groups.iter().map(|group| group.name.clone()).collect()
    };
    let few = figures(&items);
    assert_eq!(names(&few.by_difficulty), ["easy", "medium", "hard", "odd"]);
    assert_eq!(names(&few.by_agent), ["(none)", "docking", "sql"]);
    assert_eq!(few.by_agent[2].share.mean, Some(0.75));
    items.extend((0..200).map(|n| qas(&format!("agent {n}"), "easy", Some(1.0))));
    let many = figures(&items);
    assert_eq!(many.by_agent.len(), GROUPS + 1);
    let all: u64 = many.by_agent.iter().map(|group| group.share.n).sum();
    assert_eq!(all, 204, "nothing is lost");
}

#[test]
fn verdict_is_that_of_default_gate() {
    let pass = qas("sql", "easy", Some(1.0));
    let miss = qas("sql", "easy", Some(0.1));
    let open = failed("transient", Outcome::Incomplete);
    let unsure = Item {
        passed: None,
        ..pass.clone()
    };
    let session = Item {
        outcome: Outcome::Scored,
        ..item(Kind::Session, json!({}), None)
    };
    let cases: [(&[&Item], Verdict); 9] = [
        (&[], Verdict::Nothing),
        (&[&pass], Verdict::Passed),
        (&[&pass, &miss], Verdict::Failed),
        (&[&miss, &open], Verdict::Incomplete),
        (&[&failed("agent", Outcome::Failed)], Verdict::Incomplete),
        (&[&simulated(pass.clone())], Verdict::Incomplete),
        (&[&simulated(miss.clone())], Verdict::Incomplete),
        (&[&unsure], Verdict::Incomplete),
        (&[&session], Verdict::Passed),
    ];
    for (items, verdict) in cases {
        let mut summary = Summary::default();
        items.iter().for_each(|item| summary.add(item));
        assert_eq!(summary.verdict(0, Simulated::Refused), verdict, "{items:?}");
        assert_eq!(summary.verdict(1, Simulated::Refused), Verdict::Incomplete);
    }
    let mut summary = Summary::default();
    summary.add(&simulated(pass.clone()));
    assert_eq!(summary.verdict(0, Simulated::Allowed), Verdict::Passed);
    summary.add(&miss);
    assert_eq!(summary.verdict(0, Simulated::Allowed), Verdict::Failed);
}

#[test]
fn errors_with_value_0_are_excluded_from_means() {
    let body = |score: Value, error: Value| {
        json!({ "metrics": {
            "query_correctness": { "score": score, "error": error },
            "table_accuracy": { "score": 0.5, "error": null },
        }})
    };
    let case = |score: Value, error: Value| Item {
        result: Some(body(score, error)),
        ..item(Kind::SqlMetrics, json!({}), Some(0.5))
    };
    let figures = figures(&[
        case(json!(1.0), Value::Null),
        case(json!(0.0), json!({ "message": "it doesn't parse" })),
        case(Value::Null, Value::Null),
    ]);
    let [correctness, tables, ..] = &figures.components[..] else {
        panic!("{:?}", figures.components);
    };
    assert_eq!((correctness.n, correctness.mean), (1, Some(1.0)));
    assert_eq!((tables.n, tables.mean), (3, Some(0.5)));
}

#[test]
fn metrics_suite_has_safety_and_calibration() {
    let case = |id: &str, flags: Value| Item {
        id: Some(id.to_owned()),
        result: Some(json!({ "metrics": { "query_correctness": { "score": 1.0 } } })),
        ..item(Kind::SqlMetrics, flags, Some(1.0))
    };
    let mut items = vec![
        case(
            "stopped",
            json!({ "safety_valid": false, "should_pass": false }),
        ),
        case(
            "through",
            json!({ "safetyValid": true, "shouldPass": false }),
        ),
        case(
            "blocked",
            json!({ "safety_valid": false, "should_pass": true }),
        ),
        case("half", json!({ "safety_valid": false })),
    ];
    let few = figures(&items);
    let safety = few.safety.unwrap();
    assert_eq!(safety.recall, Some(0.5));
    assert_eq!(safety.false_negatives, ["through"]);
    assert_eq!(safety.false_positives, ["blocked"]);
    assert!(!safety.gate_passed);
    assert_eq!(few.calibration, None, "nobody said how sure it was");
    items.extend((0..20).map(|_| case("c", json!({ "confidence": "High" }))));
    let calibration = figures(&items).calibration.unwrap();
    assert_eq!(calibration.n, 20);
    assert!((calibration.score.unwrap() - 0.85).abs() < 1e-9);
}

#[test]
fn unpriced_calls_are_not_free() {
    let used = |tokens_in: i64, cost_usd: Option<f64>| Item {
        usage: Usage {
            tokens_in,
            tokens_out: 0,
            cost_usd,
        },
        ..qas("sql", "easy", Some(1.0))
    };
    let usage = figures(&[used(10, Some(0.5)), used(5, None), used(0, None)]).usage;
    assert_eq!(
        (usage.tokens_in, usage.cost_usd, usage.unpriced),
        (15, Some(0.5), 1)
    );
    let unknown = figures(&[used(5, None), used(0, Some(0.0))]).usage;
    assert_eq!((unknown.cost_usd, unknown.unpriced), (None, 1));
    let nobody = figures(&[used(0, None)]).usage;
    assert_eq!((nobody.cost_usd, nobody.unpriced), (Some(0.0), 0));
}
