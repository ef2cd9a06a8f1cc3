//! `gavel report`: writes the report of a run or of a batch, in any format.

use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use uuid::Uuid;

use super::Global;
use super::choice::choice;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output;
use crate::client::Client;
use crate::clock::{Clock as _, SystemClock};
use crate::report::{self, Format, Judging, Meta, ResultLines, Simulated};
use crate::suite::run::RunFolder;
use crate::suite::run::folder::RESULTS;
use crate::wire::ItemOutcome;

/// Write the report of a run or of a batch
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel report reports/evaluation-runs/run-20260102T030405Z\n  gavel report reports/evaluation-runs/run-20260102T030405Z --output report.xlsx\n  gavel report 019ab2c3-7d1e-7000-8000-0123456789ab --format junit.xml \\\n      --server http://127.0.0.1:8080",
    long_about = "Write the report of a run or of a batch.\n\nThe report is written to stdout, or atomically to the \
        file in --output. A report has no gate: exit 0 means that it was written, not that the items passed. Its \
        verdict ignores the gate flags of the run, unlike the reports that `gavel evaluate` wrote into the run's \
        folder. Simulated scores don't count as passed unless you add --allow-simulated."
)]
pub(super) struct Report {
    /// Folder of a run, its evaluation-results.jsonl, or the id of a batch
    #[arg(value_name = "RUN_DIR|BATCH_ID")]
    of: String,
    /// Format: json, jsonl, csv, xlsx, parquet, junit.xml or md [default: from the extension of --output, otherwise md]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only items of a batch with this outcome; for jsonl, csv and parquet
    #[arg(long, value_name = "OUTCOME", value_parser = choice::<ItemOutcome>(ItemOutcome::ALL.iter().map(|it| it.as_str())))]
    outcome: Option<ItemOutcome>,
    /// Let scores of a simulated judge pass
    #[arg(long)]
    allow_simulated: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

enum Subject {
    Run { results: PathBuf, folder: PathBuf },
    Batch(Uuid),
}

impl Report {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let format = self.format()?;
        if format.is_binary() && self.output.is_none() && io::stdout().is_terminal() {
            return Err(CliError::usage(
                "a workbook or a Parquet file is no text: name a file with --output, or send stdout to one",
            ));
        }
        self.check_output_folder()?;
        match self.subject()? {
            Subject::Run { .. } if self.outcome.is_some() => {
                return Err(CliError::usage(
                    "--outcome selects items of a batch: give a batch's id, or omit it",
                ));
            }
            Subject::Run { results, folder } => self.report_run(results, &folder, format).await?,
            Subject::Batch(id) => {
                let command = async |connection: Connection<'_>| {
                    self.report_batch(connection.client, id, format).await
                };
                self.connection
                    .run(global, Needs::Existing, command)
                    .await?;
            }
        }
        Ok(Exit::Done)
    }

    /// The requested format, otherwise from the output's extension, otherwise Markdown.
    fn format(&self) -> Result<Format, CliError> {
        let Some(output) = &self.output else {
            return Ok(self.format.unwrap_or(Format::Markdown));
        };
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let by_name = Format::ALL
            .into_iter()
            .find(|format| name.ends_with(&format!(".{format}")));
        let xml = name.ends_with(".xml").then_some(Format::Junit);
        self.format.or(by_name).or(xml).ok_or_else(|| {
            CliError::usage(format!(
                "{name} names no format: end it with .json, .jsonl, .csv, .xlsx, .parquet, .xml or .md, or give --format"
            ))
        })
    }

    /// Checks that the output's folder exists, before any data is read.
    fn check_output_folder(&self) -> Result<(), CliError> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        let fault = |what: &str| {
            CliError::usage(format!(
                "--output {}: {what}; make its folder, or name another file",
                output.display()
            ))
        };
        let dir = output.parent().filter(|dir| !dir.as_os_str().is_empty());
        match dir {
            Some(dir) if !dir.is_dir() => Err(fault(&format!("no folder {}", dir.display()))),
            Some(_) | None if output.is_dir() => Err(fault("is a folder")),
            Some(_) | None => Ok(()),
        }
    }

    /// Resolves the argument: a folder, a file, otherwise a batch.
    fn subject(&self) -> Result<Subject, CliError> {
        let path = Path::new(&self.of);
        if path.is_dir() {
            return Ok(Subject::Run {
                results: path.join(RESULTS),
                folder: path.to_owned(),
            });
        }
        if path.is_file() {
            let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            return Ok(Subject::Run {
                results: path.to_owned(),
                folder: folder.unwrap_or(Path::new(".")).to_owned(),
            });
        }
        self.of.parse().map(Subject::Batch).map_err(|_| {
            CliError::usage(format!(
                "{:?} is not a run's folder or a batch id: give a folder under reports/evaluation-runs, or a UUID",
                self.of
            ))
        })
    }

    async fn report_run(
        &self,
        results: PathBuf,
        folder: &Path,
        format: Format,
    ) -> Result<(), CliError> {
        // Results made by other tools have no header and count as complete.
        let (name, asked, judging, judged_by) = match RunFolder::header_of(folder) {
            Ok(header) => (
                header.suite.path.display().to_string(),
                header.asked(),
                header.judging(),
                header.judged_by,
            ),
            Err(_) => (name_of(folder), 0, Judging::Asked, None),
        };
        let mut meta = Meta {
            run: Some(folder.display().to_string()),
            name,
            made_at: SystemClock.now(),
            unfinished: 0,
            simulated: match self.allow_simulated {
                true => Simulated::Allowed,
                false => Simulated::Refused,
            },
            judging,
            criteria_hash: judged_by.map(|bench| bench.criteria_hash),
        };
        let output = self.output.clone();
        let written = tokio::task::spawn_blocking(move || {
            let items = ResultLines::open(&results)?;
            meta.unfinished = asked.saturating_sub(items.len());
            match output {
                Some(path) => {
                    report::write_file(format, &items, &meta, &path)?;
                    note_written(&path);
                }
                None => {
                    let mut file = tempfile::tempfile()?;
                    report::write(format, &items, &meta, &mut io::BufWriter::new(&mut file))?;
                    print(file)?;
                }
            }
            Ok(())
        });
        written
            .await
            .map_err(|error| CliError::incomplete(format!("writing the report: {error}")))?
    }

    async fn report_batch(
        &self,
        client: &Client,
        id: Uuid,
        format: Format,
    ) -> Result<(), CliError> {
        let mut query = vec![("allow_simulated", self.allow_simulated.to_string())];
        query.extend(self.outcome.map(|it| ("outcome", it.to_string())));
        let report = client
            .report(id, &format!("report.{format}"), &query)
            .await?;
        output::save(report, self.output.as_deref()).await?;
        if let Some(path) = &self.output {
            note_written(path);
        }
        Ok(())
    }
}

fn name_of(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    name.to_string_lossy().into_owned()
}

fn note_written(path: &Path) {
    output::note(&format!("wrote {}", path.display()));
}

fn print(mut file: File) -> io::Result<()> {
    file.rewind()?;
    let mut out = io::stdout().lock();
    io::copy(&mut file, &mut out)?;
    out.flush()
}
