//! Costs, analytics and exports from the command line, over the data of the demo.

use serde_json::{Value, json};

use super::Sandbox;

fn demonstrated() -> Sandbox {
    let place = Sandbox::new();
    drop(
        place
            .run(&["demo", "--exit", "--bind", "127.0.0.1:0"])
            .ends(0),
    );
    place.with("GAVEL_DATA_DIR", "gavel-demo")
}

#[test]
fn demo_cost_is_unknown_and_its_scores_are_marked() {
    let place = demonstrated();
    let costs = place.run(&["costs", "--by", "model"]).ends(0);
    drop(
        costs
            .prints("simulated-judge-v1")
            .prints("unknown")
            .prints("unpriced calls"),
    );
    let costs = place.run(&["costs", "--json"]).ends(0).json();
    assert_eq!(costs["total"]["cost_usd"], Value::Null);

    let tools = place.run(&["analytics", "missing-tools"]).ends(0);
    drop(tools.prints("also spelled").says("simulated judge"));
    let approaches = place.run(&["analytics", "approaches", "--json"]).ends(0);
    assert_eq!(approaches.json()["simulated"], json!(true));
    let spread = place
        .run(&["analytics", "distribution", "--points", "5"])
        .ends(0);
    drop(
        spread
            .prints("95-100")
            .prints("median")
            .prints("sessions ("),
    );
    let trend = place
        .run(&["analytics", "trend", "--every", "month", "--days", "3660"])
        .ends(0);
    drop(trend.prints("criteria").says("simulated judge"));
    drop(
        place
            .run(&["analytics", "trend", "--every", "hour"])
            .ends(2)
            .says("day, week, month"),
    );

    let export = [
        "export",
        "training",
        "--min-score",
        "0",
        "--output",
        "t.jsonl",
    ];
    drop(place.run(&export).ends(4).says("no scores to export"));
    assert!(!place.path().join("t.jsonl").exists());
    for name in ["s.csv", "s.parquet"] {
        let table = place.run(&["export", "scores", "--output", name]).ends(0);
        drop(table.says(&format!("wrote {name} without a row")));
    }
}
