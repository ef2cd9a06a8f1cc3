//! `gavel score`: scores sessions from files or by id, with a running or an embedded service.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::Global;
use super::connection::{Common, Connection, Needs};
use super::import;
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, Text, joined, or_empty};
use super::scoring::{self, SessionVerdict, Until, Verdict};
use super::simulated::SimulatedJudge;
use crate::wire::{self, ScoreRequest};

/// Score sessions from files or by id, and print the scores
#[derive(Debug, Args)]
#[command(
    long_about = "Score sessions and print the scores. A UUID is the id of a stored session. Any other argument is a \
        file, which the command imports first. It contains one session, a list of sessions, or one session per line \
        (- is stdin).\n\nWithout --server and without a database the jobs run in this process and are stored in the \
        data folder. If a session already has a score, the command prints it; use --force to score it again.\n\nExit \
        codes:\n  0 all scored\n  2 a session is invalid\n  3 a job failed or isn't finished\n  4 no sessions to \
        score",
    after_help = "Examples:\n  gavel score session.json\n  gavel score session.json --simulate   # made-up scores, no key\n  gavel score --server http://127.0.0.1:8080 \\\n      6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2\n  gavel score --force --json sessions.jsonl > scores.json"
)]
pub(super) struct Score {
    /// Files with sessions, or ids of stored sessions
    #[arg(required = true, value_name = "FILE|ID")]
    targets: Vec<String>,
    /// Score again if there is a score; ignores cached replies
    #[arg(long)]
    force: bool,
    /// Maximum wait for all scores; 0: enqueue and print the jobs [default: until they have ended]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Use other criteria than the current ones (see `gavel criteria list`); the result becomes the session's current score. To try
    /// criteria without that: `gavel rescore --preview`
    #[arg(long, value_name = "HASH")]
    criteria_hash: Option<String>,
    /// Use a simulated judge, to try Gavel without a key. It runs in this process with the data folder (DATABASE_URL and REDIS_URL are
    /// ignored). Its scores don't measure the sessions
    #[arg(long)]
    simulate: bool,
    #[command(flatten)]
    common: Common,
}

impl Score {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let mut ids: Vec<Uuid> = Vec::new();
        let mut sessions = Vec::new();
        for target in &self.targets {
            if let Ok(id) = target.parse::<Uuid>() {
                ids.push(id);
            } else {
                let path = PathBuf::from(target);
                if target != "-" && !path.exists() {
                    return Err(CliError::usage(format!(
                        "{target}: no such file, and not a session id (a UUID); to search by another tool's id: \
                         `gavel sessions list --search {target}`"
                    )));
                }
                let read = import::read(std::slice::from_ref(&path), None)?.sessions;
                ids.extend(read.iter().map(|session| session.session_id));
                sessions.extend(read);
            }
        }
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        if ids.is_empty() {
            output::note("no sessions to score: the files contain no session");
            return Ok(Exit::Nothing);
        }
        let command = async |connection: Connection<'_>| {
            let results = self.score(&connection, &sessions, &ids).await?;
            output::print(&results, self.common.json)
        };
        let service = &self.common.connection;
        match self.simulate {
            true => SimulatedJudge::run(service, (global, Needs::Worker), |_| (), command).await,
            false => service.run(global, Needs::Worker, command).await,
        }
    }

    async fn score(
        &self,
        connection: &Connection<'_>,
        sessions: &[import::FileSession],
        ids: &[Uuid],
    ) -> Result<ScoreResults, CliError> {
        let imported = import::put(connection.client, sessions).await?;
        let is_stored = |id: &Uuid| {
            let from_file = sessions.iter().any(|session| session.session_id == *id);
            !from_file || imported.put.iter().any(|(put, _)| put == id)
        };
        let wanted: Vec<Uuid> = ids.iter().copied().filter(is_stored).collect();
        let request = ScoreRequest {
            force_rescore: self.force,
            criteria_hash: self.criteria_hash.clone(),
        };
        let until = match self.wait {
            Some(seconds) => Until::Deadline(Instant::now() + Duration::from_secs(seconds)),
            None if connection.works_here => Until::Stuck,
            None => Until::Ended,
        };
        let client = connection.client;
        let items = scoring::score_all(client, &wanted, &request, until).await?;
        let page = connection.is_remote.then(|| match items.as_slice() {
            [one] => client.address(&format!("/sessions/{}", one.session_id)),
            _ => client.address("/sessions"),
        });
        Ok(ScoreResults {
            exit: exit(&items, imported.rejected),
            works_here: connection.works_here,
            page,
            items,
        })
    }
}

#[derive(Serialize)]
struct ScoreResults {
    items: Vec<SessionVerdict>,
    #[serde(skip)]
    works_here: bool,
    /// Address of the page on a running service.
    #[serde(skip)]
    page: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl Printable for ScoreResults {
    fn text(&self, out: &mut Text) {
        let scores = || self.items.iter().filter_map(SessionVerdict::score);
        match (self.items.as_slice(), scores().next()) {
            ([_], Some(score)) => score.text(out),
            _ => {
                out.rows(&self.items);
                if scores().any(|score| score.simulated) {
                    out.note("scores marked SIMULATED were made up by a simulated judge");
                }
            }
        }
        if scores().any(|score| !score.is_current_criteria) {
            out.note(
                "by other criteria than the current ones; it is the session's current score now, and an earlier one stays in its history",
            );
        }
        let page = self.page.clone().unwrap_or_default();
        out.facts(&[("page", page)]);
    }

    fn exit(&self) -> Exit {
        let is_open = |one: &SessionVerdict| matches!(one.verdict, Verdict::Unfinished { .. });
        if self.works_here && self.items.iter().any(is_open) {
            output::note("unfinished jobs stay in the data folder: `gavel up` resumes them");
        }
        self.exit
    }
}

impl Row for SessionVerdict {
    const COLUMNS: &'static [Column<Self>] = &[
        ("session", |it| it.session_id.to_string()),
        ("score", |it| {
            it.score()
                .map_or("-".to_owned(), |score| score.total_score.to_string())
        }),
        // An earlier score remains the current one.
        ("rating", |it| {
            it.score()
                .map_or("no new score".to_owned(), |score| score.rating.in_words())
        }),
        ("flags", |it| {
            or_empty(it.score().map(|score| joined(&score.flags)))
        }),
        ("judge", |it| {
            or_empty(it.score().map(|score| &score.judge.model))
        }),
        ("note", |it| match it.score() {
            Some(score) if score.simulated => "SIMULATED".to_owned(),
            Some(_) | None => it.why(),
        }),
    ];
}

fn exit(judged: &[SessionVerdict], rejected: usize) -> Exit {
    let mut exit = match (rejected, judged) {
        (0, []) => Exit::Nothing,
        (0, _) => Exit::Done,
        (_, _) => Exit::Usage,
    };
    for one in judged {
        match &one.verdict {
            Verdict::Failed { .. } | Verdict::Unfinished { .. } => return Exit::Incomplete,
            Verdict::Refused { .. } => exit = Exit::Usage,
            Verdict::Scored { .. } => {}
        }
    }
    exit
}

impl Printable for wire::Score {
    fn text(&self, out: &mut Text) {
        let mark = match self.simulated {
            true => "  SIMULATED: made up by a simulated judge",
            false => "",
        };
        let (total, word) = (self.total_score, self.rating.in_words());
        out.line(format!("{total} / 100  {word}{mark}"));
        for (dimension, points) in &self.score_breakdown {
            out.line(format!("  {dimension}: {points}"));
        }
        out.line("");
        out.line(&self.score_reasoning);
        let tools = self.missing_tools.iter();
        let tools = tools.map(|tool| (&tool.tool_name, &tool.rationale));
        let others = self.alternative_approaches.iter();
        let others = others.map(|other| (&other.name, &other.description));
        for (title, items) in [
            ("missing tools", tools.collect::<Vec<_>>()),
            ("alternative approaches", others.collect()),
        ] {
            if !items.is_empty() {
                out.line(format!("\n{title}:"));
            }
            for (name, words) in items {
                out.line(format!("  {name}: {words}"));
            }
        }
        out.line("");
        out.facts(&[
            ("session", self.session_id.to_string()),
            ("flags", joined(&self.flags)),
            ("judge", self.judge.model.clone()),
            ("criteria", self.criteria_hash.clone()),
            ("scored at", output::time(self.scored_at)),
            ("job", self.job_id.to_string()),
        ]);
    }
}
