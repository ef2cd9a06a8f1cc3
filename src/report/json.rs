//! JSON reports: one document with a summary, and lines that can be read back.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use super::columns::Columns;
use super::summary::Figures;
use super::{Item, Meta, ReportError, Source, line};

const RESULT: &str = "Result";

#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    meta: &'a Meta,
    summary: &'a Figures,
}

/// Writes `{name, run, made_at, unfinished, simulated, judging, summary, items}`. An item has the columns of the tables, unrounded, and
/// `Result`.
pub(super) fn write(
    out: &mut dyn Write,
    source: &(impl Source + ?Sized),
    (figures, meta): (&Figures, &Meta),
) -> Result<(), ReportError> {
    let failed = |error: &dyn std::fmt::Display| ReportError::writing("the JSON report", error);
    let summary = figures;
    let head = serde_json::to_string(&Head { meta, summary }).map_err(|e| failed(&e))?;
    let open = head.strip_suffix('}').unwrap_or(&head);
    write!(out, "{open},\"items\":[").map_err(|e| failed(&e))?;
    let columns = Columns::for_kinds(&figures.kinds);
    let mut before = "\n";
    source.each(&mut |item| {
        out.write_all(before.as_bytes()).map_err(|e| failed(&e))?;
        before = ",\n";
        serde_json::to_writer(&mut *out, &object(&columns, item)).map_err(|e| failed(&e))
    })?;
    out.write_all(b"\n]}\n").map_err(|e| failed(&e))
}

fn object(columns: &Columns, item: &Item) -> Value {
    let names = columns.list.iter().map(|column| column.name.to_owned());
    let mut object: Map<String, Value> = names.zip(columns.row(item)).collect();
    let result = item.result.clone().unwrap_or(Value::Null);
    object.insert(RESULT.to_owned(), result);
    Value::Object(object)
}

pub(super) fn write_lines(
    out: &mut dyn Write,
    source: &(impl Source + ?Sized),
) -> Result<(), ReportError> {
    source.each(&mut |item| {
        writeln!(out, "{}", line::write(item))
            .map_err(|error| ReportError::writing("the lines", error))
    })
}
