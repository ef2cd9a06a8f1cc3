//! `gavel export`: writes sessions with their scores to a file, and scores as a table.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Global;
use super::choice::choice;
use super::connection::{Connection, ConnectionArgs, Needs, given};
use super::outcome::{CliError, Exit};
use super::output;
use crate::client::Download;
use crate::report;
use crate::wire::{SessionFilter, TableFormat, pairs, words};

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
        #[command(flatten)]
        target: Target,
    },
    /// Export current scores as CSV or Parquet, one row per score
    #[command(
        long_about = "Current scores of real judges as CSV or Parquet, one row per score, ordered by session \
            id.\n\nExit codes: 0 all are written, 3 the export failed (a file is then left unchanged)."
    )]
    Scores {
        /// Format: csv or parquet [default: from the extension of --output, otherwise csv]
        #[arg(long, value_name = "FORMAT", value_parser = choice::<TableFormat>(TableFormat::ALL.iter().map(|it| it.as_str())))]
        format: Option<TableFormat>,
        /// Only scores made with these criteria: current, or a hash (at least 8 digits) [default: any]
        #[arg(long, value_name = "CRITERIA")]
        criteria: Option<String>,
        #[command(flatten)]
        filter: Box<SessionFilter>,
        #[command(flatten)]
        target: Target,
    },
}

/// Format of a table. Parquet is not written to a terminal.
fn format_of(given: Option<TableFormat>, output: Option<&Path>) -> Result<TableFormat, CliError> {
    let ending = output.and_then(Path::extension);
    let by_name = || match ending.map(|end| end.to_string_lossy().parse()) {
        Some(Ok(format)) => Ok(format),
        None => Ok(TableFormat::Csv),
        Some(Err(_)) => Err(CliError::usage(format!(
            "{} names no format: end it with .csv or .parquet, or give --format",
            output.unwrap_or(Path::new("")).display()
        ))),
    };
    let format = given.map_or_else(by_name, Ok)?;
    if format == TableFormat::Parquet && output.is_none() && io::stdout().is_terminal() {
        return Err(CliError::usage(
            "a Parquet file is no text: name a file with --output, or send stdout to one",
        ));
    }
    Ok(format)
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
}

#[derive(Debug, Args)]
struct Target {
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
        match &self.command {
            ExportCommand::Training {
                min_score,
                selection,
                target,
            } => {
                let mut query = given([
                    ("criteria", selection.criteria.clone()),
                    ("from", selection.from.clone()),
                    ("to", selection.to.clone()),
                    ("min_score", Some(min_score.to_string())),
                ]);
                query.extend(target.limit());
                let export = async |connection: Connection<'_>| {
                    target
                        .training(connection.client.training(&query).await?)
                        .await
                };
                target.connection.run(global, Needs::Existing, export).await
            }
            ExportCommand::Scores {
                format,
                criteria,
                filter,
                target,
            } => {
                let format = format_of(*format, target.output.as_deref())?;
                let filter = pairs(&SessionFilter {
                    criteria: criteria.clone(),
                    ..*filter.clone()
                });
                let filter = filter.iter();
                let mut query: Vec<_> = filter
                    .map(|(name, value)| (name.as_str(), value.clone()))
                    .collect();
                query.extend(target.limit());
                query.push(("format", format.to_string()));
                let export = async |connection: Connection<'_>| {
                    let export = connection.client.scores_table(&query).await?;
                    target.table(export, format).await
                };
                target.connection.run(global, Needs::Existing, export).await
            }
        }
    }
}

/// Explanation of an empty table.
const NO_ROW: &str =
    "no current score of a real judge matches, and simulated ones are in no export";

impl Target {
    fn limit(&self) -> Option<(&'static str, String)> {
        self.limit.map(|limit| ("limit", limit.to_string()))
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
