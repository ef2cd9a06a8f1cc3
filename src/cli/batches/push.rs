//! A run's cases as a batch, so that pages show what was evaluated elsewhere. The service scores them itself: scores that
//! somebody else made are not stored as if they were its own.

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

/// What a run's batch is called.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batch")]
pub(in crate::cli) struct LabelArgs {
    /// What the run's batch is called [default: the suite's file name]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// The branch that is evaluated; it is part of the name [default: the one that CI names]
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Its commit [default: the one that CI names]
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
}

impl LabelArgs {
    /// What the flags say, and nothing else.
    pub(in crate::cli) fn given(&self) -> Label {
        Label {
            name: self.name.clone(),
            branch: self.branch.clone(),
            commit: self.commit.clone(),
        }
    }

    /// What the flags say, else CI.
    pub(in crate::cli) fn read(&self) -> Label {
        self.given()
            .or(Label::of_ci(|name| std::env::var(name).ok()))
    }
}

/// Sends the cases of the run in `dir`; what `label` doesn't say, its header does. The same cases make the same batch for a day.
/// `None`: it has none.
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
    // What became current meanwhile judged none of them.
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

/// The criteria of a run that was made without a server, if the service has them, too.
async fn stored(client: &Client, hash: String) -> Result<Option<String>, CliError> {
    match client.criteria(&hash).await {
        Err(ClientError::Refused(problem)) if problem.status == 404 => {
            output::note(&format!(
                "the service doesn't have the run's criteria {hash}: it scores by its current ones"
            ));
            Ok(None)
        }
        // Whoever may ask for scores alone is told no more.
        Err(ClientError::Refused(problem)) if problem.status == 403 => Ok(Some(hash)),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Some(hash)),
    }
}
