//! Exports and costs after scoring, including the command line.

use serde_json::{Value, json};

use super::on_every_setup;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::process::run;
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(
    good_sessions_are_exported_to_a_file,
    bill_is_printed_with_the_costs,
);

async fn good_sessions_are_exported_to_a_file(home: Home) {
    let world = World::start(home, Reply::Score(90)).await;
    let (good, _) = world.api.enqueue(session()).await;
    world.api.scored(good).await;
    world.judge.says(Reply::Score(84));
    let (fair, _) = world.api.enqueue(session()).await;
    world.api.scored(fair).await;

    let file = world.home.dir().join("training.jsonl");
    let path = file.display().to_string();
    let base = world.api.base().to_owned();
    let export = ["export", "training", "--server", &base, "--output", &path];
    let (code, said) = run(&world.home, &export).await;
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!(lines[0]["session"]["session_id"], json!(good));
    assert_eq!(lines[0]["score"]["total_score"], 90);

    std::fs::remove_file(&file).unwrap();
    let none = [&export[..], &["--min-score", "91"]].concat();
    let (code, said) = run(&world.home, &none).await;
    assert_eq!(code, Some(4), "{said}");
    assert!(!file.exists(), "nothing is written where there is nothing");
    world.end().await;
}

async fn bill_is_printed_with_the_costs(home: Home) {
    let world = World::start(home, Reply::Score(90)).await;
    for _ in 0..2 {
        let (id, _) = world.api.enqueue(session()).await;
        world.api.scored(id).await;
    }
    let base = world.api.base().to_owned();
    let costs = ["costs", "--by", "judge", "--json", "--server", &base];
    let (code, said) = run(&world.home, &costs).await;
    assert_eq!(code, Some(0), "{said}");
    let bill: Value = said
        .lines()
        .find_map(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("{said}"));
    let line = &bill["items"][0];
    assert_eq!((&line["judge"], &line["calls"]), (&json!(JUDGE), &json!(2)));
    let cost = bill["total"]["cost_usd"].as_f64().unwrap();
    assert!((cost - 0.0028).abs() < 1e-9, "{bill:#}");
    world.end().await;
}
