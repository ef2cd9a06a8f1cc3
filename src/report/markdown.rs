//! Markdown report of at most 900 KB, the limit of comments and job summaries of CI servers.
//!
//! Order: the summary, passes, misses and unexecuted items with breakdown and the judge's reasoning, then items without a score because of
//! their judge. Each part has a size limit, and a truncated part states the number of omitted items. Text of items is untrusted, so
//! it is escaped or fenced.

use std::fmt::Write as _;
use std::io::Write;

use serde_json::Value;

use super::columns::ColumnType;
use super::item::Status;
use super::overview::{self, Section};
use super::plain::{Plain, cut, markdown, markdown_block};
use super::summary::Figures;
use super::{Item, Meta, ReportError, Source};

/// Maximum bytes of the document.
pub(super) const LONGEST: usize = 900_000;
/// Maximum bytes of the summary, which has at most 100 groups.
const SUMMARY: usize = 100_000;
/// Maximum bytes of misses.
const MISSES: usize = 500_000;
/// Maximum bytes of judge errors.
const JUDGE: usize = 150_000;
const TEXT: usize = 4_000;
/// Maximum characters of a gate's reason, which may list items.
const REASON: usize = 1_000;
/// Maximum characters of a text in a table.
const IN_TABLE: usize = 120;

/// Part of the document. Accepts items until it is full, then counts them.
struct Chapter {
    title: &'static str,
    text: String,
    room: usize,
    items: u64,
    left_out: u64,
}

impl Chapter {
    fn new(title: &'static str, room: usize) -> Self {
        Self {
            title,
            text: String::new(),
            room,
            items: 0,
            left_out: 0,
        }
    }

    fn add(&mut self, text: &str) {
        self.items += 1;
        if self.left_out == 0 && self.text.len() + text.len() <= self.room {
            self.text.push_str(text);
        } else {
            self.left_out += 1;
        }
    }

    fn finish(&self, empty: &str) -> String {
        let mut out = format!("\n## {} ({})\n\n", self.title, self.items);
        if self.items == 0 {
            let _ = writeln!(out, "{empty}");
        }
        out.push_str(&self.text);
        if self.left_out > 0 {
            let _ = writeln!(
                out,
                "\n_{} more omitted for length: report.json and report.csv contain all._",
                self.left_out
            );
        }
        out
    }
}

pub(super) fn write(
    out: &mut dyn Write,
    source: &(impl Source + ?Sized),
    (figures, meta): (&Figures, &Meta),
) -> Result<(), ReportError> {
    let mut misses = Chapter::new("Missed or not executed", MISSES);
    let mut judge = Chapter::new("Without the judge's part", JUDGE);
    source.each(&mut |item| {
        match item.status() {
            Status::Pass | Status::Scored => {}
            Status::Incomplete if is_judges(item) => judge.add(&judge_row(item)),
            Status::Fail | Status::Incomplete => misses.add(&miss(item)),
        }
        Ok(())
    })?;
    if judge.items > 0 {
        judge
            .text
            .insert_str(0, "| Item | Class | What happened |\n| --- | --- | --- |\n");
    }
    let head = head(figures, meta);
    let misses = misses.finish("Nothing missed.");
    let judge = judge.finish("All judge calls succeeded.");
    let room = LONGEST.saturating_sub(head.len() + misses.len() + judge.len() + 1_000);
    let mut passed = Chapter::new("Passed", room);
    source.each(&mut |item| {
        match item.status() {
            Status::Pass | Status::Scored => passed.add(&passed_row(item)),
            Status::Fail | Status::Incomplete => {}
        }
        Ok(())
    })?;
    if passed.items > 0 {
        passed.text.insert_str(
            0,
            "| Item | Asked | Score | Components |\n| --- | --- | --- | --- |\n",
        );
    }
    let passed = passed.finish("Nothing passed.");
    for part in [head, passed, misses, judge] {
        out.write_all(part.as_bytes())
            .map_err(|error| ReportError::writing("the Markdown report", error))?;
    }
    Ok(())
}

/// Returns whether only an item's judged part is missing: the judge failed, or wasn't used (`--no-judge`).
fn is_judges(item: &Item) -> bool {
    let not_run = item
        .error
        .as_ref()
        .is_some_and(|error| error.class == "not_run");
    // A line of another program has no details about missing parts.
    let is_untold = item.error.is_none() && item.missing().is_empty();
    not_run || is_untold || item.is_judge_error()
}

fn head(figures: &Figures, meta: &Meta) -> String {
    let mut out = format!("# {}\n\n", markdown(&cut(&meta.name, IN_TABLE)));
    let verdict = overview::verdict(figures.verdict);
    match &figures.gate {
        None => {
            let _ = writeln!(out, "**{verdict}**\n");
        }
        Some(gate_result) => {
            let _ = writeln!(out, "**{}**\n", overview::gate(gate_result.decision));
            for reason in &gate_result.reasons {
                let _ = writeln!(out, "- {}", markdown(&cut(reason, REASON)));
            }
            if !gate_result.reasons.is_empty() {
                out.push('\n');
            }
            let _ = writeln!(out, "Without gates: {verdict}\n");
        }
    }
    for note in overview::notes(figures, meta) {
        let _ = writeln!(out, "> {}\n", markdown(&note));
    }
    for section in overview::sections(figures, meta) {
        let text = table(&section);
        if out.len() + text.len() <= SUMMARY {
            out.push_str(&text);
        }
    }
    out
}

fn table(section: &Section) -> String {
    let head = if section.head.is_empty() {
        vec!["", ""]
    } else {
        section.head.clone()
    };
    let mut out = format!("\n## {}\n\n| {} |\n|", section.title, head.join(" | "));
    out.push_str(&" --- |".repeat(head.len()));
    out.push('\n');
    for row in &section.rows {
        let cells: Vec<String> = row.iter().map(in_table).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

fn in_table(cell: &Value) -> String {
    match Plain::new(cell, ColumnType::Number) {
        Plain::Text(text) => markdown(&cut(&text, 1_000)),
        Plain::Number(number) => format!("{}", (number * 1e4).round() / 1e4),
        Plain::Flag(flag) => flag.to_string(),
    }
}

fn name(item: &Item) -> String {
    markdown(&cut(&item.name(), IN_TABLE))
}

fn mark(item: &Item) -> &'static str {
    if item.simulated { " (simulated)" } else { "" }
}

fn passed_row(item: &Item) -> String {
    let asked = markdown(&cut(item.question(), IN_TABLE));
    let score = item.shown_total();
    format!(
        "| {} | {asked} | {score}{} | {} |\n",
        name(item),
        mark(item),
        item.scores()
    )
}

fn judge_row(item: &Item) -> String {
    let (class, message) = item.fault();
    format!(
        "| {} | {} | {} |\n",
        name(item),
        markdown(&cut(class, IN_TABLE)),
        markdown(&cut(&message, 500))
    )
}

fn miss(item: &Item) -> String {
    let mut out = format!(
        "### {}: {}{}\n\n",
        name(item),
        item.shown_total(),
        mark(item)
    );
    let asked = item.question();
    if !asked.is_empty() {
        let _ = writeln!(out, "{}", markdown_block(asked, TEXT));
    }
    if let Some(error) = &item.error {
        let _ = writeln!(
            out,
            "Not executed or not scored ({}):\n\n{}",
            markdown(&cut(&error.class, IN_TABLE)),
            markdown_block(&error.message, TEXT)
        );
    }
    if let Some(fault) = item.execution_error() {
        let _ = writeln!(out, "Not executed:\n\n{}", markdown_block(fault, TEXT));
    }
    if let Some(why) = item.unreadable() {
        let why = markdown_block(why, TEXT);
        let _ = writeln!(out, "The SQL can't be read:\n\n{why}");
    }
    for (title, score, words) in item.breakdown() {
        let _ = writeln!(out, "- {title}: {score}");
        if !words.is_empty() {
            let _ = writeln!(out, "\n{}", markdown_block(words, TEXT));
        }
    }
    out.push('\n');
    out
}
