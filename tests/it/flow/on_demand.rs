//! Fetching of unknown sessions when their score is requested.

use serde_json::json;
use uuid::Uuid;

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::tarsy::{FakeError, TarsyServer, kept};
use crate::support::world::World;
use crate::support::{tarsy_go, tarsy_python};

on_every_setup!(
    unknown_session_is_fetched_once_and_scored,
    session_that_had_not_ended_is_fetched_again,
    session_unknown_to_the_source_is_not_found,
    unavailable_source_differs_from_an_unknown_session,
    session_stored_by_put_is_not_replaced,
);

async fn world(mut home: Home, server: &TarsyServer) -> World {
    home.set("GAVEL_HISTORY_BASE_URL", server.url());
    home.set("GAVEL_HISTORY_TOKEN", "secret-4711");
    home.set("GAVEL_HISTORY_REQUESTS_PER_SECOND", "0");
    home.set("GAVEL_HISTORY_TIMEOUT_S", "0.5");
    World::start(home, Reply::Score(70)).await
}

async fn unknown_session_is_fetched_once_and_scored(home: Home) {
    let server = tarsy_go::start(kept(2)).await;
    server.rule(|_, asked| {
        (asked.before == 0 && asked.path.contains("/timeline")).then_some(FakeError::Status(500))
    });
    let world = world(home, &server).await;
    let id = server.ids()[0];
    // Reads don't fetch.
    world
        .api
        .get(&format!("/api/v1/sessions/{id}"))
        .await
        .expect(404);
    world.api.score(id).await.expect(404);
    assert_eq!(server.asked(""), 0);
    let many = (0..6).map(|_| world.api.ask(id));
    for answer in futures::future::join_all(many).await {
        assert!(matches!(answer.status, 200 | 202), "{:#}", answer.body);
    }
    let score = world.api.scored(id).await;
    assert_eq!(score["total_score"], 70);
    // One fetch for all requests, including its second attempt.
    assert_eq!(server.asked(&format!("{id}/timeline")), 2);
    assert!(world.judge.calls()[0].prompt().contains("session number 0"));
    let sent = server.authorizations();
    assert!(
        sent.iter()
            .all(|header| header.as_deref() == Some("Bearer secret-4711")),
        "{sent:?}"
    );
    // An ended session isn't fetched again.
    let before = server.asked("");
    world.api.ask(id).await.expect(200);
    assert_eq!(server.asked(""), before);
    world.end().await;
}

async fn session_that_had_not_ended_is_fetched_again(home: Home) {
    let mut sessions = kept(1);
    (sessions[0].status, sessions[0].completed_us) = ("in_progress", None);
    let server = tarsy_python::start(sessions).await;
    let world = world(home, &server).await;
    let id = server.ids()[0];
    let refused = world.api.ask(id).await.expect(400);
    assert_eq!(refused["type"], "urn:gavel:problem:session-not-completed");
    {
        let mut sessions = server.archive.sessions.lock().unwrap();
        sessions[0].status = "completed";
        sessions[0].completed_us = Some(sessions[0].began_us + 1);
    }
    world.api.ask(id).await.expect(202);
    world.api.scored(id).await;
    world.end().await;
}

async fn session_unknown_to_the_source_is_not_found(home: Home) {
    let server = tarsy_go::start(kept(1)).await;
    let world = world(home, &server).await;
    let id = Uuid::now_v7();
    let refused = world.api.ask(id).await.expect(404);
    assert_eq!(refused["type"], "urn:gavel:problem:session-not-found");
    assert_eq!(server.asked(&id.to_string()), 1, "404 isn't tried again");
    world.end().await;
}

async fn unavailable_source_differs_from_an_unknown_session(home: Home) {
    let server = tarsy_python::start(kept(3)).await;
    let world = world(home, &server).await;
    let ids = server.ids();
    for (fault, retry_after) in [
        (FakeError::Status(500), "10"),
        (FakeError::RetryAfter(503, 90), "90"),
        (FakeError::Held, "10"),
        (FakeError::Status(401), "10"),
    ] {
        server.rule(move |_, _| Some(fault.clone()));
        let answer = world.api.ask(ids[0]).await;
        assert_eq!(answer.header("retry-after"), Some(retry_after));
        let body = answer.expect(503);
        assert_eq!(body["type"], "urn:gavel:problem:history-unavailable");
        assert!(!body.to_string().contains("secret-4711"), "{body}");
    }
    server.rule(|_, asked| {
        asked
            .path
            .contains("final-analysis")
            .then_some(FakeError::BrokenJson)
    });
    let body = world.api.ask(ids[1]).await.expect(502);
    assert_eq!(body["type"], "urn:gavel:problem:history-unusable");
    // Once the source is back, the session is found.
    server.rule(|_, _| None);
    world.api.ask(ids[0]).await.expect(202);
    world.api.scored(ids[0]).await;
    world.end().await;
}

async fn session_stored_by_put_is_not_replaced(home: Home) {
    let server = tarsy_go::start(kept(1)).await;
    let world = world(home, &server).await;
    let id = server.ids()[0];
    let mut body = session();
    body["status"] = json!("in_progress");
    let path = format!("/api/v1/sessions/{id}");
    world
        .api
        .send("PUT", &path, Some(body), &[])
        .await
        .expect(201);
    world.api.ask(id).await.expect(400);
    let stored = world.api.get(&path).await.expect(200);
    assert_eq!(
        (&stored["source"], &stored["status"]),
        (&json!("api"), &json!("in_progress"))
    );
    assert_eq!(server.asked(""), 0);
    world.end().await;
}
