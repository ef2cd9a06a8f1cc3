//! What a command writes: results to stdout, words to stderr, tables that fit the terminal.

use std::io::{self, IsTerminal as _, Write as _};

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, TableComponent, presets};
use serde::Serialize;
use uuid::Uuid;

use super::outcome::{CliError, Exit};
use crate::report::GateResult;
use crate::wire::{Resumed, WordTable};

/// Width of tables that nobody sees on a terminal, columns.
const WIDE: u16 = 160;
/// A first column that is no wider than this isn't broken into lines: it names its rows, and names are copied.
const NAMES: usize = 40;

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

pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Says something to the person, beside the results. It may quote files and answers from outside.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(text)); // nobody may be listening
}

pub(super) fn warnings(warnings: &[String]) {
    for warning in warnings {
        note(&format!("note: {warning}"));
    }
}

pub(super) fn error(error: &CliError) {
    if !error.message.is_empty() {
        note(&format!("error: {}", error.message));
    }
}

/// Writes what was decided, and why.
pub(super) fn decision(gate_result: &GateResult) -> io::Result<()> {
    line(&format!("\n{}", gate_result.decision.as_str()))?;
    for reason in &gate_result.reasons {
        line(&clean(&format!("  {reason}")))?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputForm {
    Json,
    Words,
}

impl OutputForm {
    /// The one that `--json` asks for.
    pub(super) fn from_flag(json: bool) -> Self {
        match json {
            true => Self::Json,
            false => Self::Words,
        }
    }
}

/// What a command prints: as JSON, or for people.
pub(super) trait Printed: Serialize {
    fn print(&self) -> Result<(), CliError>;

    /// How a command ends that has printed it.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// Prints an answer in the form that was asked for.
pub(super) fn print(answer: &impl Printed, form: OutputForm) -> Result<Exit, CliError> {
    let printed = match form {
        OutputForm::Json => json(answer).map_err(CliError::from),
        OutputForm::Words => answer.print(),
    };
    match printed {
        // A reader that has seen enough (`| head`) changes nothing of what the answer is.
        Err(error) if error.exit == Exit::Done => {}
        printed => printed?,
    }
    Ok(answer.exit())
}

/// A list, as the API answers one.
#[derive(Serialize)]
pub(super) struct ItemList<T> {
    pub(super) items: Vec<T>,
}

/// An answer that people are told in a line of its own.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct OneLine<T> {
    pub(super) answer: T,
    #[serde(skip)]
    pub(super) words: String,
    #[serde(skip)]
    pub(super) exit: Exit,
}

impl<T> OneLine<T> {
    /// Wraps an answer whose words need nothing of it.
    pub(super) fn done(words: impl Into<String>) -> impl FnOnce(T) -> Self {
        let words = words.into();
        |answer| Self {
            answer,
            words,
            exit: Exit::Done,
        }
    }
}

impl OneLine<Resumed> {
    /// Says whether there was a hold to release.
    pub(super) fn resumed(what: &str) -> impl FnOnce(Resumed) -> Self {
        move |answer| {
            let did = if answer.released {
                "resumed"
            } else {
                "nothing held it"
            };
            Self::done(format!("{what}: {did}"))(answer)
        }
    }
}

impl<T: Serialize> Printed for OneLine<T> {
    fn print(&self) -> Result<(), CliError> {
        Ok(line(&self.words)?)
    }

    fn exit(&self) -> Exit {
        self.exit
    }
}

/// A row of a table: its cells in the order of the head.
pub(super) type TableRow = Vec<String>;

/// Writes a table with a line per row.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = TableRow>) -> io::Result<()> {
    let mut table = filled(head, rows);
    if table.is_empty() {
        return line("none");
    }
    table
        .remove_style(TableComponent::HorizontalLines)
        .remove_style(TableComponent::MiddleIntersections);
    line(&table.trim_fmt())
}

/// Writes a table whose cells hold text of many lines.
pub(super) fn spaced_table(
    head: &[&str],
    rows: impl IntoIterator<Item = TableRow>,
) -> io::Result<()> {
    line(&filled(head, rows).trim_fmt())
}

/// As wide as the terminal; elsewhere, wide.
fn filled(head: &[&str], rows: impl IntoIterator<Item = TableRow>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !io::stdout().is_terminal() {
        table.set_width(WIDE);
    }
    table.set_header(head.iter().map(Cell::new));
    let rows: Vec<TableRow> = rows.into_iter().collect();
    for row in &rows {
        table.add_row(row.iter().map(|cell| Cell::new(clean(cell))));
    }
    // What names a row, and ids that somebody may copy, stay in one piece.
    for at in 0..head.len() {
        let cells = || rows.iter().filter_map(|row| row.get(at));
        let longest = cells().map(|cell| cell.chars().count()).max();
        let is_name = at == 0 || cells().any(|cell| cell.parse::<Uuid>().is_ok());
        if is_name
            && longest.unwrap_or(0) <= NAMES
            && let Some(column) = table.column_mut(at)
        {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
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
    let rows = columns.iter().zip(&counted.table).map(|(word, row)| {
        let cells = row.iter().map(u64::to_string);
        std::iter::once(word.clone()).chain(cells).collect()
    });
    table(&head, rows)
}

/// Writes `name  value` lines; what has no value is left out.
pub(super) fn facts(facts: &[(&str, String)]) -> io::Result<()> {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        line(&format!("{name:width$}  {}", clean(value)))?;
    }
    Ok(())
}

/// Words behind what they explain, if there are any.
pub(super) fn after_colon(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

pub(super) fn or_empty<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

pub(super) fn joined<T: std::fmt::Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    values.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_row_and_ids_are_never_broken_into_lines() {
        let ids = [
            "01a205fd-4d51-7619-beb1-eafa5228bce9",
            "01983c66-0000-7000-8000-00000008e0a1",
        ];
        let wide = "words ".repeat(20);
        let row: TableRow = ids
            .map(str::to_owned)
            .into_iter()
            .chain(std::iter::repeat_n(wide, 8))
            .collect();
        let head = ["id", "session", "c", "d", "e", "f", "g", "h", "i", "j"];
        let shown = filled(&head, [row]).to_string();
        assert!(ids.iter().all(|id| shown.contains(id)), "{shown}");
    }

    #[test]
    fn text_from_outside_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\u{7}c\nd"), "a [31mb  c\nd");
    }
}
