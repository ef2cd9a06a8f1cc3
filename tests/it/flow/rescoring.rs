//! Second score of a session: by other criteria, by force, and on failure.

use serde_json::json;

use super::on_every_setup;
use crate::support::client::{id_of, score_path};
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(
    rescoring_under_other_criteria_leaves_both_scores_readable,
    force_rescore_calls_the_judge_and_replaces_the_score,
    failed_rescore_hides_no_good_score,
    invalid_criteria_file_at_reload_is_ignored,
);

async fn rescoring_under_other_criteria_leaves_both_scores_readable(home: Home) {
    let world = World::start(home, Reply::Score(80)).await;
    let (id, _) = world.api.enqueue(session()).await;
    let first = world.api.scored(id).await;
    assert_eq!(first["is_current_criteria"], true);

    world
        .home
        .replace_criteria("config/criteria/session_outcome_first.yaml");
    world.app().reload_criteria().unwrap();
    let stale = world.api.score(id).await.expect(200);
    assert_eq!(stale["is_current_criteria"], false);
    assert_eq!(
        world.api.ask(id).await.expect(200)["score_id"],
        first["score_id"]
    );

    world.judge.says(Reply::Score(35));
    let job = id_of(&world.api.force(id).await.expect(202)["job_id"]);
    assert_eq!(world.api.ended(job).await["state"], "succeeded");
    let second = world.api.score(id).await.expect(200);
    assert_eq!(second["total_score"], 35);
    assert_ne!(second["criteria_hash"], first["criteria_hash"]);
    let dimensions = second["score_breakdown"].as_object().unwrap();
    assert!(
        dimensions.len() == 5 && dimensions.contains_key("outcome"),
        "{second:#}"
    );

    let history = world.api.history(id).await;
    let shown: Vec<_> = history
        .iter()
        .map(|score| (&score["total_score"], &score["is_current_criteria"]))
        .collect();
    assert_eq!(
        shown,
        [(&json!(35), &json!(true)), (&json!(80), &json!(false))]
    );

    // The first version is stored, so it can still be requested.
    world.judge.says(Reply::Score(79));
    let body = json!({ "criteria_hash": first["criteria_hash"] });
    let accepted = world.api.post_json(&score_path(id), body).await.expect(202);
    world.api.ended(id_of(&accepted["job_id"])).await;
    let third = world.api.score(id).await.expect(200);
    assert_eq!(third["criteria_hash"], first["criteria_hash"]);
    assert_eq!(third["is_current_criteria"], false);
    world.end().await;
}

async fn force_rescore_calls_the_judge_and_replaces_the_score(home: Home) {
    let world = World::start(home, Reply::Score(80)).await;
    let (id, _) = world.api.enqueue(session()).await;
    let first = world.api.scored(id).await;

    world.judge.says(Reply::held(55));
    let job = id_of(&world.api.force(id).await.expect(202)["job_id"]);
    world
        .api
        .job_until(job, "the job runs", |job| job["state"] == "running")
        .await;
    let meanwhile = world.api.score(id).await.expect(200);
    assert_eq!(
        meanwhile["score_id"], first["score_id"],
        "the older score stays readable"
    );
    world.judge.release();
    world.api.ended(job).await;
    assert_eq!(world.judge.count(), 2, "the cache is skipped");
    let second = world.api.score(id).await.expect(200);
    assert_eq!(second["total_score"], 55);
    assert_eq!(world.api.history(id).await.len(), 2);
    world.end().await;
}

async fn failed_rescore_hides_no_good_score(home: Home) {
    let world = World::start(home, Reply::Score(80)).await;
    let (id, _) = world.api.enqueue(session()).await;
    let first = world.api.scored(id).await;
    world.judge.says(Reply::Refusal);
    let job = id_of(&world.api.force(id).await.expect(202)["job_id"]);
    assert_eq!(world.api.ended(job).await["state"], "failed");
    assert_eq!(world.api.score(id).await.expect(200), first);
    assert_eq!(world.api.history(id).await.len(), 1);
    world.end().await;
}

async fn invalid_criteria_file_at_reload_is_ignored(home: Home) {
    let world = World::start(home, Reply::Score(80)).await;
    let path = world.home.get("GAVEL_SCORING_CONFIG").to_owned();
    std::fs::write(&path, "scoring:\n  enabled: [\n").unwrap();
    let error = world.app().reload_criteria().unwrap_err().to_string();
    assert!(error.contains("scoring_config.yaml"), "{error}");
    let ready = world.api.get("/readyz?verbose").await;
    assert_eq!(ready.body["status"], "degraded", "{:#}", ready.body);
    ready.expect(200);
    let (id, _) = world.api.enqueue(session()).await;
    assert_eq!(world.api.scored(id).await["is_current_criteria"], true);
    world.end().await;
}
