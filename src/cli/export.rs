//! `gavel export`: sessions with their scores as a file, and scores as a table.

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Global;
use super::choice::choice;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output;
use crate::client::{ClientError, Download};
use crate::report;
use crate::wire::{TableFormat, words};

/// Export sessions with their scores, or scores as CSV or Parquet
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel export training --output training.jsonl\n  gavel export training --min-score 90 --limit 1000 > best.jsonl\n  gavel export scores --criteria current --output scores.csv\n  gavel export scores --agent noc --max-score 59 --output weak.parquet"
)]
pub(super) struct Export {
    #[command(subcommand)]
    command: ExportCommand,
}

#[derive(Debug, Subcommand)]
enum ExportCommand {
    /// Sessions with good scores, a JSON object a line: {"session": .., "score": ..}
    #[command(
        long_about = "Sessions with good scores, a JSON object a line: {\"session\": .., \"score\": ..}, in the order of \
                      their ids. Only scores of real judges that are current when the export begins. A file is \
                      written whole or not at all.\n\nExit codes: 0 all are written, 3 the export broke off, 4 there \
                      are none."
    )]
    Training {
        /// Total at least, 0-100
        #[arg(long, default_value_t = 85, value_parser = clap::value_parser!(u8).range(0..=100))]
        min_score: u8,
        #[command(flatten)]
        which: Which,
    },
    /// Current scores as CSV or Parquet, a row a score
    #[command(
        long_about = "Current scores of real judges as CSV or Parquet, a row a score, in the order of their sessions' ids.\n\nExit codes: 0 all \
                      are written, 3 the export broke off (a file is written whole or not at all)."
    )]
    Scores {
        /// Total at least, 0-100
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
        min_score: u8,
        #[command(flatten)]
        rows: Box<TableArgs>,
        #[command(flatten)]
        which: Which,
    },
}

/// Which rows a table has, and as what it is written.
#[derive(Debug, Args)]
struct TableArgs {
    /// Write csv or parquet [default: what --output ends with, else csv]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<TableFormat>(TableFormat::ALL.iter().map(|it| it.as_str())))]
    format: Option<TableFormat>,
    /// Total at most, 0-100
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100))]
    max_score: Option<u8>,
    /// Of sessions of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Of sessions with this alert type
    #[arg(long, value_name = "TYPE")]
    alert_type: Option<String>,
    /// Of sessions with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Scores that miss this tool
    #[arg(long, value_name = "TOOL")]
    missing_tool: Option<String>,
}

impl TableArgs {
    /// As what the table is written. A terminal gets no Parquet.
    fn format(&self, output: Option<&Path>) -> Result<TableFormat, CliError> {
        let ending = output.and_then(Path::extension);
        let by_name = || match ending.map(|end| end.to_string_lossy().parse()) {
            Some(Ok(format)) => Ok(format),
            None => Ok(TableFormat::Csv),
            Some(Err(_)) => Err(CliError::usage(format!(
                "{} names no format: end it with .csv or .parquet, or give --format",
                output.unwrap_or(Path::new("")).display()
            ))),
        };
        let format = self.format.map_or_else(by_name, Ok)?;
        if format == TableFormat::Parquet && output.is_none() && std::io::stdout().is_terminal() {
            return Err(CliError::usage(
                "a Parquet file is no text: name a file with --output, or send stdout to one",
            ));
        }
        Ok(format)
    }

    fn query(&self) -> impl Iterator<Item = (&'static str, String)> {
        let given = [
            ("max_score", self.max_score.map(|most| most.to_string())),
            ("agent", self.agent.clone()),
            ("alert_type", self.alert_type.clone()),
            ("tag", self.tag.clone()),
            ("missing_tool", self.missing_tool.clone()),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

#[derive(Debug, Args)]
struct Which {
    /// Scores made with these criteria: current, or a hash, at least its first 8 digits [default: any]
    #[arg(long, value_name = "CRITERIA")]
    criteria: Option<String>,
    /// Of sessions that completed at or after, RFC 3339
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Of sessions that completed before, RFC 3339
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl Export {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        if let ExportCommand::Scores { rows, which, .. } = &self.command {
            rows.format(which.output.as_deref())?;
        }
        let (ExportCommand::Training { which, .. } | ExportCommand::Scores { which, .. }) =
            &self.command;
        let command = async |connection: Connection<'_>| match &self.command {
            ExportCommand::Training { min_score, which } => {
                let mut query = which.query(*min_score);
                query.push(("end", "true".to_owned()));
                which.write(connection.client.training(&query).await?).await
            }
            ExportCommand::Scores {
                min_score,
                rows,
                which,
            } => {
                let format = rows.format(which.output.as_deref())?;
                let mut query = which.query(*min_score);
                query.extend(rows.query());
                query.push(("format", format.to_string()));
                let export = connection.client.scores_table(&query).await?;
                which.table(export, format).await
            }
        };
        which.connection.run(global, Needs::Existing, command).await
    }
}

/// Why a table of scores may be empty.
const NO_ROW: &str =
    "no current score of a real judge matches, and simulated ones are in no export";

impl Which {
    fn query(&self, min_score: u8) -> Vec<(&'static str, String)> {
        let given = [
            ("criteria", self.criteria.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        let given = given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        given
            .chain([("min_score", min_score.to_string())])
            .collect()
    }

    async fn table(&self, mut export: Download, format: TableFormat) -> Result<Exit, CliError> {
        let broke_off = |error: ClientError| {
            CliError::incomplete(format!("the export broke off: {error}; try again"))
        };
        // The first line of CSV names the columns.
        let is_empty = |lines: usize| format == TableFormat::Csv && lines <= 1;
        let lines_of = |chunk: &[u8]| chunk.iter().filter(|byte| **byte == b'\n').count();
        let mut lines = 0;
        let Some(path) = &self.output else {
            while let Some(chunk) = export.chunk().await.map_err(broke_off)? {
                lines += lines_of(&chunk);
                std::io::stdout().write_all(&chunk)?;
            }
            if is_empty(lines) {
                output::note(&format!("there is no row: {NO_ROW}"));
            }
            return Ok(Exit::Done);
        };
        let failed = |error: &dyn std::fmt::Display| {
            CliError::incomplete(format!("writing {}: {error}", path.display()))
        };
        let mut file = report::beside(path).map_err(|e| failed(&e))?;
        while let Some(chunk) = export.chunk().await.map_err(broke_off)? {
            lines += lines_of(&chunk);
            file.write_all(&chunk).map_err(|e| failed(&e))?;
        }
        let rows = match format {
            TableFormat::Csv => i64::from(!is_empty(lines)),
            TableFormat::Parquet => {
                let written = file.reopen().map_err(|e| failed(&e))?;
                report::rows_of(written).map_err(|e| failed(&e))?
            }
        };
        file.persist(path).map_err(|e| failed(&e.error))?;
        let path = path.display();
        let why = match rows == 0 {
            true => format!(" without a row: {NO_ROW}"),
            false => String::new(),
        };
        output::note(&format!("wrote {path}{why}"));
        Ok(Exit::Done)
    }

    async fn write(&self, export: Download) -> Result<Exit, CliError> {
        let Some(path) = &self.output else {
            // Unlocked between the lines: whoever else writes isn't held up by a slow service.
            let count = copy(export, |line| std::io::stdout().write_all(line)).await?;
            return Ok(said(count, None));
        };
        let failed = |error: &dyn std::fmt::Display| {
            CliError::incomplete(format!("writing {}: {error}", path.display()))
        };
        let mut file = report::beside(path).map_err(|e| failed(&e))?;
        let count = copy(export, |line| file.write_all(line)).await?;
        if count > 0 {
            file.persist(path).map_err(|e| failed(&e.error))?;
        }
        Ok(said(count, Some(path)))
    }
}

fn said(count: u64, path: Option<&Path>) -> Exit {
    let sessions = words::counted(count, "session");
    match path {
        _ if count == 0 => {
            output::note("nothing to export: no current score of a real judge reaches --min-score");
            return Exit::Nothing;
        }
        Some(path) => output::note(&format!("wrote {sessions} to {}", path.display())),
        None => output::note(&format!("wrote {sessions}")),
    }
    Exit::Done
}

/// Hands on whole lines, but for the last one, which says how many there are.
async fn copy(
    mut export: Download,
    mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<u64, CliError> {
    let mut lines = LineCutter::default();
    while let Some(chunk) = export
        .chunk()
        .await
        .map_err(|error| lines.broke_off(&format!(": {error}")))?
    {
        for line in lines.cut(chunk) {
            write(&line)?;
        }
    }
    lines.count()
}

/// Cuts what comes into lines, and holds the last one back.
#[derive(Debug, Default)]
struct LineCutter {
    /// What came since the last line's end.
    rest: Vec<u8>,
    held: Option<Vec<u8>>,
    handed_on: u64,
}

impl LineCutter {
    fn cut(&mut self, chunk: Vec<u8>) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                whole.extend(self.held.replace(line));
            }
        }
        self.handed_on += whole.len() as u64;
        whole
    }

    /// How many lines were handed on, if the service says that these are all.
    fn count(self) -> Result<u64, CliError> {
        /// The last line of an export, as `end=true` asks for it.
        #[derive(serde::Deserialize)]
        struct End {
            end: bool,
            count: u64,
        }
        let last: Option<End> = self
            .held
            .as_ref()
            .and_then(|line| serde_json::from_slice(line).ok());
        match last.filter(|last| last.end).map(|last| last.count) {
            Some(count) if count == self.handed_on && self.rest.is_empty() => Ok(count),
            Some(_) | None => Err(self.broke_off("")),
        }
    }

    fn broke_off(&self, why: &str) -> CliError {
        let sessions = words::counted(self.handed_on, "session");
        CliError::incomplete(format!(
            "the export broke off after {sessions}{why}; try again"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&str]) -> (Vec<String>, Result<u64, String>) {
        let mut lines = LineCutter::default();
        let mut whole = Vec::new();
        for chunk in chunks {
            for line in lines.cut(chunk.as_bytes().to_vec()) {
                whole.push(String::from_utf8(line).unwrap());
            }
        }
        (whole, lines.count().map_err(|error| error.message))
    }

    #[test]
    fn lines_are_handed_on_whole_and_the_last_one_is_not() {
        let (lines, count) = cut(&[
            "{\"a\":",
            "1}\n{\"b\":2}",
            "\n{\"end\":true,",
            "\"count\":2}\n",
        ]);
        assert_eq!(lines, ["{\"a\":1}\n", "{\"b\":2}\n"]);
        assert_eq!(count, Ok(2));
        assert_eq!(cut(&["{\"end\":true,\"count\":0}\n"]), (vec![], Ok(0)));
    }

    #[test]
    fn an_export_without_its_last_line_broke_off() {
        let broken: [&[&str]; 5] = [
            &[],
            &["{\"a\":1}\n"],
            &["{\"a\":1}\n{\"end\":true"],
            &["{\"a\":1}\n{\"end\":true,\"count\":2}\n"],
            &["{\"a\":1}\n{\"end\":true,\"count\":1}\n{"],
        ];
        for chunks in broken {
            let (_, count) = cut(chunks);
            assert!(count.unwrap_err().contains("broke off"), "{chunks:?}");
        }
    }
}
