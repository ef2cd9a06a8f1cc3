//! The reports of runs of the examples, in all formats, and the files of such a run.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use calamine::{Data, Reader as _, Xlsx, open_workbook};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;

use crate::golden;
use crate::mask::Mask;
use crate::seeded_service::{Clock, LAST_DAY, answered_suite, gavel};
use crate::support::home::built_in;

fn sheets(path: &Path) -> String {
    let mut book: Xlsx<_> = open_workbook(path).unwrap();
    let mut text = String::new();
    for name in book.sheet_names() {
        text.push_str(&format!("# {name}\n"));
        for row in book.worksheet_range(&name).unwrap().rows() {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match cell {
                    Data::String(text) => format!("{text:?}"),
                    other => other.to_string(),
                })
                .collect();
            text.push_str(&format!("{}\n", cells.join(" | ")));
        }
    }
    text
}

fn rows(path: &Path) -> String {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut schema = Vec::new();
    parquet::schema::printer::print_schema(&mut schema, reader.metadata().file_metadata().schema());
    let mut text = String::from_utf8(schema).unwrap();
    for row in reader.get_row_iter(None).unwrap() {
        text.push_str(&format!("{}\n", row.unwrap()));
    }
    text
}

#[test]
fn reports_match_golden_files() {
    let dir = tempfile::tempdir().unwrap();
    let Some(clock) = Clock::at(dir.path(), LAST_DAY) else {
        return;
    };
    let env = clock.env();
    let mask = Mask::default()
        .text(dir.path().display().to_string(), "/home/gavel")
        .pattern(
            r#""(latency_ms|took_ms|duration_ms)": ?[\d.]+"#,
            "\"$1\": 0",
        )
        .pattern(r#"time="[\d.]+""#, "time=\"0\"");
    let copy = |from: &str, to: &str| std::fs::copy(built_in(from), dir.path().join(to)).unwrap();
    copy("examples/queries/kql-suite.jsonl", "query.jsonl");
    copy("examples/metrics/cases.jsonl", "sql-metrics.jsonl");
    let questions = Value::Array(answered_suite());
    std::fs::write(dir.path().join("qas.json"), questions.to_string()).unwrap();
    let mut texts = BTreeMap::new();
    for suite in ["query.jsonl", "sql-metrics.jsonl", "qas.json"] {
        let (run, _) = suite.split_once('.').unwrap();
        let evaluate = [
            "evaluate",
            suite,
            "--limit",
            "12",
            "--simulate",
            "--concurrency",
            "1",
            "--output",
            run,
        ];
        let output = gavel(dir.path(), &env, &evaluate);
        assert_eq!(output.code, Some(3), "{}{}", output.stdout, output.stderr);
        for format in ["json", "jsonl", "csv", "xlsx", "parquet", "junit.xml", "md"] {
            let file = format!("{run}.{format}");
            let output = gavel(dir.path(), &env, &["report", run, "--output", &file]);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
            let path = dir.path().join(&file);
            let (name, text) = match format {
                "xlsx" => (format!("{file}.txt"), sheets(&path)),
                "parquet" => (format!("{file}.txt"), rows(&path)),
                _ => (file, std::fs::read_to_string(&path).unwrap()),
            };
            texts.insert(name, mask.apply(&text));
        }
        let text = std::fs::read_to_string(dir.path().join(run).join("run.json")).unwrap();
        texts.insert(format!("{run}.run.json"), mask.apply(&text));
    }
    golden::check_folder("reports", &texts);
}
