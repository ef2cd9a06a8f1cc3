//! `gavel score`: from files or by id, with a service or all by itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::import;
use super::outcome::{CliError, Exit};
use super::output;
use super::scoring::{self, Ask, Judged, Verdict};
use crate::store::Force;
use crate::wire::{self, Job, Rating};

/// Score sessions from files or by id, and print the scores
#[derive(Debug, Args)]
#[command(
    long_about = "Score sessions and print the scores. What is a UUID is the id of a stored session; anything else is a \
                  file with one session, a list of sessions, or one session per line (- is stdin), which is imported \
                  first.\n\nWithout --server and without a database the jobs run in this process, over the data folder. \
                  A session that has a score already is shown, not judged again, unless --force.\n\nExit codes: 0 all \
                  scored, 2 a session can't be scored as it is, 3 a job failed or isn't finished, 4 nothing to score.",
    after_help = "Examples:\n  gavel score session.json\n  gavel score --server http://127.0.0.1:8080 6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2\n  gavel score --force --json sessions.jsonl > scores.json"
)]
pub(super) struct Score {
    /// Files with sessions, or ids of stored sessions
    #[arg(required = true, value_name = "FILE|ID")]
    targets: Vec<String>,
    /// Judge again where there is a score already; cached replies are passed over
    #[arg(long)]
    force: bool,
    /// Wait at most this long for all of them; 0: enqueue and print the jobs [default: until they have ended]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Score under other criteria than the current ones (see `gavel criteria list`)
    #[arg(long, value_name = "HASH")]
    criteria_hash: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
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
                        "{target}: there is no such file, and it is not the id of a session (a UUID) either"
                    )));
                }
                let read = import::read(&path)?;
                ids.extend(read.iter().map(|session| session.session_id));
                sessions.extend(read);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        if ids.is_empty() {
            output::note("nothing to score: the files hold no session");
            return Ok(Exit::Nothing);
        }
        self.connection
            .run(global, Needs::Worker, async |connection: Connection<'_>| {
                self.score(&connection, &sessions, &ids).await
            })
            .await
    }

    async fn score(
        &self,
        connection: &Connection<'_>,
        sessions: &[import::FileSession],
        ids: &[Uuid],
    ) -> Result<Exit, CliError> {
        let imported = import::put(connection.client, sessions).await?;
        let wanted: Vec<Uuid> = ids
            .iter()
            .copied()
            .filter(|id| {
                let from_file = sessions.iter().any(|session| session.session_id == *id);
                !from_file || imported.put.iter().any(|(put, _)| put == id)
            })
            .collect();
        let ask = Ask {
            force: if self.force { Force::Yes } else { Force::AsIs },
            criteria_hash: self.criteria_hash.clone(),
            wait: self.wait.map(Duration::from_secs),
        };
        let judged = scoring::score_all(connection.client, &wanted, &ask).await?;
        self.print(&judged)?;
        if connection.works_here
            && judged
                .iter()
                .any(|one| matches!(one.verdict, Verdict::Unfinished(_)))
        {
            output::note("unfinished jobs stay in the data folder: `gavel up` goes on with them");
        }
        Ok(exit(&judged, imported.refused))
    }

    fn print(&self, judged: &[Judged]) -> Result<(), CliError> {
        if self.json {
            let items: Vec<Value> = judged.iter().map(Judged::to_json).collect();
            output::json(&json!({ "items": items }))?;
            return Ok(());
        }
        if let [
            Judged {
                verdict: Verdict::Scored(score),
                ..
            },
        ] = judged
        {
            return print_one(score);
        }
        let rows: Vec<Vec<String>> = judged.iter().map(row).collect();
        output::table(
            &["session", "score", "rating", "flags", "judge", "note"],
            &rows,
        )?;
        if judged.iter().any(is_simulated) {
            output::note("scores marked SIMULATED were made up by a simulated judge");
        }
        Ok(())
    }
}

fn exit(judged: &[Judged], refused: usize) -> Exit {
    let mut exit = if judged.is_empty() && refused == 0 {
        Exit::Nothing
    } else if refused > 0 {
        Exit::Usage
    } else {
        Exit::Done
    };
    for one in judged {
        match (&one.verdict, exit) {
            (Verdict::Failed(_) | Verdict::Unfinished(_), _) => return Exit::Incomplete,
            (Verdict::Refused { .. }, _) => exit = Exit::Usage,
            (Verdict::Scored(_), _) => {}
        }
    }
    exit
}

fn is_simulated(one: &Judged) -> bool {
    match &one.verdict {
        Verdict::Scored(score) => score.simulated,
        Verdict::Failed(_) | Verdict::Unfinished(_) | Verdict::Refused { .. } => false,
    }
}

fn row(one: &Judged) -> Vec<String> {
    let id = one.session_id.to_string();
    let note = |note: String| {
        vec![
            id.clone(),
            "-".into(),
            "not scored".into(),
            String::new(),
            String::new(),
            note,
        ]
    };
    match &one.verdict {
        Verdict::Scored(score) => vec![
            id.clone(),
            score.total_score.to_string(),
            rating(score.rating),
            output::joined(&score.flags),
            score.judge.model.clone(),
            if score.simulated {
                "SIMULATED".into()
            } else {
                String::new()
            },
        ],
        Verdict::Failed(job) => note(failure(job)),
        Verdict::Unfinished(job) => note(format!(
            "job {} is {}{}",
            job.job_id,
            job.state,
            match scoring::waiting(job) {
                why if why.is_empty() => why,
                why => format!(": {why}"),
            }
        )),
        Verdict::Refused { said, .. } => note(said.clone()),
    }
}

/// The rating's word as people read it.
pub(super) fn rating(rating: Rating) -> String {
    rating.as_str().replace('_', " ")
}

/// Why a job failed.
pub(super) fn failure(job: &Job) -> String {
    match &job.error {
        None => format!("job {} is {}", job.job_id, job.state),
        Some(error) => format!(
            "job {} failed, {}: {}. {}",
            job.job_id, error.class, error.message, error.remedy
        ),
    }
}

/// Prints one score in full.
pub(super) fn print_one(score: &wire::Score) -> Result<(), CliError> {
    output::line(&format!(
        "{} / 100  {}{}",
        score.total_score,
        rating(score.rating),
        if score.simulated {
            "  SIMULATED: made up by a simulated judge"
        } else {
            ""
        }
    ))?;
    for (dimension, points) in &score.score_breakdown {
        output::line(&output::clean(&format!("  {dimension}: {points:?}")))?;
    }
    output::line("")?;
    output::line(&output::clean(&score.score_reasoning))?;
    let tools = score.missing_tools.iter();
    let tools: Vec<_> = tools
        .map(|tool| (&tool.tool_name, &tool.rationale))
        .collect();
    let others = score.alternative_approaches.iter();
    let others: Vec<_> = others
        .map(|other| (&other.name, &other.description))
        .collect();
    for (title, items) in [("missing tools", tools), ("other approaches", others)] {
        if !items.is_empty() {
            output::line(&format!("\n{title}:"))?;
        }
        for (name, words) in items {
            output::line(&output::clean(&format!("  {name}: {words}")))?;
        }
    }
    output::line("")?;
    output::facts(&[
        ("session", score.session_id.to_string()),
        ("flags", output::joined(&score.flags)),
        ("judge", score.judge.model.clone()),
        ("criteria", score.criteria_hash.clone()),
        ("scored at", output::time(score.scored_at)),
        ("job", score.job_id.to_string()),
    ])?;
    Ok(())
}
