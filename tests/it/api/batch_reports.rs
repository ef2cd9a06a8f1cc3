//! Batch reports: they cover the ended items, in all formats.

use gavel::job::BatchPlace;
use gavel::report::Format;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::*;
use crate::support::stores;

struct Batch<'a> {
    server: &'a Server,
    id: Uuid,
}

impl<'a> Batch<'a> {
    async fn of(server: &'a Server, kind: Kind) -> Self {
        let new = crate::support::new_batch(kind, SystemClock.now());
        server.store().batches().begin(&new).await.unwrap();
        server.store().batches().start(new.batch_id).await.unwrap();
        let id = new.batch_id;
        Self { server, id }
    }

    /// Inserts an item, as batch creation does.
    async fn item(&self, item_no: i64) -> JobId {
        let payload = json!({
            "id": format!("q-{item_no}"), "prompt": "Errors?", "generated_kql": "=T | count", "expected_kql": "T | count",
        });
        let options = crate::support::in_bulk("batch");
        let job = NewJob {
            judge: Some("judge-a".to_owned()),
            criteria_hash: self.server.enqueue.current_criteria().hash.0.clone(),
            batch: Some(BatchPlace {
                batch_id: self.id,
                item_no,
            }),
            ..NewJob::new(Kind::Query, payload, options, SystemClock.now())
        };
        let id = job.job_id;
        assert_eq!(
            self.server.store().jobs().accept(job).await.unwrap(),
            Accepted::New
        );
        id
    }

    /// Ends an item with a total; `None` is a judge failure.
    async fn end(&self, id: JobId, total: Option<f64>) {
        let job = self.server.claim(id).await;
        let result = json!({ "total_score": total, "threshold": 0.9, "components": {
            "schema_match": { "score": 1.0 },
            "llm_grading": { "score": total, "details": { "reasoning": "It counts." } },
        }});
        let failure = Failure {
            class: FailureClass::Transient,
            message: "the judge did not answer".to_owned(),
        };
        self.server
            .record(
                &job,
                Ending::Evaluated {
                    score: Box::new(evaluation(&job, total)),
                    result,
                    failure: total.is_none().then_some(failure),
                },
            )
            .await;
    }

    async fn get(&self, file: &str) -> Response {
        let path = format!("/api/v1/batches/{}/{file}", self.id);
        self.server.get(&path).send().await.unwrap()
    }
}

/// Batch with five items: passed, missed, judge failure, cancelled and not ended.
async fn five(server: &Server) -> Batch<'_> {
    let batch = Batch::of(server, Kind::Query).await;
    let mut jobs = Vec::new();
    // Inserted out of order: reports must sort them.
    for item_no in [3, 4, 0, 2, 1] {
        jobs.push((item_no, batch.item(item_no).await));
    }
    jobs.sort_unstable();
    for (at, total) in [(0, Some(0.95)), (1, Some(0.2)), (2, None)] {
        batch.end(jobs[at].1, total).await;
    }
    let now = SystemClock.now();
    server.store().jobs().cancel(jobs[3].1, now).await.unwrap();
    batch
}

#[tokio::test]
async fn report_lists_ended_items_in_order_and_counts_the_rest() {
    for db in stores().await {
        let server = Server::over(db).await;
        let batch = five(&server).await;
        let body = json_of(batch.get("report.json").await, 200).await;
        let of = |name: &str| -> Vec<Value> {
            let items = body["items"].as_array().unwrap();
            items.iter().map(|item| item[name].clone()).collect()
        };
        assert_eq!(of("Item No"), [0, 1, 2, 3]);
        let status = ["PASS", "FAIL", "INCOMPLETE", "INCOMPLETE"];
        assert_eq!(of("Score Status"), status);
        assert_eq!(
            of("Error Class"),
            [
                Value::Null,
                Value::Null,
                json!("transient"),
                json!("cancelled")
            ]
        );
        assert_eq!(
            of("Schema Match Score")[2],
            1.0,
            "what was computed is there"
        );
        assert_eq!(of("Total Score")[2], Value::Null);
        let summary = &body["summary"];
        assert_eq!(
            (&summary["n"], &summary["unfinished"]),
            (&json!(4), &json!(1))
        );
        assert_eq!(summary["verdict"], "incomplete");
        assert_eq!(summary["judge_errors"], 1);
        assert_eq!(summary["mean"], 0.575);
        assert_eq!(summary["usage"]["tokens_in"], 3_600);
    }
}

#[tokio::test]
async fn rows_are_filtered_by_outcome_but_sums_cover_all() {
    for db in stores().await {
        let server = Server::over(db).await;
        let batch = five(&server).await;
        for (outcome, expected) in [("passed", vec![0]), ("missed", vec![1]), ("open", vec![])] {
            let file = batch
                .get(&format!("report.parquet?outcome={outcome}"))
                .await;
            let reader = SerializedFileReader::new(file.bytes().await.unwrap()).unwrap();
            let rows = reader.get_row_iter(None).unwrap();
            let numbers: Vec<String> = rows
                .map(|row| row.unwrap().get_column_iter().next().unwrap().1.to_string())
                .collect();
            let csv = batch.get(&format!("report.csv?outcome={outcome}")).await;
            let csv = csv.text().await.unwrap();
            let mut csv = csv::Reader::from_reader(csv.as_bytes());
            let lines: Vec<String> = csv
                .records()
                .map(|line| line.unwrap()[0].to_owned())
                .collect();
            assert_eq!(numbers, lines, "{outcome}");
            let expected: Vec<String> = expected.iter().map(i32::to_string).collect();
            assert_eq!(numbers, expected, "{outcome}");
        }
        let sums = batch.get("report.json?outcome=missed").await;
        let problem = problem_of(sums, 422, "invalid-request").await;
        assert_eq!(problem["errors"][0]["pointer"], "/outcome");
    }
}

#[tokio::test]
async fn each_format_is_complete_under_its_file_name() {
    let server = Server::with(Setup::default()).await;
    let batch = five(&server).await;
    for format in Format::ALL {
        let answer = batch.get(&format!("report.{format}")).await;
        assert_eq!(answer.status(), 200, "{format}");
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), format.media_type());
        assert_eq!(
            header("content-disposition"),
            format!(
                "attachment; filename=\"batch-{}-report.{format}\"",
                batch.id
            )
        );
        let bytes = answer.bytes().await.unwrap();
        let (begins, holds): (&[u8], &str) = match format {
            Format::Json => (b"{\"name\":", "\"summary\":"),
            Format::Jsonl => (b"{\"id\":\"q-0\"", "\"item_no\":3"),
            Format::Csv => (b"Item No,ID,", "'=T | count"),
            Format::Xlsx => (b"PK", ""),
            Format::Parquet => (b"PAR1", "=T | count"),
            Format::Junit => (b"<?xml", "</testsuites>"),
            Format::Markdown => (b"# Batch ", "## Missed or not executed (2)"),
        };
        assert!(bytes.starts_with(begins), "{format}");
        assert!(String::from_utf8_lossy(&bytes).contains(holds), "{format}");
    }
}

#[tokio::test]
async fn report_of_many_pages_is_complete() {
    for db in stores().await {
        let server = Server::over(db).await;
        let batch = Batch::of(&server, Kind::Query).await;
        let now = SystemClock.now();
        for item_no in 0..60 {
            let job = batch.item(item_no).await;
            server.store().jobs().cancel(job, now).await.unwrap();
        }
        let text = batch.get("report.jsonl").await.text().await.unwrap();
        let numbers: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["gavel"]["item_no"].clone())
            .collect();
        assert_eq!(numbers, (0..60).map(Value::from).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn session_report_shows_score_of_100_and_reasoning() {
    for db in stores().await {
        let server = Server::over(db).await;
        let batch_id = Batch::of(&server, Kind::Session).await.id;
        let session = server.session().await;
        let job = NewJob {
            batch: Some(BatchPlace {
                batch_id,
                item_no: 0,
            }),
            ..server.new_bulk(session)
        };
        let id = job.job_id;
        assert_eq!(
            server.store().jobs().accept(job).await.unwrap(),
            Accepted::New
        );
        server.succeed(id, 72).await;
        let path = format!("/api/v1/batches/{batch_id}/report.json");
        let body = server.json_of(&path).await;
        let item = &body["items"][0];
        assert_eq!(item["Session ID"], session.to_string());
        assert_eq!(item["Session Score"], 72.0);
        assert_eq!(item["Score Status"], "SCORED");
        assert_eq!(item["LLM Reasoning"], "It stopped early.");
        assert_eq!(item["Judge"], "judge-a");
        assert_eq!(body["summary"]["verdict"], "passed");
        assert_eq!(body["summary"]["mean"], Value::Null);
    }
}

#[tokio::test]
async fn unknown_batch_or_format_is_404() {
    let server = Server::with(Setup::default()).await;
    let batch = five(&server).await;
    let unknown = Batch {
        server: &server,
        id: Uuid::now_v7(),
    };
    problem_of(unknown.get("report.csv").await, 404, "batch-not-found").await;
    for file in ["report.pdf", "report", "report.junit", "summary.md"] {
        problem_of(batch.get(file).await, 404, "not-found").await;
    }
    let bad = batch.get("report.csv?allow_simulated=maybe").await;
    problem_of(bad, 422, "invalid-request").await;
    let bad = server.get("/api/v1/batches/7/report.csv").send().await;
    problem_of(bad.unwrap(), 422, "invalid-request").await;
}
