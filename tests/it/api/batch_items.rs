//! Items of a batch: order, filter by state, one full item, and comparison of two batches.

use super::*;
use crate::support::stores;
use gavel::wire::ItemOutcome;

fn case(id: &str) -> Value {
    json!({"id": id, "prompt": format!("Errors of {id}?"), "generated_kql": "T | count", "expected_kql": "T | take 1",
        "generated_results": [{"Count": 1}]})
}

impl Server {
    /// Starts a batch of queries with these names; returns its id and its jobs in order.
    pub(super) async fn cases(&self, names: &[&str]) -> (Uuid, Vec<JobId>) {
        let items: Vec<Value> = names.iter().map(|name| case(name)).collect();
        let body = json!({"kind": "query", "name": "nightly", "items": items});
        self.begun(&body).await
    }

    /// Creates a batch from a body; returns its id and its jobs in order.
    pub(super) async fn begun(&self, body: &Value) -> (Uuid, Vec<JobId>) {
        let id = crate::support::client::id_of(&self.batch_of(body).await["batch_id"]);
        let path = format!("/api/v1/jobs?batch_id={id}&limit=500");
        let jobs = self.json_of(&path).await;
        // The list is sorted newest first.
        let jobs = jobs["items"].as_array().unwrap().iter().rev();
        (id, jobs.map(job_id).collect())
    }

    pub(super) async fn score_case(&self, id: JobId, total: f64) {
        let job = self.claim(id).await;
        let result = json!({ "total_score": total, "threshold": 0.9, "components": {
            "schema_match": { "score": 1.0, "weight": 0.25, "details": { "matched": ["Count"], "missing": [], "extra": [] } },
            "llm_grading": { "score": total, "weight": 0.25, "details": { "reasoning": "It **counts** <script>alert(1)</script>." } } } });
        self.evaluated(&job, evaluation(&job, Some(total)), result)
            .await;
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn items_are_paged_in_order_and_filtered_by_state() {
    for db in stores().await {
        let server = Server::over(db).await;
        let all: Vec<String> = (0..25).map(|n| format!("q{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (id, jobs) = server.cases(&all).await;
        for (at, job) in jobs.iter().enumerate().take(12) {
            let total = if at % 2 == 0 { 1.0 } else { 0.5 };
            server.score_case(*job, total).await;
        }
        server.fail(jobs[12]).await;
        server
            .store()
            .jobs()
            .cancel(jobs[13], SystemClock.now())
            .await
            .unwrap();
        let path = format!("/api/v1/batches/{id}/items");
        let list = server.json_of(&path).await;
        assert_eq!(names(&list), all);
        assert_eq!(list["next_cursor"], Value::Null);
        let of = async |outcome: &str| server.json_of(&format!("{path}?outcome={outcome}")).await;
        assert_eq!(
            names(&of("passed").await),
            ["q0", "q2", "q4", "q6", "q8", "q10"]
        );
        assert_eq!(
            names(&of("missed").await),
            ["q1", "q3", "q5", "q7", "q9", "q11"]
        );
        assert_eq!(names(&of("unscored").await), ["q12"]);
        assert_eq!(names(&of("cancelled").await), ["q13"]);
        assert_eq!(names(&of("scored").await), [""; 0]);
        let open = of("open").await;
        assert_eq!(names(&open), all[14..]);
        assert_eq!(open["items"][0]["lines"], json!([]));
        for outcome in ItemOutcome::ALL {
            let list = of(outcome.as_str()).await;
            let items = list["items"].as_array().unwrap();
            assert!(items.iter().all(|item| item["outcome"] == outcome.as_str()));
        }
        let page = server
            .json_of(&format!("{path}?outcome=missed&limit=4"))
            .await;
        assert_eq!(names(&page), ["q1", "q3", "q5", "q7"]);
        let cursor = page["next_cursor"].as_str().unwrap();
        let rest = server
            .json_of(&format!("{path}?outcome=missed&limit=4&cursor={cursor}"))
            .await;
        assert_eq!(names(&rest), ["q9", "q11"]);
        assert_eq!(rest["next_cursor"], Value::Null);
        let missed = &page["items"][0];
        assert_eq!(missed["lines"][0], "Query: T | count");
        assert_eq!(missed["lines"][1], "Query executed (results: 1)");
        assert_eq!(missed["lines"][2], "Score: 50% (FAIL <90%)");
        assert_eq!(missed["job"]["result"], Value::Null);
    }
}

#[tokio::test]
async fn item_is_returned_with_its_payload_and_result() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (id, jobs) = server.cases(&["a", "b"]).await;
        server.score_case(jobs[1], 0.5).await;
        let path = format!("/api/v1/batches/{id}/items");
        let item = server.json_of(&format!("{path}/1")).await;
        assert_eq!(
            (&item["outcome"], &item["total"]),
            (&json!("missed"), &json!(0.5))
        );
        assert_eq!(item["payload"]["generated_kql"], "T | count");
        assert_eq!(item["job"]["result"]["threshold"], 0.9);
        assert_eq!(item["parts"][0]["title"], "Schema");
        let unknown = server.get(&format!("{path}/2")).send().await.unwrap();
        problem_of(unknown, 404, "batch-item-not-found").await;
        let gone = server.get(&format!("/api/v1/batches/{}/items", Uuid::now_v7()));
        problem_of(gone.send().await.unwrap(), 404, "batch-not-found").await;
        for bad in ["/x", "/-1", "?cursor=1", "?outcome=good", "?limit=0"] {
            let bad = server.get(&format!("{path}{bad}")).send().await.unwrap();
            problem_of(bad, 422, "invalid-request").await;
        }
    }
}

#[tokio::test]
async fn session_items_have_their_scores() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let body = json!({"kind": "session", "items": [{"session_id": session}]});
        let (id, jobs) = server.begun(&body).await;
        server.succeed(jobs[0], 72).await;
        let list = server
            .json_of(&format!("/api/v1/batches/{id}/items?outcome=scored"))
            .await;
        assert_eq!(names(&list), [session.to_string()]);
        assert_eq!(list["items"][0]["job"]["result"]["total_score"], 72);
    }
}

#[tokio::test]
async fn two_batches_are_compared_by_item_name() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (a, before) = server.cases(&["same", "broke", "mended", "gone"]).await;
        let (b, after) = server.cases(&["mended", "broke", "same", "new"]).await;
        for (job, total) in before.iter().zip([1.0, 1.0, 0.5, 1.0]) {
            server.score_case(*job, total).await;
        }
        for (job, total) in after.iter().zip([1.0, 0.25, 1.0]) {
            server.score_case(*job, total).await;
        }
        let path = "/api/v1/batches/compare";
        let found = server.json_of(&format!("{path}?a={a}&b={b}")).await;
        assert_eq!(
            found["pass_to_fail"],
            json!({"count": 1, "items": [{"id": "broke", "a": 1.0, "b": 0.25, "item_a": 1, "item_b": 1}]})
        );
        assert_eq!(found["fail_to_pass"]["items"][0]["item_b"], 0);
        assert_eq!(
            (&found["n"], &found["only_a"], &found["only_b"]),
            (&json!(3), &json!(1), &json!(0))
        );
        assert_eq!(found["parts"][1]["title"], "LLM");
        assert!(
            found["warnings"][0]
                .as_str()
                .unwrap()
                .starts_with("not ended yet: 1 item")
        );
        let unknown = server.get(&format!("{path}?a={a}&b={}", Uuid::now_v7()));
        problem_of(unknown.send().await.unwrap(), 404, "batch-not-found").await;
        let missing = server.get(&format!("{path}?a={a}")).send().await.unwrap();
        assert_eq!(
            pointers(&problem_of(missing, 422, "invalid-request").await),
            ["/b"]
        );
    }
}
