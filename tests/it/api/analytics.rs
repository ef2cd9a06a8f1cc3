//! Analytics endpoints.

use super::*;
use crate::support::stores;

impl Server {
    pub(super) async fn scored_at(
        &self,
        completed: &str,
        total: u8,
        simulated: bool,
        tools: &[&str],
    ) -> Uuid {
        let fields = json!({ "started_at": null, "completed_at": completed });
        let session = self.session_with(fields).await;
        self.scored_as(session, total, simulated, tools).await;
        session
    }

    pub(super) async fn scored_as(
        &self,
        session: Uuid,
        total: u8,
        simulated: bool,
        tools: &[&str],
    ) {
        let id = self.queued(session).await;
        let tool = |name: &&str| MissingTool {
            tool_name: (*name).to_owned(),
            rationale: "why".to_owned(),
        };
        let score = SessionScore {
            simulated,
            missing_tools: tools.iter().map(tool).collect(),
            ..session_score(total)
        };
        self.succeed_with(id, score).await;
    }
}

pub(super) const DAY: &str = "2026-01-02T12:00:00Z";

#[tokio::test]
async fn missing_tools_of_a_score_exclude_its_own_session() {
    for db in stores().await {
        let server = Server::over(db).await;
        let tools = ["kubectl-logs", "Kubectl Logs", "rare"];
        let session = server.scored_at(DAY, 70, false, &tools).await;
        for other in ["kubectl_logs", "kubectlLogs"] {
            server.scored_at(DAY, 60, false, &[other, other]).await;
        }
        server
            .scored_at(DAY, 60, true, &["kubectl-logs", "rare"])
            .await;
        // Rescored without the tool, so its earlier finding doesn't count.
        let mended = server.scored_at(DAY, 50, false, &["rare"]).await;
        let job = job_id(&json_of(server.force(mended).await, 202).await);
        server.succeed(job, 60).await;
        let score = server.json_of(&score_path(session)).await;
        let path = format!(
            "/api/v1/scores/{}/missing-tools",
            score["score_id"].as_str().unwrap()
        );
        let found = server.json_of(&path).await;
        let told: Vec<_> = found["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (&item["name"], &item["other_sessions"], &item["more"]))
            .collect();
        let no = &json!(false);
        assert_eq!(
            told,
            [
                (&json!("kubectl-logs"), &json!(2), no),
                (&json!("rare"), &json!(0), no)
            ],
            "{found:#}"
        );
        assert_eq!(
            found["items"][0]["links"]["sessions"],
            "/api/v1/sessions?missing_tool=kubectllogs"
        );
        let unknown = format!("/api/v1/scores/{}/missing-tools", Uuid::now_v7());
        let unknown = server.get(&unknown).send().await.unwrap();
        problem_of(unknown, 404, "score-not-found").await;
    }
}

#[tokio::test]
async fn missing_tools_link_to_their_sessions() {
    for db in stores().await {
        let server = Server::over(db).await;
        let first = server
            .scored_at(DAY, 70, false, &["kubectl-logs", "kubectl_logs"])
            .await;
        let second = server
            .scored_at(DAY, 70, false, &["KubectlLogs", "a/b c"])
            .await;
        server.scored_at(DAY, 70, true, &["simulated tool"]).await;
        let found = server.json_of("/api/v1/analytics/missing-tools").await;
        assert_eq!(
            (&found["scores"], &found["simulated"]),
            (&json!(2), &json!(false))
        );
        let items = found["items"].as_array().unwrap();
        assert_eq!(items.len(), 2, "{found:#}");
        assert_eq!(
            (&items[0]["sessions"], &items[0]["share"]),
            (&json!(2), &json!(1.0))
        );
        assert_eq!(items[0]["spellings"].as_array().unwrap().len(), 2);
        let listed = async |item: &Value| -> Vec<Uuid> {
            let path = item["links"]["sessions"].as_str().unwrap();
            let list = server.json_of(path).await;
            let ids = list["items"].as_array().unwrap().iter();
            ids.map(|line| serde_json::from_value(line["session_id"].clone()).unwrap())
                .collect()
        };
        let mut both = listed(&items[0]).await;
        both.sort_unstable();
        assert_eq!(both, [first, second]);
        assert_eq!(items[1]["name"], "a/b c");
        assert_eq!(listed(&items[1]).await, [second]);
        let warnings = found["warnings"].to_string();
        assert!(
            warnings.contains("fewer than 20") && warnings.contains("excluded"),
            "{warnings}"
        );

        let approaches = server.json_of("/api/v1/analytics/approaches").await;
        let first = &approaches["items"][0];
        assert_eq!(
            (&first["name"], &first["sessions"]),
            (&json!("Events first"), &json!(2))
        );
        assert_eq!(first["links"], Value::Null);
    }
}

#[tokio::test]
async fn scores_are_grouped_by_agent_alert_type_and_tag() {
    for db in stores().await {
        let server = Server::over(db).await;
        for (agent, alert_type, tags, total) in [
            ("a", Some("x"), json!(["t", "u"]), 40),
            ("a", None, json!(["t"]), 80),
            ("b", Some("x"), json!([]), 90),
        ] {
            let fields = json!({"agent": agent, "alert_type": alert_type, "tags": tags});
            let session = server.session_with(fields).await;
            server.scored_as(session, total, false, &[]).await;
        }
        server.scored_at(DAY, 0, true, &[]).await;
        let found = server.json_of("/api/v1/analytics/groups").await;
        let group = |name: &str, scores: u64, mean: f64, min: u8, max: u8| json!({"name": name, "scores": scores, "mean": mean, "min": min, "max": max});
        for (field, groups) in [
            (
                "agents",
                json!([group("a", 2, 60.0, 40, 80), group("b", 1, 90.0, 90, 90)]),
            ),
            ("alert_types", json!([group("x", 2, 65.0, 40, 90)])),
            (
                "tags",
                json!([group("t", 2, 60.0, 40, 80), group("u", 1, 40.0, 40, 40)]),
            ),
            ("scores", json!(3)),
            ("simulated", json!(false)),
        ] {
            assert_eq!(found[field], groups, "{field}: {found:#}");
        }
        for query in [
            "criteria=current&from=2026-06-01T00:00:00Z",
            "criteria=current&to=2020-01-01T00:00:00Z",
        ] {
            let found = server
                .json_of(&format!("/api/v1/analytics/groups?{query}"))
                .await;
            assert_eq!(found["scores"], 0, "{query}: {found:#}");
        }
    }
}

#[tokio::test]
async fn distribution_covers_current_criteria_and_counts_exclusions() {
    for db in stores().await {
        let server = Server::over(db).await;
        for total in [40, 60, 80, 100] {
            server.scored_at(DAY, total, false, &[]).await;
        }
        server.scored_at(DAY, 0, true, &[]).await;
        server.session().await;
        let found = server.json_of("/api/v1/analytics/distribution").await;
        for (field, expected) in [
            ("scores", json!(4)),
            ("mean", json!(70.0)),
            ("median", json!(70.0)),
            ("quartile_1", json!(55.0)),
            ("quartile_3", json!(85.0)),
            ("min", json!(40)),
            ("max", json!(100)),
            ("simulated", json!(false)),
        ] {
            assert_eq!(found[field], expected, "{field}: {found:#}");
        }
        let coverage = json!({ "sessions": 6, "scored": 4, "unscored": 2, "share": 4.0 / 6.0 });
        assert_eq!(found["coverage"], coverage);
        let histogram = found["histogram"].as_array().unwrap();
        assert_eq!((histogram.len(), &histogram[9]["scores"]), (10, &json!(1)));
        let rated = |n: usize| found["ratings"][n]["scores"].clone();
        assert_eq!((rated(0), rated(4)), (json!(1), json!(1)));
        let fives = server
            .json_of("/api/v1/analytics/distribution?points=5&criteria=any")
            .await;
        assert_eq!(fives["histogram"].as_array().unwrap().len(), 20);
        assert_eq!(fives["criteria_hash"], Value::Null);
        let path = format!("/api/v1/analytics/distribution?criteria={}", "0".repeat(64));
        let other = server.json_of(&path).await;
        assert_eq!(
            (&other["scores"], &other["mean"]),
            (&json!(0), &Value::Null)
        );
    }
}

#[tokio::test]
async fn only_simulated_scores_are_shown_with_their_mark() {
    let server = Server::with(Setup::default()).await;
    server.scored_at(DAY, 60, true, &["a"]).await;
    let path = "/api/v1/analytics";
    for route in [
        "missing-tools",
        "distribution",
        "trend?from=2026-01-01T00:00:00Z",
    ] {
        let found = server.json_of(&format!("{path}/{route}")).await;
        assert_eq!(
            (&found["simulated"], &found["scores"]),
            (&json!(true), &json!(1)),
            "{route}"
        );
    }
}

#[tokio::test]
async fn trend_has_a_line_per_period_and_criteria() {
    for db in stores().await {
        let server = Server::over(db).await;
        for (completed, total) in [
            ("2026-01-05T00:00:00Z", 40),
            ("2026-01-11T23:00:00Z", 80),
            ("2026-02-01T00:00:00Z", 90),
        ] {
            server.scored_at(completed, total, false, &[]).await;
        }
        let range = "from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z";
        for (every, expected) in [
            (
                "day",
                vec![
                    ("2026-01-05", 1, 40.0),
                    ("2026-01-11", 1, 80.0),
                    ("2026-02-01", 1, 90.0),
                ],
            ),
            (
                "week",
                vec![("2026-01-05", 2, 60.0), ("2026-01-26", 1, 90.0)],
            ),
            (
                "month",
                vec![("2026-01-01", 2, 60.0), ("2026-02-01", 1, 90.0)],
            ),
        ] {
            let path = format!("/api/v1/analytics/trend?every={every}&{range}");
            let found = server.json_of(&path).await;
            let lines: Vec<_> = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| {
                    let period = item["period"].as_str().unwrap();
                    (
                        period,
                        item["scores"].as_i64().unwrap(),
                        item["mean"].as_f64().unwrap(),
                    )
                })
                .collect();
            assert_eq!(lines, expected, "{every}");
        }
        let recent = server.json_of("/api/v1/analytics/trend").await;
        assert!(recent["from"].is_string(), "{recent:#}");
        // All sessions are older than 30 days.
        for (query, says) in [
            ("", "no session of the last 30 days has a score"),
            (
                "?every=week&to=2025-01-01T00:00:00Z",
                "no session of the 30 weeks up to then",
            ),
        ] {
            let none = server
                .json_of(&format!("/api/v1/analytics/trend{query}"))
                .await;
            let warnings = none["warnings"].as_array().unwrap();
            assert_eq!(
                (&none["items"], warnings.len()),
                (&json!([]), 1),
                "{none:#}"
            );
            let said = warnings[0].as_str().unwrap();
            assert!(said.starts_with(says) && said.contains("--days"), "{said}");
        }
        let asked = "/api/v1/analytics/trend?from=2025-01-01T00:00:00Z&to=2025-02-01T00:00:00Z";
        let asked = server.json_of(asked).await;
        assert!(
            asked["warnings"][0]
                .as_str()
                .unwrap()
                .starts_with("0 scores"),
            "{asked:#}"
        );
    }
}

#[tokio::test]
async fn invalid_score_filter_is_named() {
    let server = Server::with(Setup::default()).await;
    for (query, pointer) in [
        ("missing-tools?criteria=best", "/criteria"),
        ("approaches?limit=501", "/limit"),
        ("distribution?points=7", "/points"),
        (
            "distribution?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z",
            "/from",
        ),
        ("trend?every=hour", "/every"),
        ("trend?from=1990-01-01T00:00:00Z", "/from"),
    ] {
        let asked = server.get(&format!("/api/v1/analytics/{query}"));
        let problem = problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{query}");
    }
}
