//! Ratings and agreement over HTTP: results, and errors with their pointers.

use super::*;

async fn rated(server: &Server, path: &str, body: Value) -> (u16, Value) {
    let answer = server.post(path).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn rating_is_stored_listed_and_replaced_per_rater() {
    let server = Server::with(Setup::default()).await;
    let (session, score) = server.scored(50).await;
    let of_score = format!("/api/v1/scores/{score}/ratings");
    let of_session = format!("/api/v1/sessions/{session}/ratings");
    let body =
        json!({ "total": 62, "by": " ann ", "comment": "early end", "at": "2026-01-02T03:04:05Z" });
    let (status, first) = rated(&server, &of_score, body).await;
    assert_eq!(status, 201, "{first}");
    assert_eq!(
        (
            &first["total"],
            &first["rating"],
            &first["quality"],
            &first["by"]
        ),
        (&json!(62), &Value::Null, &Value::Null, &json!("ann"))
    );
    assert_eq!(
        (&first["session_id"], &first["score_id"], &first["at"]),
        (
            &json!(session),
            &json!(score),
            &json!("2026-01-02T03:04:05Z")
        )
    );
    let (status, second) =
        rated(&server, &of_score, json!({ "rating": "good", "by": "ann" })).await;
    assert_eq!((status, &second["rating_id"]), (200, &first["rating_id"]));
    assert_eq!(
        (&second["rating"], &second["comment"]),
        (&json!("good"), &Value::Null)
    );
    let (status, third) = rated(&server, &of_session, json!({ "quality": "inaccurate" })).await;
    assert_eq!(
        (status, &third["by"], &third["score_id"]),
        (201, &json!("api-client"), &Value::Null)
    );
    let listed = server.json_of(&of_score).await;
    assert_eq!(listed, json!({ "items": [second], "next_cursor": null }));
    let page = server.json_of(&format!("{of_session}?limit=1")).await;
    assert_eq!(page["items"], json!([third]));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = server
        .json_of(&format!("{of_session}?limit=1&cursor={cursor}"))
        .await;
    assert_eq!(rest, json!({ "items": [second], "next_cursor": null }));
    let scored = server.json_of(&score_path(session)).await;
    assert_eq!(scored["total_score"], 50, "a rating changes no score");
}

#[tokio::test]
async fn repeated_rating_with_a_key_is_stored_once() {
    let server = Server::with(Setup::default()).await;
    let (_, score) = server.scored(50).await;
    let path = format!("/api/v1/scores/{score}/ratings");
    let mut answers = Vec::new();
    for _ in 0..2 {
        let sent = server.post(&path).header("Idempotency-Key", "rating-1");
        let answer = sent.json(&json!({ "total": 10 })).send().await.unwrap();
        answers.push(json_of(answer, 201).await);
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn each_rating_error_has_its_pointer() {
    let server = Server::with(Setup::default()).await;
    let (session, score) = server.scored(50).await;
    let path = format!("/api/v1/scores/{score}/ratings");
    let long = "x".repeat(4_001);
    for (body, expected) in [
        (json!({}), vec![""]),
        (json!({ "total": 1, "quality": "accurate" }), vec![""]),
        (json!({ "total": 101, "by": "" }), vec!["/total", "/by"]),
        (
            json!({ "total": -1, "comment": long }),
            vec!["/total", "/comment"],
        ),
        (json!({ "rating": "great" }), vec!["/rating"]),
        (json!({ "quality": "good" }), vec!["/quality"]),
        (json!({ "total": 1, "by": "a\nb" }), vec!["/by"]),
        (
            json!({ "total": 1, "at": "2999-01-01T00:00:00Z" }),
            vec!["/at"],
        ),
        (json!({ "total": 1, "at": "yesterday" }), vec!["/at"]),
        (json!({ "score": 1 }), vec!["/score"]),
    ] {
        let answer = server.post(&path).json(&body).send().await.unwrap();
        let problem = problem_of(answer, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), expected, "{body}");
    }
    let unknown = Uuid::now_v7();
    for (path, slug) in [
        (
            format!("/api/v1/scores/{unknown}/ratings"),
            "score-not-found",
        ),
        (
            format!("/api/v1/scores/{session}/ratings"),
            "score-not-found",
        ),
        (
            format!("/api/v1/sessions/{unknown}/ratings"),
            "session-not-found",
        ),
    ] {
        problem_of(server.get(&path).send().await.unwrap(), 404, slug).await;
        let sent = server.post(&path).json(&json!({ "total": 1 }));
        problem_of(sent.send().await.unwrap(), 404, slug).await;
    }
    let listed = server.json_of(&path).await;
    assert_eq!(listed["items"], json!([]), "what is refused is not stored");
}

#[tokio::test]
async fn agreement_compares_ratings_with_scores_on_their_scale() {
    let server = Server::with(Setup::default()).await;
    let nothing = server.json_of("/api/v1/analytics/agreement").await;
    assert_eq!(
        (&nothing["scales"], &nothing["simulated"]),
        (&json!([]), &json!(false))
    );
    // ann's labels follow from her totals by the table; tarsy has its own labels.
    for (ours, ann, quality) in [
        (80, 82, "accurate"),
        (95, 70, "partially_accurate"),
        (30, 35, "inaccurate"),
        (62, 62, "accurate"),
    ] {
        let (session, score) = server.scored(ours).await;
        let given = json!({ "total": ann, "by": "ann" });
        let (status, _) = rated(&server, &format!("/api/v1/scores/{score}/ratings"), given).await;
        assert_eq!(status, 201);
        let given = json!({ "quality": quality, "by": "tarsy" });
        rated(
            &server,
            &format!("/api/v1/sessions/{session}/ratings"),
            given,
        )
        .await;
    }
    let found = server
        .json_of("/api/v1/analytics/agreement?criteria=current")
        .await;
    let [ratings, quality] = found["scales"].as_array().unwrap().as_slice() else {
        panic!("both scales were used: {found:#}");
    };
    assert_eq!(
        (&ratings["scale"], &ratings["n"]),
        (&json!("ratings"), &json!(4))
    );
    assert_eq!(
        (&ratings["raters"], &ratings["scores"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(ratings["raw"], 0.75);
    assert_eq!(
        ratings["confusion"]["table"],
        json!([
            [1, 0, 0, 0, 0],
            [0, 0, 0, 0, 0],
            [0, 0, 1, 0, 1],
            [0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0]
        ])
    );
    // 1 - observed over expected disagreement, squares of steps: 4 / 4 over 58 / 16.
    let kappa = ratings["kappa_quadratic"]["value"].as_f64().unwrap();
    assert!((kappa - (1.0 - 16.0 / 58.0)).abs() < 1e-9, "{ratings:#}");
    assert_eq!(ratings["strength"], "substantial");
    assert_eq!(ratings["mean_absolute_difference"], 8.0);
    assert_eq!(ratings["mean_difference"], 4.5);
    assert_eq!(
        (&quality["scale"], &quality["n"], &quality["raw"]),
        (&json!("quality"), &json!(4), &json!(0.5))
    );
    assert_eq!(
        quality["confusion"],
        json!({
            "labels": ["inaccurate", "partially_accurate", "accurate"],
            "table": [[1, 0, 0], [0, 0, 1], [0, 1, 1]],
        })
    );
    assert_eq!(quality["mean_absolute_difference"], Value::Null);
    let warnings = quality["warnings"].to_string();
    assert!(
        warnings.contains("only 4 ratings") && warnings.contains("only one rater"),
        "{warnings}"
    );
    let unknown = server
        .get("/api/v1/analytics/agreement?criteria=00000000")
        .send()
        .await;
    problem_of(unknown.unwrap(), 404, "criteria-not-found").await;
}
