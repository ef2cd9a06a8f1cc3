//! Golden files of query shapes, scores of result tables and scores of cases, for `tests/corpus` and `examples`.
//!
//! `GAVEL_CORPUS` names another corpus folder and `GAVEL_CORPUS_ANSWERS` the folder of its golden files: for texts that
//! must stay out of this repository because of their licence.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gavel::score::{Criteria, Limits, ModelFamily, Nonce, Scorecard, about, read_case};
use query_shape::sql::{self, Dialect};
use query_shape::{QueryShape, kql};
use row_match::{Case, Options, Table, compare};
use serde_json::{Value, json};

use crate::golden;
use crate::seeded_service::{answered_questions, lines};
use crate::support::home::built_in;

/// Reads a JSONL file. Returns no values if it doesn't exist.
fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// First 100 characters of a text, used to find its line in the corpus.
fn clipped(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A shape, a line for each part that isn't empty.
fn shape_text(shape: &QueryShape) -> String {
    let tables = shape
        .tables
        .iter()
        .map(query_shape::TableName::dotted)
        .collect();
    let filters = shape.filters.iter();
    let filters = filters.map(|filter| {
        format!(
            "{} {:?} {:?}",
            filter.operator, filter.columns, filter.literals
        )
    });
    let sort_keys = shape
        .sort_keys
        .iter()
        .map(|key| match (&key.name, key.place) {
            (Some(name), _) => format!("Name({name:?})"),
            (None, Some(place)) => format!("Place({place})"),
            (None, None) => String::new(),
        });
    let flags = [
        (shape.all_tables, "all tables"),
        (shape.sorted_at_top, "sorted"),
        (shape.approximate, "approximate"),
    ];
    let flags = flags
        .iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, name)| (*name).to_owned());
    let parts: [(&str, Vec<String>); 9] = [
        ("tables", tables),
        ("wildcards", shape.wildcards.clone()),
        ("qualified", shape.qualified.clone()),
        ("functions", shape.unknown_functions.clone()),
        ("hidden", shape.hidden.clone()),
        ("filters", filters.collect()),
        ("aggregations", shape.aggregations.clone()),
        ("sort keys", sort_keys.collect()),
        ("flags", flags.collect()),
    ];
    let parts = parts.iter().filter(|(_, values)| !values.is_empty());
    let parts = parts.map(|(name, values)| format!("  {name}: {}\n", values.join(" | ")));
    parts.collect()
}

fn kql_answer(row: &Value) -> String {
    let text = row["text"].as_str().unwrap();
    format!("{text:?}\n{}", shape_text(&kql::shape(text)))
}

fn sql_answer(row: &Value) -> String {
    let text = row["text"].as_str().unwrap();
    let name = row["dialect"].as_str().unwrap();
    let dialect = Dialect::ALL
        .into_iter()
        .find(|dialect| dialect.name() == name);
    let found = match sql::parse(text, dialect.unwrap()) {
        Ok(shape) => shape_text(&shape),
        Err(error) => format!("  error: {}: {error}\n", error.class()),
    };
    format!("{name}: {text:?}\n{found}")
}

fn tables_answer(row: &Value) -> String {
    let table = |side: &str| {
        let rows = row[side]["rows"].as_array().unwrap();
        let columns = row[side]["columns"].as_array();
        let columns = columns.map(|names| {
            names
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        });
        let case = if row[side]["case"] == "Heeded" {
            Case::Heeded
        } else {
            Case::Ignored
        };
        Table::in_case(rows, columns.as_deref(), case)
    };
    let integer = |name: &str| {
        row[name]
            .as_u64()
            .map(|value| usize::try_from(value).unwrap())
    };
    let options = Options {
        ordered: row["ordered"] == true,
        sorted_by: serde_json::from_value(row["sorted_by"].clone()).unwrap_or_default(),
        decimals: integer("decimals").map(|value| u8::try_from(value).unwrap()),
        cap_expected: integer("cap_expected").and_then(NonZeroUsize::new),
    };
    let found = match (table("expected"), table("generated")) {
        (Ok(expected), Ok(generated)) => {
            let found = compare(&expected, &generated, &options);
            format!(
                "score {} matched {}/{} of {}, {} recall {} precision {} f1 {} columns {:?} missing {:?} extra {:?} cut {}",
                found.score,
                found.matched,
                found.compared,
                found.expected_rows,
                found.generated_rows,
                found.recall,
                found.precision,
                found.f1,
                found.columns,
                found.missing,
                found.extra,
                found.cut_short
            )
        }
        (expected, generated) => format!("error: {:?} {:?}", expected.err(), generated.err()),
    };
    let rows = |side: &str| clipped(&row[side]["rows"].to_string());
    format!("{} | {}\n  {found}\n", rows("expected"), rows("generated"))
}

fn case_answer(row: &Value) -> String {
    let kind = serde_json::from_value(row["kind"].clone()).unwrap();
    let (_, text) = about(kind).built_in_criteria;
    let judge = |name: &str| (name == "DEFAULT_LLM_PROVIDER").then(|| "judge".to_owned());
    let criteria = gavel::config::yaml::resolve("criteria", text, &judge).unwrap();
    let criteria = Criteria::from_value(&criteria).unwrap();
    let limits = Limits {
        context_window: 128_000,
        max_output_tokens: 4_096,
        family: ModelFamily::Gpt,
    };
    let found = match read_case(kind, &row["payload"]) {
        Err(faults) => faults
            .into_iter()
            .map(|fault| format!("  error: {}: {}\n", fault.pointer, fault.message))
            .collect(),
        Ok(case) => {
            let questions = case.questions(&criteria, &limits, &Nonce::from_bits(1));
            let questions =
                questions.map_or_else(|error| error.to_string(), |found| found.len().to_string());
            let score = match case.score(&criteria, &[]) {
                Scorecard::Evaluated(score) => {
                    format!(
                        "total {:?} passed {:?} {:?}",
                        score.total, score.passed, score.components
                    )
                }
                other => format!("{other:?}"),
            };
            format!("  questions {questions} {score}\n")
        }
    };
    format!("{kind} {}\n{found}", clipped(&row["payload"].to_string()))
}

/// Compares the results for all files of a folder with golden files.
fn check(folder: &Path, more_cases: Vec<Value>, answers: &Path) {
    type Answer = fn(&Value) -> String;
    let all: [(&str, Answer, Vec<Value>); 4] = [
        ("kql", kql_answer, Vec::new()),
        ("sql", sql_answer, Vec::new()),
        ("tables", tables_answer, Vec::new()),
        ("cases", case_answer, more_cases),
    ];
    let mut texts = BTreeMap::new();
    for (name, answer, more) in all {
        let rows = read(&folder.join(format!("{name}.jsonl")));
        let rows = rows.into_iter().chain(more);
        let found: Vec<String> = rows.map(|row| answer(&row)).collect();
        texts.insert(format!("{name}.txt"), found.concat());
    }
    golden::check_folder_at(answers, &texts);
}

#[test]
fn corpus_matches_golden_files() {
    let of = |kind: &str, rows: Vec<Value>| -> Vec<Value> {
        rows.into_iter()
            .map(|payload| json!({"kind": kind, "payload": payload}))
            .collect()
    };
    let examples = [
        of("query", lines("examples/queries/kql-suite.jsonl")),
        of("sql_metrics", lines("examples/metrics/cases.jsonl")),
        of("qas", answered_questions()),
    ];
    check(
        &built_in("tests/corpus"),
        examples.concat(),
        &golden::root().join("corpus"),
    );
}

#[test]
fn external_corpus_matches_golden_files() {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let Some((corpus, answers)) = folder("GAVEL_CORPUS").zip(folder("GAVEL_CORPUS_ANSWERS")) else {
        eprintln!("NOT TESTED: GAVEL_CORPUS and GAVEL_CORPUS_ANSWERS name no other corpus");
        return;
    };
    check(&corpus, Vec::new(), &answers);
}
