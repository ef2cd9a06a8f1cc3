//! `gavel evaluate` against a service over HTTP, on either set-up: a judge that fails halfway, and cached replies.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::process;
use crate::support::world::World;

on_every_setup!(
    judge_failure_preserves_computed_parts_and_retry_finishes,
    second_run_calls_no_judge,
    wait_for_an_uncallable_judge_times_out,
);

const ROWS: usize = 12;

fn good() -> Reply {
    Reply::Content(json!({"reasoning": "The same rows.", "score": 1.0}).to_string())
}

/// Cases with equivalent, differently written queries: only the judge can decide.
fn write_suite(home: &Home) {
    let case = |i: usize| {
        json!({
            "id": format!("q{i}"), "generated_kql": format!("T{i} | where a == {i} | count"),
            "expected_kql": format!("T{i} | where a == {i} | summarize count()"), "prompt": format!("case {i}"),
        })
        .to_string()
    };
    let lines: Vec<String> = (0..ROWS).map(case).collect();
    std::fs::write(home.dir().join("suite.jsonl"), lines.join("\n")).unwrap();
}

/// Runs `gavel evaluate` against the service, without the service's settings.
async fn evaluate(world: &World, args: &[&str]) -> (Option<i32>, String) {
    let address = world.api.base().to_owned();
    let args = [&["evaluate"], args, &["--server", &address]].concat();
    let mut command = process::gavel(&BTreeMap::new(), &args);
    let output = command
        .current_dir(world.home.dir())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn results(home: &Home, run: &str) -> Vec<Value> {
    let path: &Path = &home.dir().join(run).join("evaluation-results.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn judge_failure_preserves_computed_parts_and_retry_finishes(home: Home) {
    let mut home = home;
    home.set("GAVEL_JUDGE_BREAKER_FAILURES", "1000");
    let world = World::start(home, good()).await;
    write_suite(&world.home);
    world
        .judge
        .rule(|call| match call.prompt().contains("case 7") {
            true => Reply::Status(500),
            false => good(),
        });
    let (code, text) = evaluate(&world, &["suite.jsonl", "--output", "run"]).await;
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains("1 of 12 items has no score (1 transient)"),
        "{text}"
    );
    let first = results(&world.home, "run");
    let open = first.iter().find(|line| line["id"] == "q7").unwrap();
    assert_eq!(open["gavel"]["outcome"], "incomplete", "{open}");
    assert_eq!(open["gavel"]["total"], Value::Null);
    assert_eq!(
        open["result"]["components"]["schema_match"]["score"], 1.0,
        "{open}"
    );
    world.judge.says(good());
    let asked = world.judge.count();
    let (code, text) = evaluate(&world, &["--resume", "run", "--retry-errors"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        world.judge.count(),
        asked + 1,
        "only what failed is asked again"
    );
    assert_eq!(results(&world.home, "run").len(), ROWS + 1);
    world.end().await;
}

async fn second_run_calls_no_judge(home: Home) {
    let world = World::start(home, good()).await;
    write_suite(&world.home);
    let (code, text) = evaluate(&world, &["suite.jsonl", "--output", "first"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(world.judge.count(), ROWS);
    let (code, text) = evaluate(&world, &["suite.jsonl", "--output", "second"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(world.judge.count(), ROWS, "every reply was cached");
    let (code, text) = evaluate(&world, &["suite.jsonl", "--output", "third", "--force"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(world.judge.count(), 2 * ROWS);
    world.end().await;
}

async fn wait_for_an_uncallable_judge_times_out(home: Home) {
    let mut home = home;
    home.set("GAVEL_JUDGE_BREAKER_FAILURES", "1");
    let world = World::start(home, Reply::Status(500)).await;
    write_suite(&world.home);
    let args = ["suite.jsonl", "--output", "run", "--max-wait", "1"];
    let (code, text) = evaluate(&world, &args).await;
    assert_eq!(code, Some(3), "{text}");
    let lines = results(&world.home, "run");
    assert_eq!(lines.len(), ROWS, "every item has what can be computed");
    for line in &lines {
        assert_eq!(line["gavel"]["outcome"], "incomplete", "{line}");
        let part = &line["result"]["components"]["llm_grading"]["error"];
        assert_eq!(part["class"], line["gavel"]["error"]["class"], "{line}");
        assert_eq!(
            line["result"]["components"]["schema_match"]["score"], 1.0,
            "{line}"
        );
    }
    assert!(text.contains("no judge was available"), "{text}");
    world.end().await;
}
