//! `gavel score`: scores sessions from files or by id, with a running or an embedded service.

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
use super::output::{self, Printable, TableRow, Text};
use super::scoring::{self, ScoringOptions, SessionVerdict, Until, Verdict};
use super::simulated::SimulatedJudge;
use crate::wire::{self, Job, Rating};

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
        let mut seen = std::collections::BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        if ids.is_empty() {
            output::note("no sessions to score: the files contain no session");
            return Ok(Exit::Nothing);
        }
        let command =
            async |connection: Connection<'_>| self.score(&connection, &sessions, &ids).await;
        if !self.simulate {
            return self.common.run(global, Needs::Worker, command).await;
        }
        let command = async |connection: Connection<'_>| {
            output::print(&command(connection).await?, self.common.json)
        };
        SimulatedJudge::run(&self.common.connection, (global, Needs::Worker), command).await
    }

    async fn score(
        &self,
        connection: &Connection<'_>,
        sessions: &[import::FileSession],
        ids: &[Uuid],
    ) -> Result<ScoreResults, CliError> {
        let imported = import::put(connection.client, sessions).await?;
        let wanted: Vec<Uuid> = ids
            .iter()
            .copied()
            .filter(|id| {
                let from_file = sessions.iter().any(|session| session.session_id == *id);
                !from_file || imported.put.iter().any(|(put, _)| put == id)
            })
            .collect();
        let options = ScoringOptions {
            force: self.force,
            criteria_hash: self.criteria_hash.clone(),
            until: match self.wait {
                Some(seconds) => Until::Deadline(Instant::now() + Duration::from_secs(seconds)),
                None if connection.works_here => Until::Stuck,
                None => Until::Ended,
            },
        };
        let judged = scoring::score_all(connection.client, &wanted, &options).await?;
        let page = connection.is_remote.then(|| match judged.as_slice() {
            [one] => connection
                .client
                .address(&format!("/sessions/{}", one.session_id)),
            _ => connection.client.address("/sessions"),
        });
        Ok(ScoreResults {
            exit: exit(&judged, imported.rejected),
            works_here: connection.works_here,
            other_criteria: judged.iter().any(is_of_others),
            page,
            items: judged,
        })
    }
}

#[derive(Serialize)]
struct ScoreResults {
    items: Vec<SessionVerdict>,
    #[serde(skip)]
    works_here: bool,
    /// Whether any session was scored by criteria that aren't current.
    #[serde(skip)]
    other_criteria: bool,
    /// Address of the page on a running service.
    #[serde(skip)]
    page: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl Printable for ScoreResults {
    fn text(&self, out: &mut Text) {
        if let [
            SessionVerdict {
                verdict: Verdict::Scored { score },
                ..
            },
        ] = self.items.as_slice()
        {
            score.text(out);
            return self.print_page(out);
        }
        let head = ["session", "score", "rating", "flags", "judge", "note"];
        out.table(&head, self.items.iter().map(row));
        if self.items.iter().any(is_simulated) {
            out.note("scores marked SIMULATED were made up by a simulated judge");
        }
        self.print_page(out);
    }

    fn exit(&self) -> Exit {
        let is_open = |one: &SessionVerdict| matches!(one.verdict, Verdict::Unfinished { .. });
        if self.works_here && self.items.iter().any(is_open) {
            output::note("unfinished jobs stay in the data folder: `gavel up` resumes them");
        }
        self.exit
    }
}

impl ScoreResults {
    fn print_page(&self, out: &mut Text) {
        if self.other_criteria {
            out.note(
                "by other criteria than the current ones; it is the session's current score now, and an earlier one stays in its history",
            );
        }
        let page = self.page.clone().unwrap_or_default();
        out.facts(&[("page", page)]);
    }
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

pub(super) fn is_simulated(one: &SessionVerdict) -> bool {
    match &one.verdict {
        Verdict::Scored { score } => score.simulated,
        Verdict::Failed { .. } | Verdict::Unfinished { .. } | Verdict::Refused { .. } => false,
    }
}

fn is_of_others(one: &SessionVerdict) -> bool {
    matches!(&one.verdict, Verdict::Scored { score } if !score.is_current_criteria)
}

fn row(one: &SessionVerdict) -> TableRow {
    let id = one.session_id.to_string();
    let note = match &one.verdict {
        Verdict::Scored { score } => {
            let mark = if score.simulated { "SIMULATED" } else { "" };
            return vec![
                id,
                score.total_score.to_string(),
                rating(score.rating),
                output::joined(&score.flags),
                score.judge.model.clone(),
                mark.to_owned(),
            ];
        }
        Verdict::Failed { job } => failure(job),
        Verdict::Unfinished { job } => match scoring::waiting(job) {
            why if why.is_empty() => format!("job {} is {}", job.job_id, job.state),
            why => format!("job {} is {}: {why}", job.job_id, job.state),
        },
        Verdict::Refused { problem } => problem.to_string(),
    };
    // An earlier score remains the current one.
    let [score, rating, flags, judge] = ["-", "no new score", "", ""].map(str::to_owned);
    vec![id, score, rating, flags, judge, note]
}

pub(super) fn rating(rating: Rating) -> String {
    rating.in_words()
}

pub(super) fn failure(job: &Job) -> String {
    match &job.error {
        None => format!("job {} is {}", job.job_id, job.state),
        Some(error) => format!(
            "job {} failed, {}: {}. {}",
            job.job_id,
            error.class,
            error.message.trim_end_matches('.'),
            error.remedy
        ),
    }
}

impl Printable for wire::Score {
    fn text(&self, out: &mut Text) {
        let mark = match self.simulated {
            true => "  SIMULATED: made up by a simulated judge",
            false => "",
        };
        let (total, word) = (self.total_score, rating(self.rating));
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
            ("flags", output::joined(&self.flags)),
            ("judge", self.judge.model.clone()),
            ("criteria", self.criteria_hash.clone()),
            ("scored at", output::time(self.scored_at)),
            ("job", self.job_id.to_string()),
        ]);
    }
}
