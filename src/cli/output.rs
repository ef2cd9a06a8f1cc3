//! What a command writes: results to stdout, words to stderr, tables that fit the terminal.

use std::io::{self, IsTerminal as _, Write as _};

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, TableComponent, presets};
use serde::Serialize;

use super::outcome::CliError;
use crate::wire::WordTable;

/// Width of tables that nobody sees on a terminal, columns.
const WIDE: u16 = 160;
/// A first column that is no wider than this isn't broken into lines: it names its rows, and names are copied.
const NAMES: usize = 40;

/// Writes one line of results.
pub(super) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
}

/// Writes results as JSON: indented for people, in one line for programs.
pub(super) fn json(value: &impl Serialize) -> io::Result<()> {
    let text = match io::stdout().is_terminal() {
        true => serde_json::to_string_pretty(value)?,
        false => serde_json::to_string(value)?,
    };
    line(&text)
}

/// A time as the API writes it.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Says something to the person, beside the results. It may quote files and answers from outside.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(text)); // nobody may be listening
}

/// Says why a command failed.
pub(super) fn error(error: &CliError) {
    if !error.message.is_empty() {
        note(&format!("error: {}", error.message));
    }
}

/// Writes a table with a line per row.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let mut table = filled(head, rows);
    table
        .remove_style(TableComponent::HorizontalLines)
        .remove_style(TableComponent::MiddleIntersections);
    line(&table.trim_fmt())
}

/// Writes a table whose cells hold text of many lines.
pub(super) fn spaced_table(head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    line(&filled(head, rows).trim_fmt())
}

/// As wide as the terminal; elsewhere, wide.
fn filled(head: &[&str], rows: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !io::stdout().is_terminal() {
        table.set_width(WIDE);
    }
    table.set_header(head.iter().map(Cell::new));
    for row in rows {
        table.add_row(row.iter().map(|cell| Cell::new(clean(cell))));
    }
    let names = rows.iter().filter_map(|row| row.first());
    if names.map(|name| name.chars().count()).max() <= Some(NAMES)
        && let Some(first) = table.column_mut(0)
    {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// Text from outside without control characters: it must not move the cursor or colour the terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .collect()
}

/// A number with so many decimals; nothing for none.
pub(super) fn rounded(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(String::new, |number| format!("{number:.decimals$}"))
}

/// Writes counts by two lists of words: a row for each word of the one, a column for each of the other.
pub(super) fn counts(corner: &str, counted: &WordTable) -> io::Result<()> {
    let word = |label: &String| label.replace('_', " ");
    let columns: Vec<String> = counted.labels.iter().map(word).collect();
    let head: Vec<&str> = std::iter::once(corner)
        .chain(columns.iter().map(String::as_str))
        .collect();
    let rows: Vec<Vec<String>> = columns
        .iter()
        .zip(&counted.table)
        .map(|(word, row)| {
            let cells = row.iter().map(u64::to_string);
            std::iter::once(word.clone()).chain(cells).collect()
        })
        .collect();
    table(&head, &rows)
}

/// Writes `name  value` lines; what has no value is left out.
pub(super) fn facts(facts: &[(&str, String)]) -> io::Result<()> {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        line(&format!("{name:width$}  {}", clean(value)))?;
    }
    Ok(())
}

/// A value that may be missing, as text.
pub(super) fn or_empty<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Values with commas between.
pub(super) fn joined<T: std::fmt::Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    values.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_row_is_never_broken_into_lines() {
        let id = "01a205fd-4d51-7619-beb1-eafa5228bce9";
        let wide = "words ".repeat(20);
        let row: Vec<String> = std::iter::once(id.to_owned())
            .chain(std::iter::repeat_n(wide, 8))
            .collect();
        let shown = filled(&["id", "b", "c", "d", "e", "f", "g", "h", "i"], &[row]);
        assert!(shown.to_string().contains(id), "{shown}");
    }

    #[test]
    fn text_from_outside_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\u{7}c\nd"), "a [31mb  c\nd");
    }
}
