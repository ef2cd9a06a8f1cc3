use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::support::stores;

/// Returns each id of a list, page by page, and the sizes of the pages.
async fn walk(server: &Server, path: &str, id: &str) -> (Vec<String>, Vec<usize>) {
    let (mut ids, mut pages, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = server.json_of(&format!("{path}{cursor}")).await;
        let items = page["items"].as_array().unwrap();
        pages.push(items.len());
        ids.extend(
            items
                .iter()
                .map(|item| item[id].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (ids, pages),
        }
    }
}

#[tokio::test]
async fn cursor_visits_each_row_once() {
    for db in stores().await {
        let server = Server::over(db).await;
        for _ in 0..120 {
            let session = server.session().await;
            server.bulk(session).await;
        }
        for (list, id) in [("sessions", "session_id"), ("jobs", "job_id")] {
            let (ids, pages) = walk(&server, &format!("/api/v1/{list}?limit=50"), id).await;
            assert_eq!(pages, [50, 50, 20], "{list}");
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 120, "{list}");
            let default = server.json_of(&format!("/api/v1/{list}")).await;
            assert_eq!(default["items"].as_array().unwrap().len(), 50, "{list}");
        }
    }
}

#[tokio::test]
async fn sessions_are_filtered_by_each_parameter() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (good, _) = server.scored(80).await;
        let (weak, _) = server.scored(50).await;
        let other = server.session_with(json!({
            "status": "failed", "agent": "node-agent", "alert_type": "NodeDown", "tags": ["dev", "gpu"],
            "started_at": "2026-03-01T00:00:00Z", "completed_at": "2026-03-01T01:00:00Z",
        })).await;
        let running = server.session().await;
        server.queued(running).await;
        let (failed, job) = server.queued_session().await;
        server.fail(job).await;
        let hash = server.enqueue.current_criteria().hash.0.clone();
        let all = vec![good, weak, other, running, failed];
        let cases = [
            (String::new(), all.clone()),
            ("q=node".to_owned(), vec![other]),
            (format!("q={}", good.to_string().to_uppercase()), vec![good]),
            ("status=failed".to_owned(), vec![other]),
            ("scored=yes".to_owned(), vec![good, weak]),
            ("scored=no".to_owned(), vec![other, running, failed]),
            ("scored=running".to_owned(), vec![running]),
            ("scored=failed".to_owned(), vec![failed]),
            ("rating=good".to_owned(), vec![good]),
            ("min_score=51".to_owned(), vec![good]),
            ("max_score=50".to_owned(), vec![weak]),
            ("criteria=current".to_owned(), vec![good, weak]),
            ("criteria=not_current".to_owned(), vec![]),
            (
                "criteria=any".to_owned(),
                vec![good, weak, other, running, failed],
            ),
            ("criteria_not=current".to_owned(), vec![]),
            (format!("criteria_not={}", "0".repeat(64)), vec![good, weak]),
            ("from=2026-02-01".to_owned(), vec![other]),
            (format!("criteria={hash}"), vec![good, weak]),
            (format!("criteria={}", &hash[..8]), vec![good, weak]),
            (format!("criteria={}", "0".repeat(64)), vec![]),
            ("tag=gpu".to_owned(), vec![other]),
            ("agent=node-agent".to_owned(), vec![other]),
            ("alert_type=NodeDown".to_owned(), vec![other]),
            ("from=2026-02-01T00:00:00Z".to_owned(), vec![other]),
            (
                "to=2026-02-01T00:00:00Z&tag=prod".to_owned(),
                vec![good, weak, running, failed],
            ),
            (format!("ids={good},{other}"), vec![good, other]),
            ("q=&status=".to_owned(), all),
        ];
        for (query, expected) in cases {
            let page = server.json_of(&format!("/api/v1/sessions?{query}")).await;
            let ids: BTreeSet<String> = page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["session_id"].as_str().unwrap().to_owned())
                .collect();
            let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
            assert_eq!(ids, expected, "{query}");
        }
        let other_criteria = Criteria::from_value(&criteria("judge-b", "Otherwise.")).unwrap();
        server
            .enqueue
            .set_current_criteria(Arc::new(other_criteria));
        let outdated = server
            .json_of("/api/v1/sessions?criteria=not_current")
            .await;
        assert_eq!(outdated["items"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn sessions_are_sorted_by_score_across_pages() {
    for db in stores().await {
        let server = Server::over(db).await;
        let mut by_total = Vec::new();
        for total in [80, 20, 95, 50, 20] {
            by_total.push((total, server.scored(total).await.0.to_string()));
        }
        server.session().await;
        by_total.sort();
        let listed = async |query: &str| {
            let (mut totals, mut cursor) = (Vec::new(), String::new());
            loop {
                let path = format!("/api/v1/sessions?{query}&limit=2&cursor={cursor}");
                let page = server.json_of(&path).await;
                for item in page["items"].as_array().unwrap() {
                    let id = item["session_id"].as_str().unwrap().to_owned();
                    totals.push((item["score"]["total_score"].as_u64().unwrap(), id));
                }
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = next.to_owned(),
                    None => return totals,
                }
            }
        };
        let lowest: Vec<(u64, String)> = by_total
            .into_iter()
            .map(|(total, id)| (u64::from(total), id))
            .collect();
        assert_eq!(listed("sort=lowest_score").await, lowest);
        let highest: Vec<_> = lowest.iter().rev().cloned().collect();
        assert_eq!(listed("sort=highest_score").await, highest);
        assert_eq!(listed("sort=lowest_score&min_score=60").await, lowest[3..]);

        // A cursor is only valid for its sort order.
        let page = server.json_of("/api/v1/sessions?sort=lowest_score&limit=2");
        let cursor = page.await["next_cursor"].as_str().unwrap().to_owned();
        for path in [
            format!("/api/v1/sessions?cursor={cursor}"),
            format!("/api/v1/sessions?sort=highest_score&cursor={cursor}"),
        ] {
            let refused = server.get(&path).send().await.unwrap();
            assert_eq!(refused.status(), 422, "{path}");
        }
        let refused = server.get("/api/v1/sessions?sort=best").send().await;
        let problem = json_of(refused.unwrap(), 422).await;
        assert_eq!(problem["errors"][0]["pointer"], "/sort", "{problem}");
    }
}

#[tokio::test]
async fn session_row_shows_the_score_and_the_active_job() {
    let server = Server::with(Setup::default()).await;
    let (session, score_id) = server.scored(80).await;
    let job = job_id(&json_of(server.force(session).await, 202).await);
    let page = server.json_of("/api/v1/sessions").await;
    let item = &page["items"][0];
    assert_eq!(item["score"]["score_id"], json!(score_id));
    assert_eq!(item["score"]["rating"], "good");
    assert_eq!(item["score"]["is_current_criteria"], true);
    assert_eq!(item["active_job"]["job_id"], json!(job));
    assert_eq!(item["links"]["score"], score_path(session));
    assert_eq!(item["failed"], Value::Null);
    assert!(item.get("conversation").is_none());
    server.fail(job).await;
    let page = server.json_of("/api/v1/sessions").await;
    let item = &page["items"][0];
    assert_eq!(item["failed"], "unparsable");
    assert_eq!(item["score"]["score_id"], json!(score_id), "it stays");
}

#[tokio::test]
async fn jobs_are_filtered_by_each_parameter() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (first, queued) = server.queued_session().await;
        let (_, failed) = server.queued_session().await;
        server.fail(failed).await;
        for (query, expected) in [
            ("state=failed".to_owned(), vec![failed]),
            ("state=queued".to_owned(), vec![queued]),
            ("kind=session".to_owned(), vec![failed, queued]),
            ("judge=judge-a".to_owned(), vec![failed, queued]),
            ("judge=judge-b".to_owned(), vec![]),
            (format!("session_id={first}"), vec![queued]),
        ] {
            let page = server.json_of(&format!("/api/v1/jobs?{query}")).await;
            let ids: Vec<JobId> = page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(job_id)
                .collect();
            assert_eq!(ids, expected, "{query}");
        }
    }
}
