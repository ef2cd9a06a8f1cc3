//! Parses payloads into cases: names, types and limits. Reports all errors at once.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{Grammar, Ordered, QueryAnswer, QueryCase, ResultSet};
use crate::Fault;
use crate::Field;
use crate::faults::{kind, shown};
use crate::reading::{ObjectReader, Spelling};
use query_shape::Language;
use row_match::{MAX_COLUMNS, MAX_ROWS, Table, TableError};

pub const FIELDS: &[Field] = &[
    Field::text("id"),
    Field::text("prompt"),
    Field::text_or_empty("generated_kql"),
    Field::text("expected_kql"),
    Field::text("generated_error"),
    Field::json("generated_columns"),
    Field::json("expected_columns"),
    Field::json("generated_results"),
    Field::json("expected_results"),
    Field::json("accepted"),
    Field::flag("ordered"),
    Field::json("decimals"),
    Field::text("language"),
    Field::text("dialect"),
    Field::json("threshold"),
    Field::text("model"),
];

const ANSWER: &[Field] = &[
    Field::text("kql"),
    Field::json("columns"),
    Field::json("results"),
];
const LANGUAGES: &[(&str, Language)] = &[("kql", Language::Kql), ("sql", Language::Sql)];
const MAX_ERROR: usize = 16 * 1024;
const MAX_NAME: usize = 1024;
const MAX_ACCEPTED: usize = 16;
const MAX_DECIMALS: u64 = 15;
const THRESHOLD: f64 = 0.9;

/// Parses every field, so that all errors are reported.
pub(super) fn read(payload: &Value) -> Result<QueryCase, Vec<Fault>> {
    let mut reading = ObjectReader::begin(payload, FIELDS, Spelling::Snake)?;
    let generated = query(&mut reading, "generated_kql");
    let expected = query(&mut reading, "expected_kql");
    let (id, model) = (reading.name("id"), reading.name("model"));
    let prompt = reading.solid_text("prompt");
    // Agent frameworks write an empty text if no error occurred.
    let generated_error = reading
        .text_of("generated_error", MAX_ERROR)
        .filter(|text| !text.trim().is_empty());
    let generated_result = result(&mut reading, ("generated_columns", "generated_results"));
    let expected_result = result(&mut reading, ("expected_columns", "expected_results"));
    let (ordered, decimals) = (ordered(&mut reading), decimals(&mut reading));
    let grammar = grammar(&mut reading);
    let expected = expected.filter(|query| is_query(&mut reading, "expected_kql", query, grammar));
    let threshold = reading.share("threshold").unwrap_or(THRESHOLD);
    let expected = expected
        .zip(expected_result)
        .map(|(query, result)| QueryAnswer {
            query,
            result: Arc::new(result),
        });
    let accepted = accepted(&mut reading, expected.as_ref(), grammar);
    reading.finish()?;
    let (Some(query), Some(result), Some(expected)) = (generated, generated_result, expected)
    else {
        return Err(Vec::new());
    };
    Ok(QueryCase {
        id,
        model,
        prompt,
        generated: QueryAnswer {
            query,
            result: Arc::new(result),
        },
        generated_error,
        expected,
        accepted,
        ordered,
        decimals,
        grammar,
        threshold,
        computed: OnceLock::new(),
    })
}

/// Parses a required query, which may be empty.
fn query(reading: &mut ObjectReader<'_>, name: &str) -> Option<String> {
    let query = reading.text(name);
    if query.is_none() {
        reading.missing(name, "a query, as text,");
    }
    query
}

/// Checks that an expected query isn't empty.
fn is_query(reading: &mut ObjectReader<'_>, name: &str, query: &str, grammar: Grammar) -> bool {
    let what = match query.trim() {
        "" => "is empty",
        _ if grammar.is_nothing(query) => "has only comments",
        _ => return true,
    };
    let at = reading.pointer(name);
    reading.fault(at, format!("{what}: give the query that is right"));
    false
}

/// Parses a result from two optional fields: column names and rows.
fn result(reading: &mut ObjectReader<'_>, (columns, rows): (&str, &str)) -> Option<ResultSet> {
    let named = names(reading, columns);
    let read = self::rows(reading, rows);
    let (named, read) = (named?, read?);
    // Without names, or with an empty list and rows that have keys, the keys are the names.
    let given = (!named.is_empty()).then_some(named.as_slice());
    let table = match Table::from_values(read, given) {
        Ok(table) => table,
        Err(error) => {
            let at = reading.pointer(rows);
            let at = match error {
                TableError::TooManyRows { .. } => at,
                TableError::TooManyColumns { row }
                | TableError::NotARow { row, .. }
                | TableError::Width { row, .. }
                | TableError::TooDeep { row } => format!("{at}/{row}"),
            };
            reading.fault(at, error.to_string());
            return None;
        }
    };
    Some(ResultSet {
        columns: if named.is_empty() { keys(read) } else { named },
        rows: read.to_vec(),
        table,
    })
}

fn names(reading: &mut ObjectReader<'_>, field: &str) -> Option<Vec<String>> {
    if reading.value(field).is_none() {
        return Some(Vec::new());
    }
    let (pointer, items) = reading.list(field, "names")?;
    if items.len() > MAX_COLUMNS {
        let said = format!(
            "has {} names; at most {MAX_COLUMNS} columns are compared: project those that matter",
            items.len()
        );
        reading.fault(pointer, said);
        return None;
    }
    let mut names = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let fault = match item.as_str() {
            Some(name) if name.len() <= MAX_NAME => {
                names.push(name.to_owned());
                continue;
            }
            Some(name) => format!(
                "is {} bytes long; at most {MAX_NAME} are taken: shorten it",
                name.len()
            ),
            None => format!("is {}; the name of a column is expected", shown(item)),
        };
        reading.fault(format!("{pointer}/{at}"), fault);
    }
    (names.len() == items.len()).then_some(names)
}

/// Parses rows, each an object or an array. Empty if the field is absent.
fn rows<'a>(reading: &mut ObjectReader<'a>, field: &str) -> Option<&'a [Value]> {
    if reading.value(field).is_none() {
        return Some(&[]);
    }
    let (pointer, rows) = reading.list(field, "rows")?;
    if rows.len() > MAX_ROWS {
        let error = TableError::TooManyRows { rows: rows.len() };
        reading.fault(pointer, error.to_string());
        return None;
    }
    let mut sound = true;
    for (at, row) in rows.iter().enumerate() {
        if !(row.is_object() || row.is_array()) {
            let said = format!("is {}; a row is an object, or a list of cells", kind(row));
            reading.fault(format!("{pointer}/{at}"), said);
            sound = false;
        }
    }
    sound.then_some(rows)
}

fn keys(rows: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for name in rows
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|row| row.keys())
    {
        if seen.insert(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Parses further right answers. One without a result uses the result and columns of the expected query.
fn accepted(
    reading: &mut ObjectReader<'_>,
    expected: Option<&QueryAnswer>,
    grammar: Grammar,
) -> Vec<QueryAnswer> {
    let Some((pointer, items)) = reading.list("accepted", "right answers") else {
        return Vec::new();
    };
    if items.len() > MAX_ACCEPTED {
        let said = format!(
            "has {} answers; at most {MAX_ACCEPTED} are compared",
            items.len()
        );
        reading.fault(pointer, said);
        return Vec::new();
    }
    let mut answers = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let Some(mut one) = reading.within(format!("{pointer}/{at}"), item, ANSWER) else {
            continue;
        };
        answers.extend(answer(&mut one, expected, grammar));
        reading.adopt(one);
    }
    answers
}

fn answer(
    reading: &mut ObjectReader<'_>,
    expected: Option<&QueryAnswer>,
    grammar: Grammar,
) -> Option<QueryAnswer> {
    let query = query(reading, "kql").filter(|query| is_query(reading, "kql", query, grammar));
    let has_results = reading.value("results").is_some();
    if !has_results && let Some(columns) = reading.value("columns") {
        let said =
            "stands without results: give both, or neither to have those of the expected query";
        reading.fault(columns.pointer, said);
    }
    let result = match has_results {
        true => result(reading, ("columns", "results")).map(Arc::new),
        false => expected.map(|expected| expected.result.clone()),
    };
    Some(QueryAnswer {
        query: query?,
        result: result?,
    })
}

/// Also accepts text, because the value may come from a CSV cell.
fn ordered(reading: &mut ObjectReader<'_>) -> Ordered {
    let Some(found) = reading.value("ordered") else {
        return Ordered::No;
    };
    let text = match found.value {
        Value::Bool(true) => return Ordered::Yes,
        Value::Bool(false) => return Ordered::No,
        Value::String(text) => text.trim().to_ascii_lowercase(),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => String::new(),
    };
    match text.as_str() {
        "true" => Ordered::Yes,
        "false" => Ordered::No,
        "auto" => Ordered::Auto,
        _ => {
            reading.wrong(found, "true, false or \"auto\" is expected");
            Ordered::No
        }
    }
}

fn decimals(reading: &mut ObjectReader<'_>) -> Option<u8> {
    let found = reading.value("decimals")?;
    let given = found.value.as_u64();
    let read = given.filter(|decimals| *decimals <= MAX_DECIMALS);
    if read.is_none() {
        let expected = format!("a whole number from 0 to {MAX_DECIMALS} is expected");
        reading.wrong(found, &expected);
    }
    read.and_then(|decimals| u8::try_from(decimals).ok())
}

fn grammar(reading: &mut ObjectReader<'_>) -> Grammar {
    match reading.choice("language", LANGUAGES) {
        Some(Language::Sql) => Grammar::Sql(reading.dialect("dialect")),
        Some(Language::Kql) | None => {
            if let Some(found) = reading.solid("dialect") {
                let said = "only SQL has dialects: leave it out, or say language sql";
                reading.fault(found.pointer, said);
            }
            Grammar::Kql
        }
    }
}
