//! Imports from either generation of TARSy: each session once, despite concurrent changes of the list.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use uuid::Uuid;

use super::on_every_setup;
use crate::support::client::{Api, PATIENCE, id_of};
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::tarsy::{FakeError, FakeSession, TarsyServer, kept};
use crate::support::wait::eventually;
use crate::support::world::World;
use crate::support::{tarsy_go, tarsy_python};

on_every_setup!(
    every_page_of_either_generation_is_imported_and_mapped,
    second_import_fetches_only_changes,
    sessions_deleted_or_added_during_the_walk_hide_no_others,
    transient_errors_are_retried_and_others_reported,
    unavailable_source_fails_the_import_with_a_reason,
    source_that_ignores_parameters_is_read_and_filtered_locally,
    slow_import_is_sped_up_by_a_second_request,
    same_import_runs_once_and_can_be_cancelled,
    stopping_program_releases_its_import_and_the_next_resumes,
);

const PATH: &str = "/api/v1/sessions/import";

pub(super) async fn world(home: Home) -> World {
    World::idle(home, Reply::Score(70)).await
}

/// Import request without a filter or rate limit.
pub(super) fn all_of(server: &TarsyServer) -> Value {
    json!({ "from": server.url(), "rps": 0 })
}

async fn begun(api: &Api, body: Value) -> Uuid {
    let answer = api.post_json(PATH, body).await;
    let id = id_of(&answer.body["import_id"]);
    let this = format!("/api/v1/sessions/imports/{id}");
    assert_eq!(answer.header("location"), Some(this.as_str()));
    assert_eq!(answer.expect(202)["links"]["self"], this);
    id
}

async fn import(api: &Api, id: Uuid) -> Value {
    let path = format!("/api/v1/sessions/imports/{id}");
    api.get(&path).await.expect(200)
}

async fn ended(api: &Api, id: Uuid) -> Value {
    eventually(PATIENCE, "the import ends", || async {
        let import = import(api, id).await;
        (import["state"] != "running").then_some(import)
    })
    .await
}

pub(super) async fn imported(api: &Api, body: Value) -> Value {
    let id = begun(api, body).await;
    let import = ended(api, id).await;
    assert_eq!(import["state"], "completed", "{import:#}");
    import
}

pub(super) fn counts(new: usize, updated: usize, unchanged: usize, failed: usize) -> Value {
    json!({ "new": new, "updated": updated, "unchanged": unchanged, "failed": failed,
            "total": new + updated + unchanged + failed })
}

async fn stored(api: &Api) -> BTreeSet<Uuid> {
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = api
            .get(&format!("/api/v1/sessions?limit=500&cursor={cursor}"))
            .await
            .expect(200);
        let items = page["items"].as_array().unwrap();
        ids.extend(items.iter().map(|item| id_of(&item["session_id"])));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return ids,
        }
    }
}

async fn every_page_of_either_generation_is_imported_and_mapped(home: Home) {
    let world = world(home).await;
    let mut going_on = FakeSession::nth(500);
    (going_on.status, going_on.completed_us) = ("in_progress", None);
    for generation in ["python", "go"] {
        let mut sessions = kept(230);
        going_on.id = Uuid::now_v7().to_string();
        sessions.push(going_on.clone());
        let (one, ids) = (sessions[7].uuid(), sessions.clone());
        let server = match generation {
            "python" => tarsy_python::start(sessions).await,
            _ => tarsy_go::start(sessions).await,
        };
        let import = imported(&world.api, all_of(&server)).await;
        assert_eq!(import["counts"], counts(231, 0, 0, 0));
        assert_eq!(
            (&import["generation"], &import["expected"]),
            (&json!(generation), &json!(231))
        );
        let stored = stored(&world.api).await;
        assert!(ids.iter().all(|kept| stored.contains(&kept.uuid())));
        let session = world
            .api
            .get(&format!("/api/v1/sessions/{one}"))
            .await
            .expect(200);
        assert_eq!(
            (&session["source"], &session["status"]),
            (&json!("tarsy"), &json!("completed"))
        );
        assert_eq!(session["alert_data"], json!({"pod": "session number 7"}));
        assert_eq!(
            session["final_analysis"],
            "session number 7 ran out of memory."
        );
        assert_eq!(
            session["tools"],
            json!(["kubernetes.pods_list", "kubernetes.pods_log"])
        );
        assert_eq!(session["agent"], "KubernetesAgent");
        assert_eq!(
            session["conversation"].as_array().unwrap().len(),
            if generation == "go" { 2 } else { 3 }
        );
        let session = world
            .api
            .get(&format!("/api/v1/sessions/{}", going_on.id))
            .await
            .expect(200);
        assert_eq!(session["status"], "in_progress");
        // The list request has the filter.
        let filtered =
            json!({ "from": server.url(), "rps": 0, "status": ["in_progress", "pending"] });
        assert_eq!(
            imported(&world.api, filtered).await["counts"],
            counts(0, 0, 1, 0)
        );
        let window = json!({ "from": server.url(), "rps": 0, "since": "2026-01-01T00:10:00Z", "until": "2026-01-01T00:20:00Z" });
        let import = imported(&world.api, window).await;
        // Minutes 10 to 19, although the older generation includes the end of the range.
        assert_eq!(import["counts"], counts(0, 0, 10, 0));
    }
    assert!(world.judge.calls().is_empty(), "an import scores nothing");
    world.end().await;
}

async fn second_import_fetches_only_changes(home: Home) {
    let world = world(home).await;
    let server = tarsy_go::start(kept(120)).await;
    imported(&world.api, all_of(&server)).await;
    let details = server.asked("/timeline");
    assert_eq!(details, 120);
    {
        let mut sessions = server.archive.sessions.lock().unwrap();
        sessions[3].text = "another story".to_owned();
        sessions[3].completed_us = Some(sessions[3].began_us + 1);
        // Changes that the list doesn't show are found only by a fetch.
        sessions[4].text = "silently another".to_owned();
        sessions.push(FakeSession::nth(120));
    }
    let import = imported(&world.api, all_of(&server)).await;
    assert_eq!(import["counts"], counts(1, 1, 119, 0));
    assert_eq!(
        import["outdated"],
        json!({"sessions": 0, "scores": 0, "session_ids": []})
    );
    assert_eq!(server.asked("/timeline"), details + 2);
    let mut refresh = all_of(&server);
    refresh["refresh"] = json!(true);
    assert_eq!(
        imported(&world.api, refresh).await["counts"],
        counts(0, 1, 120, 0)
    );
    world.end().await;
}

async fn sessions_deleted_or_added_during_the_walk_hide_no_others(home: Home) {
    let world = world(home).await;
    for generation in ["python", "go", "one moment"] {
        let mut sessions = kept(450);
        if generation == "one moment" {
            // Equal start times: the time window can't advance, so pages are counted.
            let began_us = sessions[0].began_us;
            sessions
                .iter_mut()
                .for_each(|kept| kept.began_us = began_us);
        }
        let server = match generation {
            "python" => tarsy_python::start(sessions).await,
            _ => tarsy_go::start(sessions).await,
        };
        let gone = AtomicUsize::new(0);
        server.rule(move |archive, asked| {
            // Before each page but the first: thirty of the newest are deleted, and one is added.
            if asked.param("page_size") == Some("100") && gone.fetch_add(1, Ordering::Relaxed) > 0 {
                let mut sessions = archive.sessions.lock().unwrap();
                if sessions.len() > 300 {
                    sessions.sort_by_key(|kept| kept.began_us);
                    let left = sessions.len() - 30;
                    sessions.truncate(left);
                    sessions.push(FakeSession {
                        began_us: i64::MAX / 4,
                        ..FakeSession::nth(0)
                    });
                }
            }
            None
        });
        let mut body = all_of(&server);
        body["until"] = json!("2026-06-01");
        let import = imported(&world.api, body).await;
        assert_eq!(
            import["counts"]["new"], import["counts"]["total"],
            "{import:#}"
        );
        let stored = stored(&world.api).await;
        let left = server.archive.sessions.lock().unwrap().clone();
        let missing: Vec<&FakeSession> = left
            .iter()
            .filter(|kept| kept.began_us < i64::MAX / 4 && !stored.contains(&kept.uuid()))
            .collect();
        assert!(missing.is_empty(), "{generation}: {missing:?}");
    }
    world.end().await;
}

async fn transient_errors_are_retried_and_others_reported(home: Home) {
    let world = world(home).await;
    let mut sessions = kept(8);
    "not-a-uuid".clone_into(&mut sessions[0].id);
    let ids: Vec<String> = sessions.iter().map(|kept| kept.id.clone()).collect();
    let server = tarsy_go::start(sessions).await;
    let id = ids.clone();
    server.rule(move |_, asked| match asked.path.as_str() {
        // Two failures of the list itself.
        "/api/v1/sessions" if asked.before < 2 => Some(FakeError::Status(502)),
        path if path.ends_with(&id[1]) && asked.before < 2 => Some(FakeError::Status(500)),
        path if path.ends_with(&id[2]) && asked.before == 0 => Some(FakeError::RetryAfter(429, 1)),
        path if path.ends_with(&id[3]) => Some(FakeError::BrokenJson),
        path if path.ends_with(&id[4]) => Some(FakeError::Status(503)),
        path if path.ends_with(&id[5]) => Some(FakeError::Status(404)),
        path if path.ends_with(&format!("{}/trace", id[6])) => Some(FakeError::Status(404)),
        _ => None,
    });
    let import = imported(&world.api, all_of(&server)).await;
    assert_eq!(import["counts"], counts(4, 0, 0, 4), "{import:#}");
    let reason = |id: &str| {
        let failures = import["failures"].as_array().unwrap();
        let failure = failures.iter().find(|failure| failure["session_id"] == id);
        failure.map(|failure| failure["reason"].as_str().unwrap().to_owned())
    };
    assert!(reason(&ids[0]).unwrap().contains("not a UUID"));
    assert!(reason(&ids[3]).unwrap().contains("the details of session"));
    assert!(reason(&ids[4]).unwrap().contains("returned 503"));
    assert!(reason(&ids[5]).unwrap().contains("404"));
    assert_eq!(reason(&ids[6]), None);
    // Without a trace, the called tools count as available.
    let session = world
        .api
        .get(&format!("/api/v1/sessions/{}", ids[6]))
        .await
        .expect(200);
    assert_eq!(session["tools"], json!(["kubernetes.pods_log"]));
    world.end().await;
}

async fn unavailable_source_fails_the_import_with_a_reason(home: Home) {
    let world = world(home).await;
    let server = tarsy_python::start(kept(3)).await;
    let faults = [
        (FakeError::Status(401), "history.token"),
        (FakeError::Status(503), "returned 503"),
        (FakeError::Html, "is not a TARSy"),
        (FakeError::BrokenJson, "is not a TARSy"),
        (
            FakeError::Redirect("http://127.0.0.1:1/elsewhere".to_owned()),
            "redirects",
        ),
    ];
    for (fault, said) in faults {
        server.rule(move |_, _| Some(fault.clone()));
        let id = begun(&world.api, all_of(&server)).await;
        let import = ended(&world.api, id).await;
        assert_eq!(import["state"], "failed");
        let error = import["last_error"].as_str().unwrap();
        assert!(error.contains(said), "{error}");
    }
    // It fails halfway: sessions stored so far stay.
    let down = AtomicBool::new(false);
    server.rule(move |_, asked| {
        if asked.path.contains("/final-analysis") {
            down.store(true, Ordering::Relaxed);
        }
        down.load(Ordering::Relaxed)
            .then_some(FakeError::Status(500))
    });
    let id = begun(&world.api, all_of(&server)).await;
    assert_eq!(ended(&world.api, id).await["state"], "failed");
    server.rule(|_, _| None);
    assert_eq!(
        imported(&world.api, all_of(&server)).await["counts"],
        counts(3, 0, 0, 0)
    );
    world.end().await;
}

async fn source_that_ignores_parameters_is_read_and_filtered_locally(home: Home) {
    let world = world(home).await;
    let server = tarsy_go::start(kept(3)).await;
    let ids = server.ids();
    // One page that is far larger than requested, without totals; most entries are invalid.
    let mut entries: Vec<Value> = (0..20_000)
        .map(|n| json!({"id": format!("n-{n}")}))
        .collect();
    entries.extend([
        json!({"id": ids[0], "status": "completed"}),
        json!({"id": ids[1], "status": "in_progress"}),
        json!({"id": ids[2], "status": "completed", "created_at": "2025-12-31T23:59:59Z"}),
    ]);
    server.rule(move |_, asked| {
        let lists = asked.path == "/api/v1/sessions" && asked.param("page_size") == Some("100");
        let entries = match asked.param("page") {
            Some("1") => entries.as_slice(),
            _ => &[],
        };
        lists.then(|| FakeError::Answer(json!({"sessions": entries, "pagination": {}})))
    });
    let mut body = all_of(&server);
    body["status"] = json!(["completed"]);
    body["since"] = json!("2026-01-01");
    let import = imported(&world.api, body).await;
    assert_eq!(import["counts"], counts(1, 0, 0, 20_000));
    assert_eq!(stored(&world.api).await, [ids[0]].into());
    // The response is about another session.
    let other = json!({"id": ids[2], "status": "completed", "alert_data": "a"});
    let asked_for = ids[1].to_string();
    server.rule(move |_, asked| {
        let details = asked.path.ends_with(&asked_for);
        details.then(|| FakeError::Answer(other.clone()))
    });
    let import = imported(&world.api, all_of(&server)).await;
    assert_eq!(import["counts"], counts(1, 0, 1, 1));
    let reason = import["failures"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("is about session"), "{reason}");
    world.end().await;
}

async fn slow_import_is_sped_up_by_a_second_request(home: Home) {
    let world = world(home).await;
    let server = tarsy_python::start(kept(20)).await;
    let mut body = all_of(&server);
    body["rps"] = json!(0.001);
    let id = begun(&world.api, body.clone()).await;
    eventually(PATIENCE, "it has begun", || async {
        (server.asked("") > 0).then_some(())
    })
    .await;
    body["rps"] = json!(0);
    let again = world.api.post_json(PATH, body).await;
    let again = again.expect(200);
    assert_eq!(
        (&again["import_id"], &again["rps"]),
        (&json!(id), &json!(0.0))
    );
    let import = ended(&world.api, id).await;
    assert_eq!(import["counts"], counts(20, 0, 0, 0));
    world.end().await;
}

async fn same_import_runs_once_and_can_be_cancelled(home: Home) {
    let world = world(home).await;
    let server = tarsy_go::start(kept(30)).await;
    server.rule(|_, asked| asked.path.contains("/timeline").then_some(FakeError::Held));
    let id = begun(&world.api, all_of(&server)).await;
    let again = world.api.post_json(PATH, all_of(&server)).await;
    assert_eq!(again.expect(200)["import_id"], json!(id));
    eventually(PATIENCE, "sessions are fetched", || async {
        (server.asked("/timeline") >= 8).then_some(())
    })
    .await;
    let cancel = format!("/api/v1/sessions/imports/{id}/cancel");
    let cancelled = world.api.post(&cancel).await.expect(200);
    assert_eq!(cancelled["state"], "cancelled");
    world.api.post(&cancel).await.expect(200);
    server.release();
    // Another import starts at once, and is the only one that stores sessions.
    let import = imported(&world.api, all_of(&server)).await;
    assert_eq!(import["counts"], counts(30, 0, 0, 0));
    let first = self::import(&world.api, id).await;
    assert_eq!(
        (&first["state"], &first["counts"]["total"]),
        (&json!("cancelled"), &json!(0))
    );
    let ended = format!(
        "/api/v1/sessions/imports/{}/cancel",
        import["import_id"].as_str().unwrap()
    );
    assert_eq!(
        world.api.post(&ended).await.expect(409)["type"],
        "urn:gavel:problem:import-ended"
    );
    let listed = world.api.get("/api/v1/sessions/imports").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["items"][1]["import_id"], json!(id));
    world.end().await;
}

async fn stopping_program_releases_its_import_and_the_next_resumes(home: Home) {
    let world = world(home).await;
    let server = tarsy_python::start(kept(250)).await;
    let late = server.archive.sessions.lock().unwrap()[10].id.clone();
    server.rule(move |_, asked| asked.path.contains(&late).then_some(FakeError::Held));
    let id = begun(&world.api, all_of(&server)).await;
    eventually(PATIENCE, "most sessions are stored", || async {
        let import = import(&world.api, id).await;
        (import["counts"]["total"].as_u64() >= Some(200)).then_some(())
    })
    .await;
    let details = server.asked("/final-analysis");
    let world = world.restart().await;
    server.release();
    let import = ended(&world.api, id).await;
    assert_eq!(
        (&import["state"], &import["counts"]),
        (&json!("completed"), &counts(250, 0, 0, 0))
    );
    assert!(
        server.asked("/final-analysis") - details <= 60,
        "what is stored isn't fetched again"
    );
    world.end().await;
}
