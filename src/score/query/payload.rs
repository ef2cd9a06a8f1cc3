//! From a payload to a case: names, types and limits, every fault at once. Judges nothing.

use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value;

use super::fields::Fields;
use super::{Answer, Grammar, Ordered, QueryCase, ResultSet};
use crate::judge::Fault;
use crate::score::Field;
use crate::score::faults::{Faults, kind};
use crate::score::rows::{MAX_COLUMNS, MAX_ROWS, Table, TableError};
use crate::score::tables::Language;
use crate::score::tables::sql::{Dialect, LONGEST};

/// The payload's fields, in the order of a report.
pub const FIELDS: &[Field] = &[
    Field::text("id"),
    Field::text("prompt"),
    Field::text("generated_kql"),
    Field::text("expected_kql"),
    Field::text("generated_error"),
    Field::json("generated_columns"),
    Field::json("expected_columns"),
    Field::json("generated_results"),
    Field::json("expected_results"),
    Field::json("accepted"),
    Field::json("ordered"),
    Field::json("decimals"),
    Field::text("language"),
    Field::text("dialect"),
    Field::json("threshold"),
    Field::text("model"),
];

/// The longest prompt, bytes.
const MAX_PROMPT: usize = 64 * 1024;
/// The longest error of an execution, bytes.
const MAX_ERROR: usize = 16 * 1024;
/// The longest name: of a case, a model or a column, bytes.
const MAX_NAME: usize = 1024;
/// The most further right answers.
const MAX_ACCEPTED: usize = 16;
/// The most decimals that numbers may be rounded to.
const MAX_DECIMALS: u64 = 15;
/// What a total must reach if the payload doesn't say.
const THRESHOLD: f64 = 0.9;

/// Reads a payload.
pub(super) fn read(payload: &Value) -> Result<QueryCase, Vec<Fault>> {
    let mut faults = Faults::default();
    let case = fields(payload, &mut faults).and_then(|fields| case(&fields, &mut faults));
    match case {
        Some(case) if faults.is_empty() => Ok(case),
        Some(_) | None => Err(faults.into_list()),
    }
}

fn fields<'a>(payload: &'a Value, faults: &mut Faults) -> Option<Fields<'a>> {
    let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    Fields::of(payload, "", &known, faults)
}

/// Reads every field, so that every fault is told; `None` if one that is required can't be read.
fn case(fields: &Fields<'_>, faults: &mut Faults) -> Option<QueryCase> {
    let generated = fields.required_text("generated_kql", LONGEST, faults);
    let expected = expected_query(fields, "expected_kql", faults);
    let name = |name, faults: &mut Faults| {
        let text = fields.text(name, MAX_NAME, faults)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    // A number is a name, too, as it is in the other kinds.
    let id = match fields.get("id") {
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) | None => name("id", faults),
    };
    let model = name("model", faults);
    let prompt = unless_blank(fields.text("prompt", MAX_PROMPT, faults));
    // Agents' frameworks write an empty text where nothing went wrong.
    let generated_error = unless_blank(fields.text("generated_error", MAX_ERROR, faults));
    let generated_result = result(fields, ("generated_columns", "generated_results"), faults);
    let expected_result = result(fields, ("expected_columns", "expected_results"), faults);
    let (ordered, decimals) = (ordered(fields, faults), decimals(fields, faults));
    let grammar = grammar(fields, faults);
    let threshold = threshold(fields, faults);
    let expected = expected.zip(expected_result).map(|(query, result)| Answer {
        query: query.to_owned(),
        result: Arc::new(result),
    });
    let accepted = accepted(fields, expected.as_ref(), faults);
    Some(QueryCase {
        id,
        model,
        prompt,
        generated: Answer {
            query: generated?.to_owned(),
            result: Arc::new(generated_result?),
        },
        generated_error,
        expected: expected?,
        accepted: accepted?,
        ordered: ordered?,
        decimals,
        grammar: grammar?,
        threshold: threshold?,
        computed: super::Once::default(),
    })
}

fn unless_blank(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
        .map(str::to_owned)
}

/// A query that is right: there is none without a word in it.
fn expected_query<'a>(fields: &Fields<'a>, name: &str, faults: &mut Faults) -> Option<&'a str> {
    let query = fields.required_text(name, LONGEST, faults)?;
    if query.trim().is_empty() {
        faults.add(fields.at(name), "is empty: give the query that is right");
        return None;
    }
    Some(query)
}

/// The result in two fields, names of columns and rows; both may be left out.
fn result(
    fields: &Fields<'_>,
    (columns, rows): (&str, &str),
    faults: &mut Faults,
) -> Option<ResultSet> {
    let named = names(fields, columns, faults);
    let read = self::rows(fields, rows, faults);
    let (named, read) = (named?, read?);
    // Without names, or with an empty list beside rows that have keys, the keys are the names.
    let given = (!named.is_empty()).then_some(named.as_slice());
    let table = match Table::from_values(read, given) {
        Ok(table) => table,
        Err(error) => {
            let at = match error {
                TableError::TooManyRows { .. } => fields.at(rows),
                TableError::TooManyColumns { row }
                | TableError::NotARow { row, .. }
                | TableError::TooDeep { row } => format!("{}/{row}", fields.at(rows)),
            };
            faults.add(at, error.to_string());
            return None;
        }
    };
    Some(ResultSet {
        columns: if named.is_empty() { keys(read) } else { named },
        rows: read.to_vec(),
        table,
    })
}

/// Names of columns; none if the field is left out.
fn names(fields: &Fields<'_>, field: &str, faults: &mut Faults) -> Option<Vec<String>> {
    if fields.get(field).is_none() {
        return Some(Vec::new());
    }
    let items = fields.list(field, faults)?;
    if items.len() > MAX_COLUMNS {
        let said = format!(
            "has {} names; at most {MAX_COLUMNS} columns are compared: project those that matter",
            items.len()
        );
        faults.add(fields.at(field), said);
        return None;
    }
    let mut names = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let fault = if let Value::String(name) = item {
            if name.len() <= MAX_NAME {
                names.push(name.clone());
                continue;
            }
            format!("has {} bytes; at most {MAX_NAME} are taken", name.len())
        } else {
            format!("must be the name of a column, not {}", kind(item))
        };
        faults.add(format!("{}/{at}", fields.at(field)), fault);
    }
    (names.len() == items.len()).then_some(names)
}

/// Rows, each an object or an array; none if the field is left out.
fn rows<'a>(fields: &Fields<'a>, field: &str, faults: &mut Faults) -> Option<&'a [Value]> {
    if fields.get(field).is_none() {
        return Some(&[]);
    }
    let rows = fields.list(field, faults)?;
    if rows.len() > MAX_ROWS {
        let error = TableError::TooManyRows { rows: rows.len() };
        faults.add(fields.at(field), error.to_string());
        return None;
    }
    let mut sound = true;
    for (at, row) in rows.iter().enumerate() {
        if !(row.is_object() || row.is_array()) {
            let said = format!("is {}; a row is an object, or a list of cells", kind(row));
            faults.add(format!("{}/{at}", fields.at(field)), said);
            sound = false;
        }
    }
    sound.then_some(rows)
}

/// The keys of all rows, each once, in the order in which they come up.
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

/// Further right answers. One without a result has that of the expected query, and with it its columns.
fn accepted(
    fields: &Fields<'_>,
    expected: Option<&Answer>,
    faults: &mut Faults,
) -> Option<Vec<Answer>> {
    const KNOWN: [&str; 3] = ["kql", "columns", "results"];
    if fields.get("accepted").is_none() {
        return Some(Vec::new());
    }
    let items = fields.list("accepted", faults)?;
    if items.len() > MAX_ACCEPTED {
        let said = format!(
            "has {} answers; at most {MAX_ACCEPTED} are compared",
            items.len()
        );
        faults.add(fields.at("accepted"), said);
        return None;
    }
    let mut answers = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let pointer = format!("{}/{at}", fields.at("accepted"));
        let Some(one) = Fields::of(item, &pointer, &KNOWN, faults) else {
            continue;
        };
        let query = expected_query(&one, "kql", faults);
        if one.get("results").is_none() && one.get("columns").is_some() {
            let said =
                "stands without results: give both, or neither to have those of the expected query";
            faults.add(one.at("columns"), said);
        }
        let result = match one.get("results") {
            Some(_) => result(&one, ("columns", "results"), faults).map(Arc::new),
            None => expected.map(|expected| expected.result.clone()),
        };
        if let (Some(query), Some(result)) = (query, result) {
            answers.push(Answer {
                query: query.to_owned(),
                result,
            });
        }
    }
    (answers.len() == items.len()).then_some(answers)
}

/// Also as text, since a cell of a CSV file may hold it so.
fn ordered(fields: &Fields<'_>, faults: &mut Faults) -> Option<Ordered> {
    let text = match fields.get("ordered") {
        None => return Some(Ordered::No),
        Some(Value::Bool(true)) => return Some(Ordered::Yes),
        Some(Value::Bool(false)) => return Some(Ordered::No),
        Some(Value::String(text)) => text.trim().to_ascii_lowercase(),
        Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) => String::new(),
    };
    match text.as_str() {
        "true" => Some(Ordered::Yes),
        "false" => Some(Ordered::No),
        "auto" => Some(Ordered::Auto),
        _ => {
            faults.add(fields.at("ordered"), "must be true, false or \"auto\"");
            None
        }
    }
}

fn decimals(fields: &Fields<'_>, faults: &mut Faults) -> Option<u8> {
    let given = fields.get("decimals")?;
    let read = given.as_u64().filter(|decimals| *decimals <= MAX_DECIMALS);
    if read.is_none() {
        let said = format!("must be a whole number from 0 to {MAX_DECIMALS}");
        faults.add(fields.at("decimals"), said);
    }
    read.and_then(|decimals| u8::try_from(decimals).ok())
}

fn threshold(fields: &Fields<'_>, faults: &mut Faults) -> Option<f64> {
    let Some(given) = fields.get("threshold") else {
        return Some(THRESHOLD);
    };
    let read = given.as_f64().filter(|share| (0.0..=1.0).contains(share));
    if read.is_none() {
        let said = "must be a number from 0 to 1, such as 0.9";
        faults.add(fields.at("threshold"), said);
    }
    read
}

fn grammar(fields: &Fields<'_>, faults: &mut Faults) -> Option<Grammar> {
    let lower = |name, faults: &mut Faults| {
        let text = fields.text(name, MAX_NAME, faults)?.trim();
        Some(text.to_ascii_lowercase()).filter(|text| !text.is_empty())
    };
    let language = match lower("language", faults).as_deref() {
        None | Some("kql") => Some(Language::Kql),
        Some("sql") => Some(Language::Sql),
        Some(other) => {
            let said = format!("{other:?} is not known; known are kql and sql");
            faults.add(fields.at("language"), said);
            None
        }
    };
    let dialect = lower("dialect", faults).and_then(|name| {
        let known = Dialect::deserialize(Value::String(name.clone())).ok();
        if known.is_none() {
            let all = Dialect::ALL.map(Dialect::name).join(", ");
            let said = format!("{name:?} is not known; known are {all}");
            faults.add(fields.at("dialect"), said);
        }
        known
    });
    match (language?, dialect) {
        (Language::Kql, Some(_)) => {
            let said = "only SQL has dialects: leave it out, or say language sql";
            faults.add(fields.at("dialect"), said);
            None
        }
        (Language::Kql, None) => Some(Grammar::Kql),
        (Language::Sql, dialect) => Some(Grammar::Sql(dialect.unwrap_or_default())),
    }
}
