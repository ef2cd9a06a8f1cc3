//! Tests common to all report formats, with items of every kind.

use std::io::Cursor;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::{Field, Row};
use calamine::{Data, Reader as _, Xlsx};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::source::tests::any_item;
use super::*;
use crate::job::{Kind, Usage};

fn meta() -> Meta {
    Meta {
        name: "A suite & its <name>".to_owned(),
        run: Some("run-1".to_owned()),
        made_at: DateTime::UNIX_EPOCH,
        unfinished: 0,
        simulated: Simulated::Refused,
        judging: Judging::Asked,
        criteria_hash: None,
    }
}

fn written(format: Format, items: &[Item]) -> Vec<u8> {
    written_as(format, items, &meta())
}

fn written_as(format: Format, items: &[Item], meta: &Meta) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write(format, items, meta, &mut out).unwrap();
    out.into_inner()
}

fn text(format: Format, items: &[Item]) -> String {
    String::from_utf8(written(format, items)).unwrap()
}

fn csv_rows(bytes: &[u8]) -> Vec<Vec<String>> {
    ::csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(bytes)
        .records()
        .map(|record| record.unwrap().iter().map(str::to_owned).collect())
        .collect()
}

fn sheet_rows(bytes: Vec<u8>, width: usize) -> Vec<Vec<String>> {
    let mut book: Xlsx<_> = calamine::open_workbook_from_rs(Cursor::new(bytes)).unwrap();
    assert_eq!(book.sheet_names(), ["Summary", "Results"]);
    let range = book.worksheet_range("Results").unwrap();
    let cell = |data: Option<&Data>| match data {
        None | Some(Data::Empty) => String::new(),
        Some(Data::Bool(flag)) => flag.to_string().to_uppercase(),
        Some(other) => other.to_string(),
    };
    (0..range.height() as u32)
        .map(|row| {
            (0..width as u32)
                .map(|column| cell(range.get_value((row, column))))
                .collect()
        })
        .collect()
}

fn query(item_no: u64, total: f64) -> Item {
    Item {
        item_no,
        kind: Kind::Query,
        id: Some(format!("q-{item_no}")),
        payload: json!({ "prompt": "Errors?", "generated_kql": "T | count", "expected_kql": "=T | count", "generated_results": [{ "n": 1 }] }),
        outcome: Outcome::Scored,
        total: Some(total),
        passed: Some(total >= 0.9),
        result: Some(
            json!({ "total_score": total, "threshold": 0.9, "components": {
                "schema_match": { "score": 1.0 }, "semantic_similarity": { "score": total }, "results_match": { "score": 0.5 },
                "llm_grading": { "score": 0.25, "details": { "reasoning": "It counts the wrong table." } },
            }}),
        ),
        error: None,
        simulated: false,
        usage: Usage {
            tokens_in: 10,
            tokens_out: 5,
            cost_usd: Some(0.001),
        },
        job_id: Some(Uuid::nil()),
    }
}

fn with_error(item: Item, outcome: Outcome, class: &str) -> Item {
    Item {
        outcome,
        total: None,
        passed: None,
        error: Some(ItemError {
            class: class.to_owned(),
            message: format!("what {class} means"),
        }),
        ..item
    }
}

/// Five items: passed, missed, judge failed, agent failed, simulated.
fn five() -> Vec<Item> {
    vec![
        query(0, 0.95),
        query(1, 0.4),
        with_error(query(2, 0.0), Outcome::Incomplete, "transient"),
        with_error(query(3, 0.0), Outcome::Failed, "agent"),
        Item {
            simulated: true,
            ..query(4, 1.0)
        },
    ]
}

#[test]
fn column_names_are_equal_in_json_csv_and_xlsx() {
    let items = five();
    let json: Value = serde_json::from_slice(&written(Format::Json, &items)).unwrap();
    let names: Vec<&String> = json["items"][0].as_object().unwrap().keys().collect();
    let csv = csv_rows(&written(Format::Csv, &items));
    let (result, columns) = names.split_last().unwrap();
    assert_eq!(*result, "Result");
    assert_eq!(columns, csv[0].iter().collect::<Vec<_>>());
    assert_eq!(
        sheet_rows(written(Format::Xlsx, &items), csv[0].len())[0],
        csv[0]
    );
    assert_eq!(json["items"][0]["Total Score"], 0.95);
    assert_eq!(
        json["items"][0]["LLM Reasoning"],
        "It counts the wrong table."
    );
    assert_eq!(json["items"][2]["Score Status"], "INCOMPLETE");
    assert_eq!(json["summary"]["n"], 5);
    assert_eq!(json["summary"]["verdict"], "incomplete");
    assert_eq!(json["name"], "A suite & its <name>");
}

#[test]
fn junit_separates_misses_errors_and_simulated_scores() {
    let xml = text(Format::Junit, &five());
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (5, 1, 2));
    let [suite] = &report.test_suites[..] else {
        panic!("{xml}");
    };
    assert_eq!((suite.name.as_str(), suite.tests), ("query", 5));
    assert_eq!(xml.matches("<failure ").count(), 1);
    assert_eq!(xml.matches("<error ").count(), 2);
    assert_eq!(xml.matches("<skipped ").count(), 1);
    assert!(
        xml.contains("<error message=\"what transient means\" type=\"transient\">"),
        "{xml}"
    );
    assert!(
        xml.contains("LLM: 0.25 It counts the wrong table."),
        "{xml}"
    );
    assert!(
        xml.contains("<property name=\"verdict\" value=\"INCOMPLETE\"/>"),
        "{xml}"
    );
    let allowed = Meta {
        simulated: Simulated::Allowed,
        ..meta()
    };
    let xml = String::from_utf8(written_as(Format::Junit, &five(), &allowed)).unwrap();
    assert_eq!(xml.matches("<skipped ").count(), 0);
}

#[test]
fn junit_has_one_suite_per_agent() {
    let of = |item_no: u64, agent: &str| Item {
        kind: Kind::Qas,
        payload: json!({ "question": "How many?", "agent_used": agent }),
        ..query(item_no, 1.0)
    };
    let xml = text(
        Format::Junit,
        &[of(0, "sql"), of(1, "docking"), of(2, "sql")],
    );
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    let suites: Vec<(&str, usize)> = report
        .test_suites
        .iter()
        .map(|suite| (suite.name.as_str(), suite.tests))
        .collect();
    assert_eq!(suites, [("qas: docking", 1), ("qas: sql", 2)]);
}

#[test]
fn markdown_separates_passes_misses_and_judge_errors() {
    let text = text(Format::Markdown, &five());
    let part = |from: &str, to: &str| {
        let begin = text.find(from).unwrap_or_else(|| panic!("{from}: {text}"));
        let end = text[begin..].find(to).map_or(text.len(), |at| begin + at);
        text[begin..end].to_owned()
    };
    let passed = part("## Passed (2)", "## Missed");
    assert!(passed.contains("| q-0 | Errors? | 0.95 |"), "{passed}");
    assert!(passed.contains("1 (simulated)"), "{passed}");
    let missed = part("## Missed or not executed (2)", "## Without");
    assert!(missed.contains("### q-1: 0.4"), "{missed}");
    assert!(missed.contains("It counts the wrong table."), "{missed}");
    assert!(
        missed.contains("### q-3: no score") && missed.contains("what agent means"),
        "{missed}"
    );
    let judge = part("## Without the judge's part (1)", "\u{0}");
    assert!(
        judge.contains("| q-2 | transient | what transient means |"),
        "{judge}"
    );
    assert!(text.contains("**INCOMPLETE: "), "{text}");
    assert!(
        text.contains("1 scores are from a simulated judge: they are counted separately"),
        "{text}"
    );
}

#[test]
fn truncated_markdown_counts_omitted_items() {
    let long = "The join is wrong. ".repeat(300);
    let missed = |item_no: u64| {
        let mut item = query(item_no, 0.1);
        item.result.as_mut().unwrap()["components"]["llm_grading"]["details"]["reasoning"] =
            long.clone().into();
        item
    };
    let items: Vec<Item> = (0..20_000)
        .map(|n| {
            if n % 10 == 0 {
                missed(n)
            } else {
                query(n, 1.0)
            }
        })
        .collect();
    let text = text(Format::Markdown, &items);
    assert!(text.len() <= 900_000, "{}", text.len());
    assert!(text.len() > 700_000, "{}", text.len());
    assert!(text.contains("## Missed or not executed (2000)"));
    let shown = text.matches("\n### q-").count();
    let left_out = format!("_{} more omitted for length", 2_000 - shown);
    assert!(shown > 50 && text.contains(&left_out), "{shown}");
    assert_eq!(text.matches("more omitted for length").count(), 2);
}

/// Returns a report from a run's folder, with gate results.
fn gated(file: &str, items: &[Item], gate_result: &GateResult) -> String {
    let (dir, meta) = (tempfile::tempdir().unwrap(), meta());
    let mut figures = sum_up(items, &meta).unwrap();
    figures.gate = Some(gate_result.clone());
    write_all(dir.path(), items, (&figures, &meta)).unwrap();
    std::fs::read_to_string(dir.path().join(file)).unwrap()
}

#[test]
fn gate_results_come_first_with_verdict() {
    let items = [query(0, 1.0), query(1, 0.4)];
    let passed = GateResult {
        decision: Verdict::Passed,
        reasons: Vec::new(),
    };
    let told = gated("summary.md", &items, &passed);
    let (gate, verdict) = (
        told.find("**PASSED: the gates of this run hold**"),
        told.find("Without gates: FAIL: every item was scored, and some missed"),
    );
    assert!(gate.is_some() && gate < verdict, "{told}");
    assert!(!told.contains("**FAIL"), "{told}");
    let json: Value = serde_json::from_str(&gated("report.json", &items, &passed)).unwrap();
    assert_eq!(json["summary"]["gate"]["decision"], "passed");
    assert_eq!(json["summary"]["verdict"], "failed");
    let xml = gated("junit.xml", &items, &passed);
    assert!(
        xml.contains("<property name=\"gate\" value=\"PASSED\"/>"),
        "{xml}"
    );
    let failed = GateResult {
        decision: Verdict::Failed,
        reasons: vec!["the pass rate is 0.5, below <b>".to_owned()],
    };
    let told = gated("summary.md", &items, &failed);
    assert!(
        told.contains("**FAILED: a gate of this run does not hold**\n\n- the pass rate is"),
        "{told}"
    );
    assert!(!told.contains("<b>"), "{told}");
}

#[test]
fn report_without_gates_states_that() {
    let told = text(Format::Markdown, &[query(0, 1.0)]);
    assert!(
        told.contains("**PASS: every item was scored, and passed**"),
        "{told}"
    );
    assert!(told.contains("The verdict ignores gates"), "{told}");
    let json: Value = serde_json::from_slice(&written(Format::Json, &[query(0, 1.0)])).unwrap();
    assert_eq!(json["summary"]["gate"], Value::Null);
    let xml = text(Format::Junit, &[query(0, 1.0)]);
    assert!(
        xml.contains("<property name=\"gate\" value=\"not known\"/>"),
        "{xml}"
    );
}

#[test]
fn report_without_judge_does_not_pass() {
    let meta = Meta {
        judging: Judging::NotRun,
        ..meta()
    };
    let items = [query(0, 1.0)];
    let text = |format| String::from_utf8(written_as(format, &items, &meta)).unwrap();
    let json: Value = serde_json::from_str(&text(Format::Json)).unwrap();
    assert_eq!(json["summary"]["verdict"], "incomplete");
    assert_eq!(json["judging"], "not_run");
    assert!(text(Format::Junit).contains("<property name=\"verdict\" value=\"INCOMPLETE\"/>"));
    let told = text(Format::Markdown);
    assert!(
        told.contains("**INCOMPLETE: ") && told.contains("No judge was used"),
        "{told}"
    );
}

#[test]
fn junit_separates_missing_score_from_its_reason() {
    let mut item = with_error(query(0, 0.0), Outcome::Incomplete, "wait_expired");
    let graded = &mut item.result.as_mut().unwrap()["components"]["llm_grading"];
    *graded =
        json!({ "score": null, "error": { "class": "not_run", "message": "no judge was asked" } });
    let xml = text(Format::Junit, &[item]);
    assert!(xml.contains("LLM: no score: no judge was asked"), "{xml}");
    assert!(xml.contains("type=\"wait_expired\""), "{xml}");
}

#[test]
fn uncomputed_parts_are_listed() {
    let item = Item {
        kind: Kind::SqlMetrics,
        total: None,
        passed: None,
        outcome: Outcome::Incomplete,
        result: Some(
            json!({ "missing": ["table_accuracy"], "parse_error": "Expected: a statement",
            "metrics": { "safety_validation": { "score": 1.0 }, "table_accuracy": { "score": 0.0,
                "error": { "message": "Expected: a statement" } } } }),
        ),
        ..query(0, 0.0)
    };
    let items = [item, query(1, 1.0)];
    let xml = text(Format::Junit, &items);
    assert!(
        xml.contains("<error message=\"missing: Tables\" type=\"incomplete\">"),
        "{xml}"
    );
    let told = text(Format::Markdown, &items);
    assert!(told.contains("## Missed or not executed (1)"), "{told}");
    let lines = live::lines(&items[0]);
    assert!(
        lines.contains(&"Score: none (INCOMPLETE, missing: Tables)".to_owned()),
        "{lines:?}"
    );
    let json: Value = serde_json::from_slice(&written(Format::Json, &items)).unwrap();
    let summary = &json["summary"];
    assert_eq!(
        (
            &summary["incomplete"],
            &summary["errors"]["incomplete"],
            &summary["mean"]
        ),
        (&json!(1), &json!(1), &json!(1.0))
    );
}

#[test]
fn unfinished_items_are_reported_and_prevent_pass() {
    let meta = Meta {
        unfinished: 7,
        ..meta()
    };
    let items = [query(0, 1.0)];
    let text = |format| String::from_utf8(written_as(format, &items, &meta)).unwrap();
    assert!(text(Format::Markdown).contains("7 items have not ended yet"));
    let json: Value = serde_json::from_str(&text(Format::Json)).unwrap();
    assert_eq!(json["summary"]["unfinished"], 7);
    assert_eq!(json["summary"]["verdict"], "incomplete");
    assert!(text(Format::Junit).contains("<property name=\"unfinished\" value=\"7\"/>"));
}

#[test]
fn empty_report_is_valid_in_every_format() {
    for format in Format::ALL {
        let bytes = written(format, &[]);
        assert_eq!(bytes.is_empty(), format == Format::Jsonl, "{format}");
    }
    let json: Value = serde_json::from_slice(&written(Format::Json, &[])).unwrap();
    assert_eq!(json["summary"]["verdict"], "nothing");
    assert_eq!(json["items"], json!([]));
}

struct Torn;

impl Source for Torn {
    fn each(
        &self,
        visit: &mut dyn FnMut(&Item) -> Result<(), ReportError>,
    ) -> Result<(), ReportError> {
        visit(&query(0, 1.0))?;
        Err(ReportError::writing("a test", "it breaks off"))
    }
}

fn parquet_rows(bytes: &[u8]) -> Vec<Row> {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(std::result::Result::unwrap).collect()
}

#[test]
fn parquet_has_typed_values_of_json() {
    let items = five();
    let rows = parquet_rows(&written(Format::Parquet, &items));
    let csv = csv_rows(&written(Format::Csv, &items));
    let json: Value = serde_json::from_slice(&written(Format::Json, &items)).unwrap();
    assert_eq!(rows.len(), items.len());
    for (row, item) in rows.iter().zip(json["items"].as_array().unwrap()) {
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(names, csv[0].iter().collect::<Vec<_>>());
        for (name, field) in row.get_column_iter() {
            let value = if let Field::Bool(flag) = field {
                json!(flag)
            } else if let Field::Long(whole) = field {
                json!(whole)
            } else if let Field::Double(number) = field {
                json!(number)
            } else if let Field::Str(text) = field {
                json!(text)
            } else {
                assert_eq!(*field, Field::Null, "{name}");
                Value::Null
            };
            let expected = match (&item[name], &value) {
                // A text column stores other values as JSON.
                (other, Value::String(_)) if !other.is_string() => json!(other.to_string()),
                (other, _) => other.clone(),
            };
            assert_eq!(value, expected, "{name}");
        }
    }
}

#[test]
fn parquet_writer_buffers_one_row_group() {
    let mut table = parquet::Table::new(Vec::new(), [("text", ColumnType::Text)]).unwrap();
    let (mut groups, mut file) = (0, Vec::new());
    for _ in 0..9 {
        if table.add(vec![json!("x".repeat(1 << 20))]).unwrap() {
            groups += 1;
            let piece = table.written().unwrap();
            assert!(!piece.is_empty());
            file.extend(piece);
        }
    }
    assert_eq!(groups, 2);
    file.extend(table.end().unwrap());
    assert_eq!(parquet_rows(&file).len(), 9);
}

#[test]
fn failed_write_leaves_previous_reports() {
    let dir = tempfile::tempdir().unwrap();
    let names = || {
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let meta = meta();
    let figures = sum_up(&five()[..], &meta).unwrap();
    let summed = (&figures, &meta);
    assert_eq!(figures.all.n, 5);
    write_all(dir.path(), &five()[..], summed).unwrap();
    let all = [
        "junit.xml",
        "report.csv",
        "report.json",
        "report.xlsx",
        "summary.md",
    ];
    assert_eq!(names(), all);
    let csv = std::fs::read(dir.path().join("report.csv")).unwrap();
    write_all(dir.path(), &Torn, summed).unwrap_err();
    write_file(Format::Csv, &Torn, &meta, &dir.path().join("report.csv")).unwrap_err();
    assert_eq!(names(), all, "nothing half is left");
    assert_eq!(std::fs::read(dir.path().join("report.csv")).unwrap(), csv);
    let error = write_all(&dir.path().join("none"), &five()[..], summed).unwrap_err();
    assert!(error.to_string().contains("none/report.json"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn csv_equals_xlsx_and_all_formats_are_well_formed(
        items in prop::collection::vec(any_item(), 0..6)
    ) {
        let csv = csv_rows(&written(Format::Csv, &items));
        prop_assert_eq!(csv.len(), items.len() + 1);
        prop_assert_eq!(sheet_rows(written(Format::Xlsx, &items), csv[0].len()), csv);
        let json: Value = serde_json::from_slice(&written(Format::Json, &items)).unwrap();
        prop_assert_eq!(json["items"].as_array().unwrap().len(), items.len());
        let junit = quick_junit::Report::deserialize_from_str(&text(Format::Junit, &items));
        prop_assert_eq!(junit.unwrap().tests, items.len());
        prop_assert_eq!(parquet_rows(&written(Format::Parquet, &items)).len(), items.len());
        prop_assert_eq!(text(Format::Jsonl, &items).lines().count(), items.len());
        for item in &items {
            prop_assert!(live::lines(item).iter().all(|line| !line.contains(char::is_control)));
        }
        written(Format::Markdown, &items);
    }
}
