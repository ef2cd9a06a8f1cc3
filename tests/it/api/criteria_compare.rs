//! Comparison of two criteria versions over HTTP: results, and errors with their pointers.

use super::*;

async fn scored_as(
    server: &Server,
    session: Uuid,
    (criteria, purpose): (&str, Purpose),
    total: u8,
) -> Uuid {
    let job = NewJob {
        purpose,
        criteria_hash: criteria.to_owned(),
        ..server.new_bulk(session)
    };
    let id = job.job_id;
    assert_eq!(
        server.store().jobs().accept(job).await.unwrap(),
        Accepted::New
    );
    server.succeed(id, total).await
}

/// Server with three sessions scored under two criteria versions. Returns the other version's hash and the sessions.
async fn compared() -> (Server, String, Vec<Uuid>) {
    let server = Server::with(Setup::default()).await;
    let other = server.other_criteria().await;
    let mut sessions = Vec::new();
    for (before, after) in [(80, 60), (90, 88), (40, 46)] {
        let (session, _) = server.scored(before).await;
        scored_as(&server, session, (&other, Purpose::Preview), after).await;
        sessions.push(session);
    }
    (server, other, sessions)
}

#[tokio::test]
async fn two_versions_are_compared_on_sessions_scored_by_both() {
    let (server, other, sessions) = compared().await;
    server.scored(70).await;
    let path = format!(
        "/api/v1/scoring/criteria/compare?a=current&b={}&movers=2",
        &other[..8]
    );
    let found = server.json_of(&path).await;
    assert_eq!(found["b"], other);
    assert_eq!(found["a"].as_str().unwrap().len(), 64);
    assert_eq!(
        (&found["n"], &found["only_a"], &found["only_b"]),
        (&json!(3), &json!(1), &json!(0))
    );
    assert_eq!(found["mean_a"], 70.0);
    let difference = &found["mean_difference"];
    assert!(
        (difference["value"].as_f64().unwrap() + 16.0 / 3.0).abs() < 1e-9,
        "{found:#}"
    );
    assert_eq!(
        (&difference["level"], &difference["resamples"]),
        (&json!(0.95), &json!(2_000))
    );
    let (low, high) = (
        difference["low"].as_f64().unwrap(),
        difference["high"].as_f64().unwrap(),
    );
    assert!(
        (-20.0..=-16.0 / 3.0).contains(&low) && (-16.0 / 3.0..=6.0).contains(&high),
        "{found:#}"
    );
    assert_eq!(found["kendall_tau_b"], 1.0);
    assert_eq!(
        found["ratings"],
        json!({
            "labels": ["failed", "weak", "adequate", "good", "near_perfect"],
            "table": [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]],
        })
    );
    assert_eq!(found["changed"], 1.0);
    assert_eq!(
        found["movers"],
        json!([
            { "session_id": sessions[0], "a": 80, "b": 60, "difference": -20 },
            { "session_id": sessions[2], "a": 40, "b": 46, "difference": 6 },
        ])
    );
    assert_eq!(found["simulated"], false);
    assert!(
        found["warnings"][0]
            .as_str()
            .unwrap()
            .starts_with("only 3 sessions")
    );
    assert_eq!(server.json_of(&path).await, found, "the same every time");
    let seeded = server.json_of(&format!("{path}&seed=1")).await;
    assert_eq!(seeded["mean_difference"]["seed"], 1);
}

#[tokio::test]
async fn criteria_without_common_sessions_give_a_warning_only() {
    let server = Server::with(Setup::default()).await;
    let other = server.other_criteria().await;
    let found = server
        .json_of(&format!(
            "/api/v1/scoring/criteria/compare?a={other}&b=current"
        ))
        .await;
    assert_eq!(
        (&found["n"], &found["mean_difference"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(
        (&found["kendall_tau_b"], &found["movers"]),
        (&Value::Null, &json!([]))
    );
    assert!(
        found["warnings"][0]
            .as_str()
            .unwrap()
            .starts_with("no session")
    );
}

#[tokio::test]
async fn unknown_or_mismatched_criteria_are_named_by_parameter() {
    let server = Server::with(Setup::default()).await;
    let other = server.other_criteria().await;
    for (query, expected) in [
        ("", vec!["/a", "/b"]),
        ("?a=current&b=current", vec!["/b"]),
        ("?a=abc&b=current", vec!["/a"]),
        ("?a=current&b=no-hash-at-all", vec!["/b"]),
        (
            &format!("?a={other}&b=current&movers=501&seed=x&colour=1"),
            vec!["/movers", "/seed", "/colour"],
        ),
    ] {
        let answer = server
            .get(&format!("/api/v1/scoring/criteria/compare{query}"))
            .send();
        let problem = problem_of(answer.await.unwrap(), 422, "invalid-request").await;
        assert_eq!(pointers(&problem), expected, "{query}");
    }
    for route in ["compare", "diff"] {
        let path = format!(
            "/api/v1/scoring/criteria/{route}?a=current&b={}",
            "0".repeat(64)
        );
        problem_of(
            server.get(&path).send().await.unwrap(),
            404,
            "criteria-not-found",
        )
        .await;
    }
    let query = criteria_of_kind(&server, "query").await;
    let path = format!("/api/v1/scoring/criteria/compare?a=current&b={query}");
    let problem = problem_of(
        server.get(&path).send().await.unwrap(),
        422,
        "invalid-request",
    )
    .await;
    assert!(
        problem["detail"].as_str().unwrap().contains("kind query"),
        "{problem}"
    );
}

async fn criteria_of_kind(server: &Server, kind: &str) -> String {
    let listed = server.json_of("/api/v1/scoring/criteria").await;
    let items = listed["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["kind"] == kind).unwrap();
    found["criteria_hash"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn texts_are_compared_by_part_regardless_of_key_order() {
    let server = Server::with(Setup::default()).await;
    let other = server.other_criteria().await;
    let path = format!("/api/v1/scoring/criteria/diff?a=current&b={other}");
    let found = server.json_of(&path).await;
    let parts = found["parts"].as_array().unwrap();
    let names: Vec<&str> = parts
        .iter()
        .map(|part| part["part"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["judge_prompt", "settings"]);
    let prompt = parts[0]["diff"].as_str().unwrap();
    assert!(
        prompt.starts_with("--- ") && prompt.contains("\n-Judge it. {{"),
        "{prompt}"
    );
    assert!(prompt.contains("\n+Judge it otherwise. {{"), "{prompt}");
    let settings = parts[1]["diff"].as_str().unwrap();
    let changed: Vec<&str> = settings
        .lines()
        .filter(|line| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        })
        .collect();
    assert_eq!(changed.len(), 2, "{settings}");
    assert!(
        changed[0].contains("judge-a") && changed[1].contains("judge-b"),
        "{settings}"
    );
}

#[tokio::test]
async fn criteria_list_shows_first_use() {
    let (server, other, _) = compared().await;
    let listed = server.json_of("/api/v1/scoring/criteria").await;
    let items = listed["items"].as_array().unwrap();
    let used = items
        .iter()
        .find(|item| item["is_current"] == true && item["kind"] == "session");
    let used = used.unwrap();
    assert_eq!(
        (&used["scores"], &used["mean_total"]),
        (&json!(3), &json!(70.0))
    );
    let time = |name: &str| -> chrono::DateTime<chrono::Utc> {
        used[name].as_str().unwrap().parse().unwrap()
    };
    assert!(time("first_scored_at") >= time("created_at"));
    // Previews don't count as use.
    let looked = items
        .iter()
        .find(|item| item["criteria_hash"] == json!(other))
        .unwrap();
    assert_eq!(
        (&looked["scores"], &looked["first_scored_at"]),
        (&json!(0), &Value::Null)
    );
}
