//! `gavel rescore` and `gavel batches` against a running service: plan, watch and actions of a batch.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use serde_json::Value;
use uuid::Uuid;

use super::{Run, Sandbox, embedded};
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::world::World;

async fn run(world: &World, args: &[&str]) -> Run {
    run_in(place(world), args).await
}

async fn run_in(place: Sandbox, args: &[&str]) -> Run {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let running = tokio::task::spawn_blocking(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        place.run(&args)
    });
    running.await.unwrap()
}

fn place(world: &World) -> Sandbox {
    Sandbox::new().with("GAVEL_SERVER", world.api.base())
}

async fn sessions(world: &World, n: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(world.api.put(session()).await);
    }
    ids
}

async fn batches(world: &World) -> Vec<Value> {
    let listed = world.api.get("/api/v1/batches").await.expect(200);
    listed["items"].as_array().unwrap().clone()
}

fn id(batch: &Value) -> String {
    batch["batch_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rescore_is_planned_started_and_watched_to_its_end() {
    let world = World::start(Home::embedded(), Reply::Score(70)).await;
    sessions(&world, 3).await;
    let plan = run(&world, &["rescore", "--dry-run"]).await.ends(0);
    let plan = plan.prints("3 sessions match, 3 to score");
    drop(plan.prints("cost      about 0.0"));
    assert_eq!(batches(&world).await.len(), 0, "a plan starts nothing");

    let args = ["rescore", "--watch", "--json", "--name", "spring"];
    let done = run(&world, &args).await.ends(0);
    let batch = done.json();
    assert_eq!(batch["counts"]["succeeded"], 3, "{batch:#}");
    assert_eq!(batch["name"], "spring");
    drop(done.says("3 to score").says("is started"));

    let again = run(&world, &["rescore"]).await.ends(4);
    drop(
        again
            .says("3 scored by these criteria already")
            .says("no sessions to score"),
    );
    let shown = run(&world, &["batches", "show", &id(&batch)]).await.ends(0);
    drop(shown.prints("completed").prints("3 of 3 done: 3 scored"));
    let listed = run(&world, &["batches", "list", "--json"]).await.ends(0);
    assert_eq!(listed.json()["items"][0]["batch_id"], batch["batch_id"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_items_end_a_watch_with_3_and_are_retried() {
    let world = World::start(Home::embedded(), Reply::Status(400)).await;
    let ids = sessions(&world, 2).await;
    let place = place(&world);
    place.write("ids.txt", &format!("# one of two\n{}\n", ids[0]));
    let args = ["rescore", "--ids-file", "ids.txt", "--yes", "--watch"];
    let failed = run_in(place, &args).await.ends(3);
    drop(failed.prints("1 of 1 done: 1 failed"));
    let batch = id(&batches(&world).await[0]);

    world.judge.says(Reply::Score(80));
    let retried = run(&world, &["batches", "retry-errors", &batch])
        .await
        .ends(0);
    drop(retried.prints("1 item queued again"));
    let watched = run(&world, &["batches", "watch", &batch]).await.ends(0);
    drop(watched.prints("1 of 1 done: 1 scored"));
    let nothing = ["batches", "retry-errors", &batch];
    drop(run(&world, &nothing).await.ends(4).prints("0 items"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_watch_keeps_the_batch_and_prints_the_command() {
    let world = World::idle(Home::embedded(), Reply::Score(70)).await;
    sessions(&world, 1).await;
    let place = place(&world);
    let watching = tokio::task::spawn_blocking(move || {
        let mut child = place.command(&["rescore", "--watch"]).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        let started = lines.find(|line| line.contains("is started"));
        assert!(started.is_some(), "it says that the batch is started");
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        assert!(sent.unwrap().success());
        let rest: Vec<String> = lines.collect();
        (child.wait().unwrap().code(), rest.join("\n"))
    });
    let (code, said) = watching.await.unwrap();
    assert_eq!(code, Some(130), "{said}");
    let again = format!("gavel batches watch {}", id(&batches(&world).await[0]));
    assert!(said.contains(&again), "{said}");
    assert_eq!(batches(&world).await[0]["state"], "running");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidate_is_tried_on_a_sample_and_replaces_no_score() {
    let world = World::start(Home::embedded(), Reply::Score(70)).await;
    let ids = sessions(&world, 3).await;
    let mut before = Vec::new();
    for id in &ids {
        world.api.ask(*id).await;
        before.push(world.api.scored(*id).await["score_id"].clone());
    }
    let stored = async || {
        let listed = world.api.get("/api/v1/scoring/criteria").await.expect(200);
        listed["items"].as_array().unwrap().len()
    };
    let before_all = stored().await;
    let criteria = crate::support::home::built_in("config/scoring_config.yaml");
    let text = std::fs::read_to_string(criteria).unwrap();
    let text = text.replace("judge_prompt: |", "judge_prompt: |\n  Be strict.");
    let lenient = text.replace("${DEFAULT_LLM_PROVIDER}", "${DEFAULT_LLM_PROVIDER:-}");
    assert_ne!(lenient, text);
    let with = |default: Option<&str>| {
        let place = place(&world);
        let place = match default {
            Some(judge) => place.with("DEFAULT_LLM_PROVIDER", judge),
            None => place,
        };
        place.write("candidate.yaml", &text);
        place.write("lenient.yaml", &lenient);
        place
    };
    // The client reads the file, with a default judge that differs from the service's.
    for args in [
        vec!["rescore", "--preview", "candidate.yaml", "--dry-run"],
        vec!["criteria", "add", "candidate.yaml"],
        vec!["criteria", "add", "lenient.yaml"],
    ] {
        let refused = run_in(with(None), &args).await.ends(2);
        drop(
            refused
                .says(".yaml:")
                .says("DEFAULT_LLM_PROVIDER is not set here"),
        );
    }
    let args = ["rescore", "--preview", "candidate.yaml", "--yes"];
    let refused = run_in(with(Some("openai-default")), &args).await.ends(2);
    drop(
        refused
            .says("the service has no judge \"openai-default\"")
            .says(JUDGE),
    );
    assert_eq!(
        stored().await,
        before_all,
        "what can't be asked isn't stored"
    );
    let place = with(Some(JUDGE));
    let args = [
        "rescore",
        "--preview",
        "candidate.yaml",
        "--sample",
        "2",
        "--watch",
    ];
    let previewed = run_in(place, &args).await.ends(0);
    let previewed = previewed
        .prints("2 of 2 done: 2 scored")
        .says("gavel criteria compare ")
        .says("set GAVEL_SCORING_CONFIG of the API to candidate.yaml");
    assert!(previewed.out.contains("preview"), "{}", previewed.out);
    for (id, before) in ids.into_iter().zip(before) {
        let current = world.api.score(id).await.expect(200);
        assert_eq!(current["score_id"], before);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeats_end_with_the_spread_of_their_scores() {
    let world = World::start(Home::embedded(), Reply::Score(70)).await;
    sessions(&world, 2).await;
    let base = world.api.base().to_owned();
    let args = ["rescore", "--repeat", "3", "--watch", "--server", &base];
    let done = run_in(Sandbox::new(), &args).await.ends(0);
    let done = done.prints("6 scores of 2 sessions, 2 of them complete");
    let batch = id(&batches(&world).await[0]);
    let spread = format!("gavel batches spread {batch}");
    drop(done.says(&spread));
    let shown = run(&world, &["batches", "spread", &batch]).await.ends(0);
    drop(
        shown
            .prints("70 70 70")
            .prints("standard deviation 0.0 points"),
    );
    let links = &batches(&world).await[0]["links"];
    assert_eq!(links["spread"], format!("/api/v1/batches/{batch}/spread"));

    let args = ["rescore", "--watch", "--server", &base];
    drop(run_in(Sandbox::new(), &args).await.ends(0));
    let plain = id(&batches(&world).await[0]);
    assert_eq!(batches(&world).await[0]["links"].get("spread"), None);
    let nothing = run(&world, &["batches", "spread", &plain]).await.ends(4);
    drop(nothing.says("the batch isn't a batch of repeats"));
    let unknown = ["rescore", "--judge", "nobody", "--judge", JUDGE];
    let unknown = run(&world, &unknown).await.ends(2);
    let unknown = unknown.says("judge \"nobody\": unknown judge; known: ");
    assert!(
        !unknown.err.contains("DEFAULT_LLM_PROVIDER"),
        "{}",
        unknown.err
    );
    let hash = ["rescore", "--criteria", "0123456789", "--dry-run"];
    drop(
        run(&world, &hash)
            .await
            .ends(2)
            .says("not the prefix of a stored criteria hash"),
    );
    world.end().await;
}

#[test]
fn batch_over_a_data_folder_runs_while_the_command_watches() {
    let (place, _simulator) = embedded::place_with_judge();
    let session = embedded::session(Uuid::now_v7(), "completed");
    place.write("session.json", &session);
    let import = ["sessions", "import", "session.json"];
    drop(place.run(&import).ends(0));
    let started = place.run(&["rescore"]).ends(0);
    drop(started.says("`gavel up`").says("gavel batches watch"));
    let listed = place.run(&["batches", "list", "--json"]).ends(0).json();
    let batch = id(&listed["items"][0]);
    let watched = place.run(&["batches", "watch", &batch]).ends(0);
    drop(watched.prints("1 of 1 done: 1 scored"));
    let again = place.run(&["rescore", "--force", "--watch"]).ends(0);
    drop(again.prints("1 of 1 done: 1 scored"));
}
