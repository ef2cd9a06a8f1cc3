//! `gavel export`: writes sessions with their scores to a file, and scores as a table.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Global;
use super::choice::choice;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output;
use crate::client::Download;
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
    /// Export sessions with good scores, one JSON object per line: {"session": .., "score": ..}
    #[command(
        long_about = "Sessions with good scores, one JSON object per line: {\"session\": .., \"score\": ..}, ordered \
            by id. Exports the scores of real judges that are current when the export starts. A file is replaced \
            atomically.\n\nExit codes: 0 all are written, 3 the export failed, 4 no such scores."
    )]
    Training {
        /// Minimum total, 0-100
        #[arg(long, default_value_t = 85, value_parser = clap::value_parser!(u8).range(0..=100))]
        min_score: u8,
        #[command(flatten)]
        selection: ScoreSelection,
    },
    /// Export current scores as CSV or Parquet, one row per score
    #[command(
        long_about = "Current scores of real judges as CSV or Parquet, one row per score, ordered by session \
            id.\n\nExit codes: 0 all are written, 3 the export failed (a file is then left unchanged)."
    )]
    Scores {
        /// Minimum total, 0-100
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
        min_score: u8,
        #[command(flatten)]
        rows: Box<TableArgs>,
        #[command(flatten)]
        selection: ScoreSelection,
    },
}

#[derive(Debug, Args)]
struct TableArgs {
    /// Format: csv or parquet [default: from the extension of --output, otherwise csv]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<TableFormat>(TableFormat::ALL.iter().map(|it| it.as_str())))]
    format: Option<TableFormat>,
    /// Maximum total, 0-100
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100))]
    max_score: Option<u8>,
    /// Only sessions of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only sessions with this alert type
    #[arg(long, value_name = "TYPE")]
    alert_type: Option<String>,
    /// Only sessions with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only scores that miss this tool
    #[arg(long, value_name = "TOOL")]
    missing_tool: Option<String>,
}

impl TableArgs {
    /// Format of the table. Parquet is not written to a terminal.
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
        if format == TableFormat::Parquet && output.is_none() && io::stdout().is_terminal() {
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
struct ScoreSelection {
    /// Only scores made with these criteria: current, or a hash (at least 8 digits) [default: any]
    #[arg(long, value_name = "CRITERIA")]
    criteria: Option<String>,
    /// Only sessions completed at or after this RFC 3339 time
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only sessions completed before this RFC 3339 time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Maximum number of results
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
        if let ExportCommand::Scores {
            rows, selection, ..
        } = &self.command
        {
            rows.format(selection.output.as_deref())?;
        }
        let (ExportCommand::Training { selection, .. } | ExportCommand::Scores { selection, .. }) =
            &self.command;
        let command = async |connection: Connection<'_>| match &self.command {
            ExportCommand::Training {
                min_score,
                selection,
            } => {
                let query = selection.query(*min_score);
                selection
                    .training(connection.client.training(&query).await?)
                    .await
            }
            ExportCommand::Scores {
                min_score,
                rows,
                selection,
            } => {
                let format = rows.format(selection.output.as_deref())?;
                let mut query = selection.query(*min_score);
                query.extend(rows.query());
                query.push(("format", format.to_string()));
                let export = connection.client.scores_table(&query).await?;
                selection.table(export, format).await
            }
        };
        selection
            .connection
            .run(global, Needs::Existing, command)
            .await
    }
}

/// Explanation of an empty table.
const NO_ROW: &str =
    "no current score of a real judge matches, and simulated ones are in no export";

impl ScoreSelection {
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

    async fn table(&self, export: Download, format: TableFormat) -> Result<Exit, CliError> {
        let (lines, file) = output::save(export, self.output.as_deref()).await?;
        let is_empty = match (format, file) {
            // The first CSV line is the header.
            (TableFormat::Csv, _) => lines <= 1,
            (TableFormat::Parquet, Some(file)) => {
                let rows = report::rows_of(file);
                rows.map_err(|error| CliError::incomplete(error.to_string()))? == 0
            }
            (TableFormat::Parquet, None) => false,
        };
        let why = match is_empty {
            true => format!(" without a row: {NO_ROW}"),
            false => String::new(),
        };
        match &self.output {
            Some(path) => output::note(&format!("wrote {}{why}", path.display())),
            None if is_empty => output::note(&format!("wrote a table{why}")),
            None => {}
        }
        Ok(Exit::Done)
    }

    async fn training(&self, export: Download) -> Result<Exit, CliError> {
        let (sessions, _) = output::save(export, self.output.as_deref()).await?;
        if sessions == 0 {
            output::note(
                "no scores to export: no current score of a real judge reaches --min-score",
            );
            return Ok(Exit::Nothing);
        }
        let sessions = words::counted(sessions, "session");
        output::note(&match &self.output {
            Some(path) => format!("wrote {sessions} to {}", path.display()),
            None => format!("wrote {sessions}"),
        });
        Ok(Exit::Done)
    }
}
