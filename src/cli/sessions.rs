//! `gavel sessions`: import, list, show. Importing scores nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::history_import::FromTarsy;
use super::import;
use super::outcome::{CliError, Exit};
use super::output::{self, or_empty};
use crate::wire::{PutOutcome, SessionItem};

/// Import, list and show sessions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel sessions import sessions.jsonl\n  gavel sessions import --from https://tarsy.example.com --status completed --since 30d\n  gavel sessions list --status completed --scored no\n  gavel sessions show 6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2 --json"
)]
pub(super) struct Sessions {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Store sessions from files or from a TARSy; scores nothing
    #[command(
        long_about = "Store sessions from files or from a TARSy; scores nothing.\n\nFrom a TARSy, every page of its list \
                      is read, 2 requests a second. Interrupted, killed or restarted, the import goes on where it stood \
                      with the same command. A session that has ended and is listed as it is stored isn't fetched \
                      again.\n\nExit codes: 0 all stored, 2 some can't be stored as they are, 3 TARSy or the service \
                      is down, 4 the files hold no session, 130 interrupted."
    )]
    Import {
        /// Files with one session, a list, or one per line; - is stdin
        #[arg(conflicts_with = "from", value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        tarsy: Box<FromTarsy>,
        #[command(flatten)]
        common: Common,
    },
    /// List sessions, newest first
    List {
        /// Where the session stands: completed, failed, in_progress ..
        #[arg(long)]
        status: Option<String>,
        /// By score: yes, no, running or failed
        #[arg(long)]
        scored: Option<String>,
        /// By rating: failed, weak, adequate, good or near_perfect
        #[arg(long)]
        rating: Option<String>,
        /// Prefix of id, alert type, agent or author
        #[arg(long)]
        q: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Show one session with its score
    Show {
        /// The session's id
        id: Uuid,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl Sessions {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.what {
            What::Import { tarsy, common, .. } if tarsy.is_given() => {
                tarsy.run(global, &common.connection, common.json).await
            }
            What::Import { files, .. } if files.is_empty() => Err(CliError::usage(
                "nothing to import from: name files (- is stdin), or a TARSy with --from URL",
            )),
            What::Import { files, common, .. } => import_files(global, files, common).await,
            What::List {
                status,
                scored,
                rating,
                q,
                limit,
                common,
            } => {
                let filter: Vec<(&str, String)> = [
                    ("status", status),
                    ("scored", scored),
                    ("rating", rating),
                    ("q", q),
                ]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.clone()?)))
                .collect();
                show_list(global, &filter, *limit, common).await
            }
            What::Show { id, common } => show(global, *id, common).await,
        }
    }
}

async fn import_files(
    global: &Global,
    files: &[PathBuf],
    common: &Common,
) -> Result<Exit, CliError> {
    let mut sessions = Vec::new();
    for file in files {
        sessions.extend(import::read(file)?);
    }
    if sessions.is_empty() {
        output::note("nothing to import: the files hold no session");
        return Ok(Exit::Nothing);
    }
    let command = async |connection: Connection<'_>| {
        let imported = import::put(connection.client, &sessions).await?;
        let (new, updated) = (
            imported.count(PutOutcome::New),
            imported.count(PutOutcome::Updated),
        );
        let unchanged = imported.put.len() - new - updated;
        if common.json {
            output::json(&json!({
                "new": new, "updated": updated, "unchanged": unchanged, "failed": imported.refused,
            }))?;
        } else {
            output::line(&format!(
                "{new} new, {updated} updated, {unchanged} unchanged, {} failed",
                imported.refused
            ))?;
        }
        Ok(if imported.refused > 0 {
            Exit::Usage
        } else {
            Exit::Done
        })
    };
    common.connection.run(global, Needs::Store, command).await
}

async fn show_list(
    global: &Global,
    filter: &[(&str, String)],
    limit: usize,
    common: &Common,
) -> Result<Exit, CliError> {
    let command = async |connection: Connection<'_>| {
        let items = connection.client.sessions(filter, limit).await?;
        if common.json {
            output::json(&json!({ "items": items }))?;
            return Ok(Exit::Done);
        }
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        let head = [
            "session",
            "status",
            "alert type",
            "agent",
            "score",
            "rating",
            "completed",
        ];
        output::table(&head, &rows)?;
        Ok(Exit::Done)
    };
    common
        .connection
        .run(global, Needs::Existing, command)
        .await
}

fn row(session: &SessionItem) -> Vec<String> {
    let score = session.score.as_ref();
    vec![
        session.session_id.to_string(),
        session.status.to_string(),
        or_empty(session.alert_type.as_deref()),
        or_empty(session.agent.as_deref()),
        or_empty(score.map(|score| {
            let mark = if score.simulated { " (simulated)" } else { "" };
            format!("{}{mark}", score.total_score)
        })),
        or_empty(score.map(|score| super::score::rating(score.rating))),
        or_empty(session.completed_at.map(output::time)),
    ]
}

async fn show(global: &Global, id: Uuid, common: &Common) -> Result<Exit, CliError> {
    let command = async |connection: Connection<'_>| {
        let session = connection.client.session(id).await?;
        let score = connection.client.score(id).await?;
        if common.json {
            output::json(&json!({ "session": session, "score": score }))?;
            return Ok(Exit::Done);
        }
        output::facts(&[
            ("session", session.session_id.to_string()),
            ("status", session.status.to_string()),
            ("source", session.source.clone()),
            ("alert type", or_empty(session.alert_type.as_deref())),
            ("agent", or_empty(session.agent.as_deref())),
            ("author", or_empty(session.author.as_deref())),
            ("tags", output::joined(&session.tags)),
            ("started", or_empty(session.started_at.map(output::time))),
            (
                "completed",
                or_empty(session.completed_at.map(output::time)),
            ),
            ("messages", session.conversation.len().to_string()),
        ])?;
        match score {
            Some(score) => {
                output::line("")?;
                super::score::print_one(&score)?;
            }
            None => output::line(&format!("score     none yet: gavel score {id}"))?,
        }
        Ok(Exit::Done)
    };
    common
        .connection
        .run(global, Needs::Existing, command)
        .await
}
