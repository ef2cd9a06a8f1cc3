//! Exports of sessions with their scores. An export that breaks off must be recognisable as incomplete.

use axum::body::Bytes;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

use super::analytics::DAY;
use super::*;
use crate::support::stores;

#[tokio::test]
async fn invalid_session_filter_is_named() {
    let server = Server::with(Setup::default()).await;
    for (query, pointer) in [("min_score=101", "/min_score"), ("limit=0", "/limit")] {
        let asked = server.get(&format!("/api/v1/exports/training?{query}"));
        let problem = problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{query}");
    }
}

async fn exported(server: &Server, query: &str) -> Vec<Value> {
    let answer = server.get(&format!("/api/v1/exports/training?{query}"));
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.status(), OK);
    assert_eq!(
        header(&answer, "content-type").as_deref(),
        Some("application/x-ndjson")
    );
    let text = answer.text().await.unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn export_has_good_real_current_scores_with_sessions_in_order() {
    for db in stores().await {
        let server = Server::over(db).await;
        let mut good = Vec::new();
        // More than a page of scores.
        for n in 0..105_u8 {
            let total = if n % 2 == 0 { 85 + n % 16 } else { 84 };
            let id = server.scored_at(DAY, total, n == 4, &["logs"]).await;
            if total >= 85 && n != 4 {
                good.push(json!(id));
            }
        }
        let lines = exported(&server, "").await;
        let ids: Vec<Value> = lines
            .iter()
            .map(|line| line["session"]["session_id"].clone())
            .collect();
        assert_eq!(ids, good);
        assert!(lines.iter().all(|line| line["score"]["simulated"] == false));
        assert_eq!(exported(&server, "min_score=0").await.len(), 104);
        assert_eq!(exported(&server, "limit=3").await.len(), 3);
        assert!(
            exported(&server, "from=2026-01-03T00:00:00Z")
                .await
                .is_empty()
        );

        // A line's session can be PUT unchanged.
        let session = &lines[0]["session"];
        let path = format!(
            "/api/v1/sessions/{}",
            session["session_id"].as_str().unwrap()
        );
        let put = server.request(Method::PUT, &path).json(session);
        let put = json_of(put.send().await.unwrap(), 200).await;
        assert_eq!(put["outcome"], "unchanged", "{session:#}");
    }
}

#[tokio::test]
async fn interrupted_export_is_not_a_complete_response() {
    let server = Server::with(Setup::default()).await;
    // More than the connection buffers.
    let long = "x".repeat(1 << 20);
    for _ in 0..24 {
        let conversation = json!([{ "role": "user", "content": long }]);
        let session = server
            .session_with(json!({ "conversation": conversation }))
            .await;
        server.scored_as(session, 90, false, &[]).await;
    }
    let plain = server.get("/api/v1/exports/training");
    let plain = plain.header("accept-encoding", "identity");
    let mut answer = plain.send().await.unwrap();
    assert_eq!(answer.status(), OK);
    server.store().close().await;
    let ended = loop {
        match answer.chunk().await {
            Ok(Some(_)) => {}
            ended => break ended,
        }
    };
    assert!(ended.is_err(), "the body has no end");
    let refused = server.get("/api/v1/exports/training").send().await.unwrap();
    problem_of(refused, 503, "database-unavailable").await;
}

/// Rows of a Parquet file, cells as JSON: list cells are parsed, times are RFC 3339.
fn parquet_rows(file: Bytes) -> Vec<serde_json::Map<String, Value>> {
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let cell = |(name, field): (&String, &Field)| {
        let value = if let Field::Bool(flag) = field {
            json!(flag)
        } else if let Field::Long(whole) = field {
            json!(whole)
        } else if let Field::Double(number) = field {
            json!(number)
        } else if let Field::Str(text) = field {
            match text.starts_with(['[', '{']) {
                true => serde_json::from_str(text).unwrap(),
                false => json!(text),
            }
        } else if let Field::TimestampMicros(micros) = field {
            let at = chrono::DateTime::from_timestamp_micros(*micros).unwrap();
            json!(at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true))
        } else {
            assert_eq!(*field, Field::Null, "{name}");
            Value::Null
        };
        (name.clone(), value)
    };
    rows.map(|row| row.unwrap().get_column_iter().map(cell).collect())
        .collect()
}

#[tokio::test]
async fn parquet_export_has_the_rows_of_csv_under_the_same_filters() {
    for db in stores().await {
        let server = Server::over(db).await;
        for (n, total) in [40_u8, 60, 71, 90].into_iter().enumerate() {
            let agent = if n % 2 == 0 { "noc" } else { "soc" };
            let id = server
                .session_with(json!({"agent": agent, "tags": [format!("t{n}")], "started_at": "2026-01-02T03:04:05Z"}))
                .await;
            server.scored_as(id, total, false, &["logs"]).await;
        }
        for (query, expected) in [
            ("", 4),
            ("&agent=noc", 2),
            ("&agent=noc&max_score=50", 1),
            ("&tag=t3", 1),
            ("&rating=adequate&missing_tool=Logs", 2),
            ("&min_score=60&limit=2", 2),
            ("&alert_type=no-such", 0),
        ] {
            let asked = |format: &str| {
                let path = format!("/api/v1/exports/scores?format={format}{query}");
                server.get(&path).send()
            };
            let table = asked("parquet").await.unwrap();
            assert_eq!(
                header(&table, "content-type").as_deref(),
                Some("application/vnd.apache.parquet")
            );
            let rows = parquet_rows(table.bytes().await.unwrap());
            assert_eq!(rows.len(), expected, "{query}");
            let text = asked("csv").await.unwrap().text().await.unwrap();
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let heads = reader.headers().unwrap().clone();
            let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            assert_eq!(lines.len(), rows.len(), "{query}");
            for (row, line) in rows.iter().zip(&lines) {
                for (head, cell) in heads.iter().zip(line) {
                    let said = match &row[head] {
                        Value::Null => String::new(),
                        Value::String(text) => text.clone(),
                        Value::Number(n) if n.is_f64() => n.as_f64().unwrap().to_string(),
                        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                            row[head].to_string()
                        }
                    };
                    assert_eq!(said, cell, "{head}");
                }
                assert!(row["total_score"].is_i64() && row["is_current_criteria"].is_boolean());
                assert_eq!(row["started_at"], "2026-01-02T03:04:05Z");
            }
        }
    }
}

#[tokio::test]
async fn current_scores_are_exported_as_csv() {
    for db in stores().await {
        let server = Server::over(db).await;
        let bad = json!({"agent": "=cmd()", "external_id": "run, \"1\"", "tags": ["a", "b"]});
        let id = server.session_with(bad).await;
        server.scored_as(id, 71, false, &[]).await;
        for total in [40, 90] {
            server.scored_at(DAY, total, false, &["logs"]).await;
        }
        server.scored_at(DAY, 95, true, &[]).await;
        let table = server
            .get("/api/v1/exports/scores?min_score=50")
            .send()
            .await
            .unwrap();
        assert_eq!(
            header(&table, "content-type").as_deref(),
            Some("text/csv; charset=utf-8")
        );
        let text = table.text().await.unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let heads = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(
            rows.len(),
            2,
            "neither a low one nor a simulated one: {text}"
        );
        let cell = |row: &csv::StringRecord, name: &str| {
            let at = heads.iter().position(|head| head == name).unwrap();
            row[at].to_owned()
        };
        let own = rows
            .iter()
            .find(|row| cell(row, "session_id") == id.to_string())
            .unwrap();
        assert_eq!(cell(own, "external_id"), "run, \"1\"");
        assert_eq!(cell(own, "agent"), "'=cmd()");
        assert_eq!(
            (cell(own, "total_score"), cell(own, "rating")),
            ("71".to_owned(), "adequate".to_owned())
        );
        assert_eq!(cell(own, "tags"), "[\"a\",\"b\"]");
        let other = rows
            .iter()
            .find(|row| cell(row, "session_id") != id.to_string())
            .unwrap();
        assert_eq!(cell(other, "missing_tools"), "[\"logs\"]");
    }
}
