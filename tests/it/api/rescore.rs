//! POST /api/v1/rescore: selection, plan and validation.

use super::*;

const PATH: &str = "/api/v1/rescore";

impl Server {
    async fn rescore(&self, body: &Value) -> Response {
        self.post(PATH).json(body).send().await.unwrap()
    }

    async fn plan(&self, mut body: Value) -> Value {
        body["dry_run"] = json!(true);
        json_of(self.rescore(&body).await, 200).await
    }

    async fn batches(&self) -> usize {
        let batches = self.store().batches();
        let all = batches.list(Default::default(), None, 5).await.unwrap();
        all.items.len()
    }

    async fn matching(&self, filter: Value) -> i64 {
        let plan = self.plan(json!({ "filter": filter })).await;
        plan["matching"].as_i64().unwrap()
    }
}

#[tokio::test]
async fn each_filter_field_narrows_the_selection() {
    for db in crate::support::stores().await {
        let server = Server::over(db).await;
        let (low, _) = server.scored(40).await;
        let (high, _) = server.scored(95).await;
        let (_, job) = server.queued_session().await;
        server.fail(job).await;
        let waits = server
            .session_with(
                json!({"agent": "db-agent", "alert_type": "SlowQuery", "tags": ["staging"],
                "completed_at": "2026-03-01T00:00:00Z", "started_at": null}),
            )
            .await;
        server.queued(waits).await;
        let open = server
            .session_with(json!({"status": "in_progress", "completed_at": null}))
            .await;
        let current = server.enqueue.current_criteria().hash.0.clone();
        for (filter, expected) in [
            (json!({}), 5),
            (json!({"q": "slow"}), 1),
            (json!({"status": "in_progress"}), 1),
            (json!({"scored": "yes"}), 2),
            (json!({"scored": "no"}), 3),
            (json!({"scored": "running"}), 1),
            (json!({"scored": "failed"}), 1),
            (json!({"rating": "near_perfect"}), 1),
            (json!({"min_score": 50}), 1),
            (json!({"max_score": 50}), 1),
            (json!({"min_score": 30, "max_score": 99}), 2),
            (json!({"criteria": "current"}), 2),
            (json!({"criteria": current}), 2),
            (json!({"criteria": current.to_ascii_uppercase()}), 2),
            (json!({"criteria": &current[..8]}), 2),
            (json!({"min_score": 40, "max_score": 40}), 1),
            (json!({"criteria": "not_current"}), 0),
            (json!({"tag": "staging"}), 1),
            (json!({"agent": "db-agent"}), 1),
            (json!({"alert_type": "SlowQuery"}), 1),
            (
                json!({"from": "2026-02-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"}),
                1,
            ),
            (json!({"ids": [low, high, low]}), 2),
            (json!({"ids": [low, open], "scored": "yes"}), 1),
        ] {
            assert_eq!(server.matching(filter.clone()).await, expected, "{filter}");
        }
    }
}

#[tokio::test]
async fn dry_run_matches_the_run_and_stores_no_rows() {
    for db in crate::support::stores().await {
        let server = Server::over(db).await;
        server.scored(70).await;
        for _ in 0..4 {
            server.session().await;
        }
        let (busy, job) = server.queued_session().await;
        server.session_with(json!({"status": "in_progress"})).await;
        let unknown = Uuid::now_v7();
        let plan = server.plan(json!({})).await;
        assert_eq!(
            (&plan["matching"], &plan["to_score"], &plan["items"]),
            (&json!(7), &json!(4), &json!(4))
        );
        let skipped = json!({"already_current": 1, "in_progress": 1, "not_scorable": 1, "unknown": 0,
            "not_sampled": 0, "beyond_max": 0});
        assert_eq!(plan["skipped"], skipped);
        assert_eq!(
            plan["judges"],
            json!([{"judge": "judge-a", "priced": true}])
        );
        let tokens_in = plan["tokens_in"]["expected"].as_f64().unwrap();
        assert!(tokens_in > 400.0, "{plan:#}");
        // As in the one job that ended.
        assert_eq!(
            plan["tokens_out"],
            json!({"expected": 1_200, "low": 900, "high": 1_500})
        );
        let cost = plan["cost_usd"]["expected"].as_f64().unwrap();
        let expected = (tokens_in + 10.0 * 1_200.0) / 1e6;
        assert!((cost - expected).abs() < 1e-9, "{plan:#}");
        assert_eq!(
            plan["estimate"],
            json!({"sampled_sessions": 4, "history_jobs": 1})
        );
        assert_eq!(
            plan["pace"],
            json!({"jobs_per_s": 2.0, "of": "the judge's limits"})
        );
        assert_eq!(plan["duration_s"], 2.0);
        assert!(
            server
                .store()
                .batches()
                .list(Default::default(), None, 5)
                .await
                .unwrap()
                .items
                .is_empty()
        );

        let made = json_of(server.rescore(&json!({})).await, 202).await;
        assert_eq!(
            (&made["state"], &made["counts"]["total"]),
            (&json!("running"), &json!(4))
        );
        let named = made["skipped"].as_object().unwrap();
        assert!(
            named.iter().all(|(name, n)| plan["skipped"][name] == *n),
            "{made:#}"
        );
        assert_eq!(
            made["in_progress"],
            json!([{"session_id": busy, "job_id": job.to_string()}])
        );
        // All sessions have active jobs now. A preview ignores active jobs and existing scores.
        let preview = server
            .plan(json!({"purpose": "preview", "filter": {"ids": [busy, unknown]}}))
            .await;
        assert_eq!(
            (&preview["to_score"], &preview["skipped"]["unknown"]),
            (&json!(1), &json!(1))
        );
        let repeat = server
            .plan(json!({"purpose": "repeat", "repeats": 5}))
            .await;
        assert_eq!(
            (&repeat["to_score"], &repeat["items"]),
            (&json!(6), &json!(30))
        );
        let body = json!({"purpose": "jury", "judges": ["judge-a", "judge-b"], "max": 2});
        let jury = server.plan(body).await;
        assert_eq!(
            (&jury["items"], &jury["cost_usd"]),
            (&json!(4), &json!(null))
        );
        assert!(
            jury["warnings"].to_string().contains("no price"),
            "{jury:#}"
        );
        let sample = server
            .plan(json!({"purpose": "preview", "sample": {"size": 2}}))
            .await;
        assert_eq!(
            (&sample["to_score"], &sample["skipped"]["not_sampled"]),
            (&json!(2), &json!(5))
        );
    }
}

#[tokio::test]
async fn plan_without_a_fitting_prompt_has_no_cost() {
    let setup = Setup {
        criteria: criteria(fakes::NARROW, "Judge it."),
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let nothing = server.plan(json!({})).await;
    assert_eq!(nothing["cost_usd"]["expected"], 0.0, "{nothing:#}");
    server.session().await;
    let plan = server.plan(json!({})).await;
    assert_eq!(plan["to_score"], 1, "{plan:#}");
    assert_eq!(plan["cost_usd"], Value::Null, "{plan:#}");
    let warnings = plan["warnings"].to_string();
    assert!(
        warnings.contains("no session of the sample fits"),
        "{warnings}"
    );
}

#[tokio::test]
async fn sample_is_the_same_on_each_request() {
    let server = Server::with(Setup::default()).await;
    for _ in 0..12 {
        server.session().await;
    }
    let mut drawn = Vec::new();
    for seed in [7, 7, 8, 9, 10, 11] {
        let body = json!({"purpose": "preview", "sample": {"size": 4, "seed": seed}});
        let made = json_of(server.rescore(&body).await, 202).await;
        assert_eq!(made["counts"]["total"], 4);
        let jobs = server.jobs_of(&made).await;
        let of = |job: &Value| job["subject_id"].as_str().unwrap().to_owned();
        let mut sessions: Vec<String> = jobs["items"].as_array().unwrap().iter().map(of).collect();
        sessions.sort();
        drawn.push(sessions);
    }
    assert_eq!(drawn[0], drawn[1]);
    // Two seeds select the same four of twelve once in 495 times.
    assert!(drawn.iter().any(|of| *of != drawn[0]), "{drawn:?}");
}

#[tokio::test]
async fn request_with_a_key_creates_one_batch() {
    let server = Server::with(Setup::default()).await;
    server.session().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let sent = server
            .post(PATH)
            .header("Idempotency-Key", "spring")
            .json(&json!({"name": "spring"}));
        let made = json_of(sent.send().await.unwrap(), 202).await;
        ids.push(made["batch_id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(server.batches().await, 1);
}

/// Bodies with an invalid filter: pointer and message.
fn bad_filters() -> Vec<(Value, &'static str, &'static str)> {
    let of = |filter: Value, word: &'static str, says| (json!({ "filter": filter }), word, says);
    vec![
        of(json!({"colour": "red"}), "/filter/colour", "unknown field"),
        of(
            json!({"status": "done"}),
            "/filter/status",
            "is unknown; known: ",
        ),
        of(json!({"scored": "maybe"}), "/filter/scored", "yes"),
        of(json!({"min_score": 101}), "/filter/min_score", "0-100"),
        of(
            json!({"criteria": "mine"}),
            "/filter/criteria",
            "not_current",
        ),
        of(json!({"q": ""}), "/filter/q", "is empty: omit it"),
        of(json!({"tag": "a\nb"}), "/filter/tag", "control"),
        of(json!({"ids": []}), "/filter/ids", "omit it"),
        of(json!({"ids": ["x"]}), "/filter/ids/0", "UUID"),
        of(json!({"from": "soon"}), "/filter/from", ""),
        of(
            json!({"min_score": 60, "max_score": 50}),
            "/filter/min_score",
            "max_score",
        ),
        of(
            json!({"from": "2026-02-02T00:00:00Z", "to": "2026-02-01T00:00:00Z"}),
            "/filter/from",
            "later than to",
        ),
    ]
}

fn bad_options(unpriced: &str) -> Vec<(Value, &'static str, &'static str)> {
    let jury = |judges: Value| json!({"purpose": "jury", "judges": judges});
    let (one, two) = (["judge-a"], ["judge-a", "judge-b"]);
    vec![
        (
            json!({"criteria_hash": "0"}),
            "/criteria_hash",
            "64 hex digits",
        ),
        (
            json!({"criteria_hash": "0".repeat(64)}),
            "/criteria_hash",
            "not stored",
        ),
        (json!({"name": ""}), "/name", "printable"),
        (json!({"max": 0}), "/max", "at least 1"),
        (json!({"budget_usd": 0}), "/budget_usd", "more than 0"),
        (
            json!({"budget_usd": 1, "criteria_hash": unpriced}),
            "/budget_usd",
            "llm_providers.yaml",
        ),
        (json!({"purpose": "fun"}), "/purpose", "is unknown; known: "),
        (json!({"purpose": "repeat"}), "/repeats", "2-20"),
        (
            json!({"purpose": "repeat", "repeats": 21}),
            "/repeats",
            "2-20",
        ),
        (json!({"repeats": 3}), "/repeats", "omit it"),
        (json!({"purpose": "jury"}), "/judges", "2-9"),
        (jury(json!(one)), "/judges", "2-9"),
        (jury(json!(["judge-a", "judge-a"])), "/judges/1", "one vote"),
        (
            jury(json!(["judge-a:m1", "judge-b", "judge-a"])),
            "/judges/2",
            "is \"judge-a:m1\" by another name (judge-a:m1): each judge has one vote",
        ),
        (
            jury(json!(["judge-a", "nobody"])),
            "/judges/1",
            "unknown judge",
        ),
        (json!({"judges": two}), "/judges", "omit it"),
        (json!({"sample": {"size": 0}}), "/sample/size", "1-100000"),
    ]
}

#[tokio::test]
async fn invalid_requests_name_the_field_and_the_remedy() {
    let server = Server::with(Setup::default()).await;
    let unpriced = server.other_criteria().await;
    for (body, pointer, says) in bad_filters().into_iter().chain(bad_options(&unpriced)) {
        for dry_run in [true, false] {
            let mut body = body.clone();
            body["dry_run"] = json!(dry_run);
            let refused = server.rescore(&body).await;
            let problem = problem_of(refused, 422, "invalid-request").await;
            assert_eq!(pointers(&problem), [pointer], "{body}: {problem:#}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(says), "{body}: {detail}");
        }
    }
    assert_eq!(server.batches().await, 0);
}

#[tokio::test]
async fn budget_is_changed_and_its_limits_are_reported() {
    let server = Server::with(Setup::default()).await;
    server.session().await;
    let made = json_of(server.rescore(&json!({"budget_usd": 2.5})).await, 202).await;
    assert_eq!(
        (&made["budget_usd"], &made["spent_usd"]),
        (&json!(2.5), &json!(0.0))
    );
    let path = made["links"]["budget"].as_str().unwrap();
    for (body, budget) in [
        (json!({"budget_usd": 12.5}), json!(12.5)),
        (json!({"budget_usd": null}), json!(null)),
    ] {
        let changed = server.post(path).json(&body).send().await.unwrap();
        assert_eq!(json_of(changed, 200).await["budget_usd"], budget);
    }
    for body in [json!({"budget_usd": -1}), json!({"budget_usd": "much"})] {
        let refused = server.post(path).json(&body).send().await.unwrap();
        let problem = problem_of(refused, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), ["/budget_usd"], "{body}");
    }
    let refused = server.post(path).json(&json!({})).send().await.unwrap();
    problem_of(refused, 422, "invalid-request").await;
    // The only judge of these criteria has no price.
    let other = server.other_criteria().await;
    server.session().await;
    let made = json_of(server.rescore(&json!({"criteria_hash": other})).await, 202).await;
    let path = made["links"]["budget"].as_str().unwrap();
    let refused = server
        .post(path)
        .json(&json!({"budget_usd": 1}))
        .send()
        .await
        .unwrap();
    let problem = problem_of(refused, 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/budget_usd"]);
    let nowhere = format!("/api/v1/batches/{}/budget", Uuid::now_v7());
    let sent = server.post(&nowhere).json(&json!({"budget_usd": 1}));
    problem_of(sent.send().await.unwrap(), 404, "batch-not-found").await;
}

#[tokio::test]
async fn batch_of_given_items_accepts_a_budget() {
    let server = Server::with(Setup::default()).await;
    let item = json!({"id": "q1", "generated_kql": "T | take 1", "expected_kql": "T | take 1"});
    let body = json!({"kind": "query", "budget_usd": 5, "items": [item]});
    let made = server.batch_of(&body).await;
    assert_eq!(
        (&made["budget_usd"], &made["expanded"]),
        (&json!(5.0), &json!(true))
    );
    assert_eq!(made["purpose"], "score");
    assert!(made["criteria_hash"].as_str().unwrap().len() == 64);
}

#[tokio::test]
async fn failed_filter_selects_by_newest_job_despite_older_score() {
    for db in crate::support::stores().await {
        let server = Server::over(db).await;
        server.scored(70).await;
        let (session, _) = server.scored(80).await;
        let again = json_of(server.force(session).await, 202).await;
        server.fail(job_id(&again)).await;
        let failed = json!({"filter": {"scored": "failed"}});
        let plan = server.plan(failed.clone()).await;
        assert_eq!(
            (&plan["matching"], &plan["to_score"]),
            (&json!(1), &json!(1)),
            "{plan:#}"
        );
        let made = json_of(server.rescore(&failed).await, 202).await;
        assert_eq!(made["counts"]["total"], 1, "{made:#}");
        // Without that filter the session has its score.
        let plan = server.plan(json!({})).await;
        assert_eq!(plan["skipped"]["already_current"], 2, "{plan:#}");
    }
}

#[tokio::test]
async fn preview_counts_sessions_without_a_comparable_score() {
    for db in crate::support::stores().await {
        let server = Server::over(db).await;
        let other = server.other_criteria().await;
        server.scored(70).await;
        server.session().await;
        let busy = server.session().await;
        server.queued(busy).await;
        server.session_with(json!({"status": "in_progress"})).await;
        let warned = async |more: Value| {
            let mut body = json!({"purpose": "preview", "criteria_hash": other});
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            let plan = server.plan(body).await;
            let warnings = plan["warnings"].as_array().unwrap().clone();
            let warnings = warnings
                .iter()
                .map(|said| said.as_str().unwrap().to_owned());
            warnings
                .filter(|said| said.contains("by the current criteria"))
                .collect::<Vec<_>>()
        };
        let said = warned(json!({})).await;
        assert!(said[0].starts_with("2 of the 3 sessions"), "{said:?}");
        assert!(said[0].contains("--scored-with current"), "{said:?}");
        let sampled = warned(json!({"sample": {"size": 50}})).await;
        assert_eq!(sampled, said);
        let first = warned(json!({"filter": {"ids": [busy]}})).await;
        assert!(first[0].starts_with("1 of the 1"), "{first:?}");
        let none: [String; 0] = [];
        assert_eq!(
            warned(json!({"filter": {"criteria": "current"}})).await,
            none
        );
        assert_eq!(warned(json!({"purpose": "score"})).await, none);
        assert_eq!(warned(json!({"criteria_hash": "current"})).await, none);
        let nothing = json!({"sample": {"size": 5}, "filter": {"q": "nothing-of-this-name"}});
        assert_eq!(warned(nothing).await, none);
    }
}
