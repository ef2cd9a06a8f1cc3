//! Sends a run's cases as a batch, to show an evaluation on the pages. The service scores them itself and doesn't store scores made
//! elsewhere.

use std::path::Path;

use clap::Args;
use sha2::{Digest as _, Sha256};

use crate::cli::connection::given;
use crate::cli::outcome::CliError;
use crate::cli::output;
use crate::client::{Client, ClientError};
use crate::report::{ReportError, ResultLines, Source as _};
use crate::score::read_case;
use crate::suite::Format;
use crate::suite::run::RunFolder;
use crate::suite::run::folder::{Label, RESULTS};
use crate::wire::Batch;
use crate::wire::words::counted;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batch")]
pub(in crate::cli) struct LabelArgs {
    /// Name of the batch [default: the suite's file name]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Evaluated branch; part of the name [default: from CI]
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Evaluated commit [default: from CI]
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
}

impl LabelArgs {
    /// Returns the label from the flags only.
    pub(in crate::cli) fn given(&self) -> Label {
        Label {
            name: self.name.clone(),
            branch: self.branch.clone(),
            commit: self.commit.clone(),
        }
    }

    /// Returns the label from the flags, otherwise from CI.
    pub(in crate::cli) fn read(&self) -> Label {
        self.given()
            .or(Label::of_ci(|name| std::env::var(name).ok()))
    }
}

/// Sends the cases of the run in `dir`. Fields missing in `label` default to the header's. Within a day, the same cases return the same
/// batch. `None` if the run has no cases.
pub(in crate::cli) async fn push(
    client: &Client,
    dir: &Path,
    label: &Label,
) -> Result<Option<Batch>, CliError> {
    let header = RunFolder::header_of(dir)?;
    let label = label.clone().or(header.label);
    let lines = ResultLines::open(&dir.join(RESULTS))?;
    let (mut body, mut sent) = (Vec::new(), 0);
    lines.each(&mut |item| {
        let is_unanswered = item
            .error
            .as_ref()
            .is_some_and(|error| ["agent", "cancelled"].contains(&error.class.as_str()));
        if is_unanswered || read_case(item.kind, &item.payload).is_err() {
            return Ok(());
        }
        serde_json::to_writer(&mut body, &item.payload)
            .map_err(|error| ReportError::writing("a case", error))?;
        body.push(b'\n');
        sent += 1;
        Ok(())
    })?;
    if sent == 0 {
        return Ok(None);
    }
    if lines.len() > sent {
        let left = counted(lines.len() - sent, "item");
        output::note(&format!(
            "{left} without an answer that could be scored: not in the batch"
        ));
    }
    // Pins the run's criteria, because others may have become current since.
    let criteria_hash = match (header.options.criteria_hash, header.judged_by) {
        (Some(asked), _) => Some(asked),
        (None, Some(bench)) => stored(client, bench.criteria_hash).await?,
        (None, None) => None,
    };
    let query = given([
        ("kind", Some(header.kind.to_string())),
        ("name", Some(label.title(&header.suite.path))),
        ("criteria_hash", criteria_hash),
    ]);
    let mut digest = Sha256::new();
    digest.update(format!("{query:?}"));
    digest.update(&body);
    let digest = hex::encode(digest.finalize());
    let key = format!("{}-{}", header.run_id, digest.get(..16).unwrap_or_default());
    let file = (Format::Jsonl.media_type(), body);
    Ok(Some(client.start_batch(file, &query, &key).await?))
}

/// Returns the hash if the service has the criteria of a run made without a server.
async fn stored(client: &Client, hash: String) -> Result<Option<String>, CliError> {
    match client.criteria(&hash).await {
        Err(ClientError::Refused(problem)) if problem.status == 404 => {
            output::note(&format!(
                "the service doesn't have the run's criteria {hash}: it scores by its current ones"
            ));
            Ok(None)
        }
        // The enqueue scope can't read criteria.
        Err(ClientError::Refused(problem)) if problem.status == 403 => Ok(Some(hash)),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Some(hash)),
    }
}
