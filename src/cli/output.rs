//! Output of commands: results on stdout, notes on stderr, tables in the width of the terminal.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, TableComponent, presets};
use serde::Serialize;
use uuid::Uuid;

use super::outcome::{CliError, Exit};
use crate::client::Download;
use crate::report::{self, GateResult};
use crate::wire::{Resumed, WordTable, words};

/// Width of tables without a terminal, columns.
const WIDE: u16 = 160;
/// A first column up to this width isn't wrapped, because it contains names to be copied.
const NAME_WIDTH: usize = 40;

pub(super) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
}

/// Writes results as JSON: indented on a terminal, otherwise on one line.
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

/// Writes a note to stderr. It may quote external files and replies.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(text)); // stderr may be closed
}

pub(super) fn error(error: &CliError) {
    if !error.message.is_empty() {
        note(&format!("error: {}", error.message));
    }
}

/// Result of a command: serialized with `--json`, otherwise printed as text.
pub(super) trait Printable: Serialize {
    fn text(&self, out: &mut Text);

    /// Exit code after printing it.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// Title of a column, and function for a row's cell.
pub(super) type Column<T> = (&'static str, fn(&T) -> String);

pub(super) trait Row: Serialize + 'static {
    const COLUMNS: &'static [Column<Self>];
}

/// A list, as in the API.
#[derive(Serialize)]
pub(super) struct ItemList<T> {
    pub(super) items: Vec<T>,
}

impl<T: Row> Printable for ItemList<T> {
    fn text(&self, out: &mut Text) {
        out.rows(&self.items);
    }
}

pub(super) fn print(result: &impl Printable, as_json: bool) -> Result<Exit, CliError> {
    let printed = match as_json {
        true => json(result),
        false => {
            let mut text = Text::default();
            result.text(&mut text);
            text.write()
        }
    };
    match printed.map_err(CliError::from) {
        // A closed pipe (`| head`) doesn't change the result.
        Err(error) if error.exit == Exit::Done => {}
        printed => printed?,
    }
    Ok(result.exit())
}

/// A result with its text.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct WithText<T> {
    pub(super) result: T,
    #[serde(skip)]
    pub(super) text: Text,
    #[serde(skip)]
    pub(super) exit: Exit,
}

impl<T> WithText<T> {
    pub(super) fn new(result: T, text: Text) -> Self {
        let exit = Exit::Done;
        Self { result, text, exit }
    }

    pub(super) fn line(result: T, line: impl AsRef<str>) -> Self {
        let mut text = Text::default();
        text.line(line);
        Self::new(result, text)
    }
}

impl WithText<Resumed> {
    /// Reports whether there was a hold to release.
    pub(super) fn resumed(result: Resumed, what: &str) -> Self {
        let did = match result.released {
            true => "resumed",
            false => "it was not held",
        };
        Self::line(result, format!("{what}: {did}"))
    }
}

impl<T: Serialize> Printable for WithText<T> {
    fn text(&self, out: &mut Text) {
        out.clone_from(&self.text);
    }

    fn exit(&self) -> Exit {
        self.exit
    }
}

pub(super) type TableRow = Vec<String>;

/// Text of a result: lines for stdout, then notes for stderr. Control characters are removed.
#[derive(Clone, Default)]
pub(super) struct Text {
    lines: Vec<String>,
    notes: Vec<String>,
}

impl Text {
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.lines.push(clean(text.as_ref()));
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub(super) fn warnings(&mut self, warnings: &[String]) {
        let warnings = warnings.iter();
        let notes = warnings.map(|warning| format!("note: {warning}"));
        self.notes.extend(notes);
    }

    /// Adds `name  value` lines; empty values are skipped.
    pub(super) fn facts(&mut self, facts: &[(&str, String)]) {
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            self.line(format!("{name:width$}  {value}"));
        }
    }

    /// Adds a table of the columns of `T`.
    pub(super) fn rows<'a, T: Row>(&mut self, items: impl IntoIterator<Item = &'a T>) {
        let head: Vec<&str> = T::COLUMNS.iter().map(|(title, _)| *title).collect();
        let cells = |item| T::COLUMNS.iter().map(|(_, cell)| cell(item)).collect();
        self.table(&head, items.into_iter().map(cells));
    }

    pub(super) fn table(&mut self, head: &[&str], rows: impl IntoIterator<Item = TableRow>) {
        let mut table = filled(head, rows);
        if table.is_empty() {
            return self.line("none");
        }
        table
            .remove_style(TableComponent::HorizontalLines)
            .remove_style(TableComponent::MiddleIntersections);
        self.lines.push(table.trim_fmt());
    }

    /// Adds a table with multi-line cells.
    pub(super) fn spaced_table(&mut self, head: &[&str], rows: impl IntoIterator<Item = TableRow>) {
        self.lines.push(filled(head, rows).trim_fmt());
    }

    /// Adds a contingency table with a row and a column per label.
    pub(super) fn counts(&mut self, corner: &str, counted: &WordTable) {
        let word = |label: &String| label.replace('_', " ");
        let columns: Vec<String> = counted.labels.iter().map(word).collect();
        let head: Vec<&str> = std::iter::once(corner)
            .chain(columns.iter().map(String::as_str))
            .collect();
        let rows = columns.iter().zip(&counted.table).map(|(word, row)| {
            let cells = row.iter().map(u64::to_string);
            std::iter::once(word.clone()).chain(cells).collect()
        });
        self.table(&head, rows);
    }

    pub(super) fn decision(&mut self, gate_result: &GateResult) {
        self.line(format!("\n{}", gate_result.decision.as_str()));
        for reason in &gate_result.reasons {
            self.line(format!("  {reason}"));
        }
    }

    pub(super) fn write(&self) -> io::Result<()> {
        for text in &self.lines {
            line(text)?;
        }
        for text in &self.notes {
            note(text);
        }
        Ok(())
    }
}

/// Writes a download to stdout or atomically to a file. Returns the number of lines, and the file.
pub(super) async fn save(
    mut download: Download,
    path: Option<&Path>,
) -> Result<(u64, Option<File>), CliError> {
    let failed = |error: io::Error| match path {
        Some(path) => CliError::incomplete(format!("writing {}: {error}", path.display())),
        None => error.into(),
    };
    let mut file = path.map(report::beside).transpose().map_err(failed)?;
    let (mut lines, mut is_empty) = (0, true);
    loop {
        let chunk = download.chunk().await.map_err(|error| {
            let lines = words::counted(lines, "line");
            CliError::incomplete(format!("broke off after {lines}: {error}; try again"))
        })?;
        let Some(chunk) = chunk else { break };
        is_empty &= chunk.is_empty();
        lines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        match &mut file {
            Some(file) => file.write_all(&chunk),
            None => io::stdout().write_all(&chunk),
        }
        .map_err(failed)?;
    }
    io::stdout().flush().map_err(failed)?;
    let written = file.as_ref().map(|file| file.reopen()).transpose();
    let written = written.map_err(failed)?;
    if let (Some(file), Some(path), false) = (file, path, is_empty) {
        file.persist(path).map_err(|error| failed(error.error))?;
    }
    Ok((lines, written))
}

/// Creates a table as wide as the terminal, otherwise [`WIDE`].
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
    // Names of rows and ids are not wrapped, so that they can be copied.
    for at in 0..head.len() {
        let cells = || rows.iter().filter_map(|row| row.get(at));
        let longest = cells().map(|cell| cell.chars().count()).max();
        let is_name = at == 0 || cells().any(|cell| cell.parse::<Uuid>().is_ok());
        if is_name
            && longest.unwrap_or(0) <= NAME_WIDTH
            && let Some(column) = table.column_mut(at)
        {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Removes control characters, so that external text can't move the cursor or colour the terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .collect()
}

/// Formats a number with `decimals` decimals; empty for `None`.
pub(super) fn rounded(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(String::new, |number| format!("{number:.decimals$}"))
}

/// `: TEXT`. Empty for an empty text.
pub(super) fn after_colon(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

pub(super) fn or_empty<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

pub(super) fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

pub(super) fn optional_time(at: Option<DateTime<Utc>>) -> String {
    or_empty(at.map(time))
}

pub(super) fn joined<T: std::fmt::Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    values.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_not_wrapped() {
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
    fn control_characters_are_removed() {
        assert_eq!(clean("a\u{1b}[31mb\r\u{7}c\nd"), "a [31mb  c\nd");
    }
}
