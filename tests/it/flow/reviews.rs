//! Reviews of a TARSy's sessions are stored as ratings, by imports and by fetches on demand.

use serde_json::{Value, json};
use uuid::Uuid;

use super::importing::{all_of, counts, imported, world};
use super::on_every_setup;
use crate::support::client::Api;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::tarsy::kept;
use crate::support::tarsy_go;
use crate::support::world::World;

on_every_setup!(
    import_stores_reviews_and_updates_of_unchanged_sessions,
    session_fetched_on_demand_has_its_review,
);

/// Rater and rating of each review of a session.
async fn ratings(api: &Api, id: Uuid) -> Vec<(String, String)> {
    let list = api.get(&format!("/api/v1/sessions/{id}/ratings")).await;
    let list = list.expect(200);
    let text = |rating: &Value, name: &str| rating[name].as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|rating| (text(rating, "by"), text(rating, "quality")))
        .collect()
}

fn by_tarsy(quality: &str) -> Vec<(String, String)> {
    vec![("tarsy".to_owned(), quality.to_owned())]
}

async fn import_stores_reviews_and_updates_of_unchanged_sessions(home: Home) {
    let world = world(home).await;
    let mut sessions = kept(3);
    sessions[0].quality = Some("accurate");
    sessions[1].quality = Some("a word of a later version");
    let server = tarsy_go::start(sessions).await;
    let ids = server.ids();
    imported(&world.api, all_of(&server)).await;
    assert_eq!(ratings(&world.api, ids[0]).await, by_tarsy("accurate"));
    assert!(ratings(&world.api, ids[1]).await.is_empty());
    assert!(ratings(&world.api, ids[2]).await.is_empty());
    {
        let mut sessions = server.archive.sessions.lock().unwrap();
        sessions[0].quality = Some("inaccurate");
        sessions[2].quality = Some("partially_accurate");
    }
    let fetched = server.asked("/timeline");
    let again = imported(&world.api, all_of(&server)).await;
    assert_eq!(again["counts"], counts(0, 0, 3, 0));
    assert_eq!(server.asked("/timeline"), fetched, "the list tells");
    assert_eq!(ratings(&world.api, ids[0]).await, by_tarsy("inaccurate"));
    assert_eq!(
        ratings(&world.api, ids[2]).await,
        by_tarsy("partially_accurate")
    );
    world.end().await;
}

async fn session_fetched_on_demand_has_its_review(mut home: Home) {
    let mut sessions = kept(1);
    sessions[0].quality = Some("partially_accurate");
    let server = tarsy_go::start(sessions).await;
    home.set("GAVEL_HISTORY_BASE_URL", server.url());
    home.set("GAVEL_HISTORY_REQUESTS_PER_SECOND", "0");
    let world = World::start(home, Reply::Score(70)).await;
    let id = server.ids()[0];
    world.api.ask(id).await;
    world.api.scored(id).await;
    assert_eq!(
        ratings(&world.api, id).await,
        by_tarsy("partially_accurate")
    );
    // It is compared with the new score: 70 is partially accurate as well.
    let found = world
        .api
        .get("/api/v1/analytics/agreement")
        .await
        .expect(200);
    let quality = &found["scales"][0];
    assert_eq!(
        (&quality["scale"], &quality["raw"]),
        (&json!("quality"), &json!(1.0))
    );
    world.end().await;
}
