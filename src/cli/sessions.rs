//! `gavel sessions`: import, list, show, delete. Importing doesn't score.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use super::Global;
use super::connection::{Common, Connection, Listing, Needs, One, given};
use super::history_import::FromTarsy;
use super::import::{self, FileSessions};
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, Text, WithText, optional_time, or_empty};
use crate::client::Client;
use crate::wire::{PutOutcome, Score, Session, SessionFormat, SessionItem};

/// Import, list, show and delete sessions
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  gavel sessions import sessions.jsonl\n  gavel sessions import --format langsmith runs/\n  gavel sessions import --from https://tarsy.example.com \\\n      --status completed --since 30d\n  gavel sessions list --status completed --scored no\n  gavel sessions show 6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2 --json\n  gavel sessions delete 6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2"
)]
pub(super) enum Sessions {
    /// Store sessions from files or from a TARSy, without scoring them
    #[command(
        long_about = "Store sessions from files or from a TARSy, without scoring them.\n\nFrom a TARSy, the command \
            reads every page of its list, with 2 requests a second. Repeat the command to resume an import that was \
            interrupted or killed. Sessions that have ended and are unchanged since the last import aren't fetched \
            again.\n\nExit codes:\n  0 all stored\n  2 some sessions are invalid\n  3 TARSy or the service is down\n  \
            4 the files contain no session\n  130 interrupted"
    )]
    Import {
        /// Files with one session, a list, or one per line, or folders of them; - is stdin
        #[arg(conflicts_with = "from", value_name = "FILE|DIR")]
        files: Vec<PathBuf>,
        /// Format of the files: messages (model APIs, agent frameworks), spans (OpenInference, OpenTelemetry), langsmith, langfuse,
        /// braintrust, inspect, claude_code or codex. [default: detected in each file]
        #[arg(long, conflicts_with = "from")]
        format: Option<SessionFormat>,
        #[command(flatten)]
        tarsy: Box<FromTarsy>,
        #[command(flatten)]
        common: Common,
    },
    /// List sessions, newest first
    List {
        /// Status of the session: completed, failed, in_progress ..
        #[arg(long)]
        status: Option<String>,
        /// By score: yes, no, running or failed
        #[arg(long)]
        scored: Option<String>,
        /// By rating: failed, weak, adequate, good or near_perfect
        #[arg(long)]
        rating: Option<String>,
        /// Part of an alert type, agent or author, or start of an id or an external id
        #[arg(long)]
        search: Option<String>,
        #[command(flatten)]
        list: Listing,
    },
    /// Show one session with its score
    Show(One),
    /// Delete one session with all its data: scores, ratings, jobs, judge calls. This can't be undone
    Delete(One),
}

impl Sessions {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::Import { tarsy, common, .. } if tarsy.is_given() => {
                tarsy.run(global, &common.connection, common.json).await
            }
            Self::Import { files, .. } if files.is_empty() => Err(CliError::usage(
                "no source: name files (- is stdin), or a TARSy with --from URL",
            )),
            Self::Import {
                files,
                format,
                common,
                ..
            } => import_files(global, files, *format, common).await,
            Self::List {
                status,
                scored,
                rating,
                search,
                list,
            } => {
                let filter = given([
                    ("status", status.clone()),
                    ("scored", scored.clone()),
                    ("rating", rating.clone()),
                    ("q", search.clone()),
                ]);
                list.print(global, async |client: &Client, limit| {
                    client.sessions(&filter, limit).await
                })
                .await
            }
            Self::Show(one) => {
                let show = async |client: &Client, id| {
                    let (session, score) = (client.session(id).await?, client.score(id).await?);
                    Ok(Scored { session, score })
                };
                one.print(global, show).await
            }
            Self::Delete(one) => {
                let delete = async |client: &Client, id| {
                    client.delete_session(id).await?;
                    let text = format!("session {id} is deleted with its jobs and scores");
                    let result = json!({ "session_id": id, "deleted": true });
                    Ok(WithText::line(result, text))
                };
                one.print(global, delete).await
            }
        }
    }
}

async fn import_files(
    global: &Global,
    files: &[PathBuf],
    format: Option<SessionFormat>,
    common: &Common,
) -> Result<Exit, CliError> {
    let FileSessions { sessions, unread } = import::read(files, format)?;
    if sessions.is_empty() {
        output::note("no sessions to import: the files contain no session");
        return Ok(match unread {
            0 => Exit::Nothing,
            _ => Exit::Usage,
        });
    }
    let command = async |connection: Connection<'_>| {
        let imported = import::put(connection.client, &sessions).await?;
        let (new, updated) = (
            imported.count(PutOutcome::New),
            imported.count(PutOutcome::Updated),
        );
        let unchanged = imported.put.len() - new - updated;
        let failed = imported.rejected + unread;
        let result =
            json!({ "new": new, "updated": updated, "unchanged": unchanged, "failed": failed });
        let text = format!("{new} new, {updated} updated, {unchanged} unchanged, {failed} failed");
        Ok(WithText {
            exit: match failed {
                0 => Exit::Done,
                _ => Exit::Usage,
            },
            ..WithText::line(result, text)
        })
    };
    common.run(global, Needs::Store, command).await
}

impl Row for SessionItem {
    const COLUMNS: &'static [Column<Self>] = &[
        ("session", |it| it.session_id.to_string()),
        ("status", |it| it.status.to_string()),
        ("alert type or id", |it| {
            or_empty(it.alert_type.as_ref().or(it.external_id.as_ref()))
        }),
        ("agent", |it| or_empty(it.agent.as_ref())),
        ("score", |it| {
            let score = it.score.as_ref();
            or_empty(score.map(|score| match score.simulated {
                true => format!("{} (simulated)", score.total_score),
                false => score.total_score.to_string(),
            }))
        }),
        ("rating", |it| {
            or_empty(it.score.as_ref().map(|score| score.rating.in_words()))
        }),
        ("completed", |it| optional_time(it.completed_at)),
    ];
}

#[derive(Serialize)]
struct Scored {
    session: Session,
    score: Option<Score>,
}

impl Printable for Scored {
    fn text(&self, out: &mut Text) {
        let session = &self.session;
        out.facts(&[
            ("session", session.session_id.to_string()),
            ("status", session.status.to_string()),
            ("source", session.source.clone()),
            ("external id", or_empty(session.external_id.as_deref())),
            ("alert type", or_empty(session.alert_type.as_deref())),
            ("agent", or_empty(session.agent.as_deref())),
            ("author", or_empty(session.author.as_deref())),
            ("tags", output::joined(&session.tags)),
            ("started", optional_time(session.started_at)),
            ("completed", optional_time(session.completed_at)),
            ("messages", session.conversation.len().to_string()),
        ]);
        match &self.score {
            Some(score) => {
                out.line("");
                score.text(out);
            }
            None => out.line(format!(
                "score     none yet: gavel score {}",
                session.session_id
            )),
        }
    }
}
