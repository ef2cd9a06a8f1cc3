//! `gavel rescore`: scores many stored sessions again. Shows the plan, waits for confirmation, starts the batch, and watches it if
//! requested.

mod args;
mod plan;

use std::cell::OnceCell;
use std::io::{IsTerminal as _, stderr, stdin};
use std::path::Path;

use uuid::Uuid;

use super::batches::{exit_of, follow, watch};
use super::connection::{Connection, Needs};
use super::judges::find;
use super::outcome::{CliError, Exit, is_interrupted};
use super::output::{self, or_empty};
use super::{Global, criteria};
use crate::client::Client;
use crate::wire::words;
use crate::wire::{Batch, Judge, RescorePlan};

pub(super) use self::args::Rescore;

/// The service's limit of ids per request.
const MAX_IDS: usize = 100_000;

impl Rescore {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let must_confirm = self.must_confirm(stdin().is_terminal(), stderr().is_terminal())?;
        let ids_file = self.selection.ids_file.as_deref();
        let ids = ids_file.map(read_ids).transpose()?;
        if ids.as_ref().is_some_and(Vec::is_empty) {
            output::note("no sessions to score: --ids-file names no session");
            return Ok(Exit::Nothing);
        }
        let needs = match self.execution.watch {
            true => Needs::Worker,
            false => Needs::Existing,
        };
        let started = OnceCell::new();
        let command = async |connection: Connection<'_>| {
            self.execute(&connection, ids.as_deref(), must_confirm, &started)
                .await
        };
        let ended = self.connection.run(global, needs, command).await;
        if let Some(id) = started.get().filter(|_| is_interrupted(&ended)) {
            output::note(&follow(*id));
        }
        ended
    }

    async fn execute(
        &self,
        connection: &Connection<'_>,
        ids: Option<&[Uuid]>,
        must_confirm: bool,
        started: &OnceCell<Uuid>,
    ) -> Result<Exit, CliError> {
        let client = connection.client;
        let hash = self.target(connection).await?;
        let request = self.request(ids, hash.as_deref());
        let plan = client.plan_rescore(&request).await?;
        if self.execution.dry_run {
            output::print(&plan, self.json)?;
        } else {
            output::note(&plan::lines(&plan).join("\n"));
        }
        if plan.to_score == 0 {
            output::note(match self.limits_to_comparable() {
                true => {
                    "no sessions to score: --preview needs sessions with a score by the current criteria, to compare with; \
                         use --not-current or --scored no for others"
                }
                false => "no sessions to score",
            });
            return Ok(Exit::Nothing);
        }
        if self.execution.dry_run {
            return Ok(Exit::Done);
        }
        if must_confirm && !is_wanted(&plan).await? {
            output::note("not started");
            return Ok(Exit::Nothing);
        }
        let key = Uuid::now_v7().to_string();
        let mut batch = client.rescore(&request, &key).await?;
        let id = *started.get_or_init(|| batch.batch_id);
        if self.execution.watch {
            output::note(&format!("batch {id} is started"));
            batch = watch(client, id).await?;
        }
        output::print(&batch, self.json)?;
        self.print_next_steps(client, &batch).await?;
        Ok(match self.execution.watch {
            true => exit_of(&batch),
            false => Exit::Done,
        })
    }

    /// Hash of the criteria to judge by; `None` is current. Stores the criteria file of a preview.
    async fn target(&self, connection: &Connection<'_>) -> Result<Option<String>, CliError> {
        let Some(file) = &self.purpose.preview else {
            let named = self.purpose.criteria.as_deref();
            return Ok(named.filter(|hash| *hash != "current").map(str::to_owned));
        };
        let candidate = criteria::read_for(connection, file)?;
        if candidate.kind.is_case() {
            return Err(CliError::usage(format!(
                "--preview {}: these criteria are of kind {}, and sessions are rescored; try them with gavel evaluate \
                 --criteria-hash",
                file.display(),
                candidate.kind
            )));
        }
        let judges = connection.client.judges().await?;
        check_judge(&judges.items, &candidate.judge)
            .map_err(|fault| CliError::usage(format!("--preview {}: {fault}", file.display())))?;
        let stored = connection.client.add_criteria(&candidate.content).await?;
        Ok(Some(stored.criteria_hash))
    }

    /// Whether a user on a terminal must confirm the plan. `stdin`, `stderr`: whether they are terminals. A user can't confirm if stdin
    /// contains the ids.
    fn must_confirm(&self, stdin: bool, stderr: bool) -> Result<bool, CliError> {
        if self.execution.yes || self.execution.dry_run || !stderr {
            return Ok(false);
        }
        if self.selection.ids_file.as_deref() == Some(Path::new("-")) {
            return Err(CliError::usage(
                "--ids-file -: stdin contains the ids, so you can't confirm the plan: show it with \
                 --dry-run, then start it with --yes, or give the ids in a file",
            ));
        }
        Ok(stdin)
    }

    /// Prints the commands that watch the batch, show its spread, compare a candidate and make it current.
    async fn print_next_steps(&self, client: &Client, batch: &Batch) -> Result<(), CliError> {
        let id = batch.batch_id;
        if !self.execution.watch {
            output::note(&follow(id));
        }
        if self.purpose.repeat.is_some() || !self.purpose.judge.is_empty() {
            if self.execution.watch && !self.json {
                output::print(&client.spread(id, 0).await?, false)?;
            }
            output::note(&format!(
                "spread of its scores by session: gavel batches spread {id}"
            ));
        }
        let Some(file) = &self.purpose.preview else {
            return Ok(());
        };
        if self.execution.watch && batch.counts.succeeded == 0 {
            output::note(&format!(
                "no item was scored, so you can't compare scores; reasons: gavel report {id} --format csv"
            ));
        } else if self.purpose.judge.is_empty() {
            let candidate = batch.criteria_hash.as_deref().unwrap_or_default();
            let file = file.display();
            output::note(&format!(
                "compare them: gavel criteria compare current {candidate}\n\
                 make it current: press Make current on the page /criteria/{candidate}, or set GAVEL_SCORING_CONFIG of the API to \
                 {file} and restart it (only has an effect if no version was made current by that button); then: gavel rescore --not-current"
            ));
        }
        Ok(())
    }
}

/// Prompts the user on the terminal to confirm the plan.
async fn is_wanted(plan: &RescorePlan) -> Result<bool, CliError> {
    output::note(&format!(
        "Score {}? [y/N]",
        words::counted(plan.to_score, "session")
    ));
    let (answer, answered) = tokio::sync::oneshot::channel();
    // In a detached thread, because reading a terminal can't be cancelled and Ctrl-C must end the command.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = stdin().read_line(&mut line).map(|_| line);
        let _ = answer.send(read); // receiver dropped after Ctrl-C
    });
    let line = answered
        .await
        .map_err(|_| CliError::incomplete("the answer can't be read"))??;
    Ok(matches!(
        line.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

/// Checks that the service can call the judge. Otherwise the criteria aren't stored.
fn check_judge(judges: &[Judge], judge: &str) -> Result<(), String> {
    match find(judges, judge) {
        None => {
            let known: Vec<&str> = judges.iter().map(|known| known.name.as_str()).collect();
            Err(format!(
                "the service has no judge {judge:?}: name one of its judges in scoring.llm_provider, or in DEFAULT_LLM_PROVIDER of this \
                 command; known: {}",
                known.join(", ")
            ))
        }
        Some(listed) if listed.configured => Ok(()),
        Some(listed) => Err(format!(
            "judge {judge:?}: {}",
            or_empty(listed.remedy.as_ref())
        )),
    }
}

/// Reads the ids of a file, one per line; - is stdin. Empty lines and text after # are skipped.
fn read_ids(path: &Path) -> Result<Vec<Uuid>, CliError> {
    let name = path.display();
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(stdin().lock()),
        Some(_) | None => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| CliError::unreadable(format!("--ids-file {name}"), error))?;
    ids_of(&text).map_err(|fault| CliError::usage(format!("--ids-file {name}, {fault}")))
}

fn ids_of(text: &str) -> Result<Vec<Uuid>, String> {
    let mut seen = std::collections::HashSet::new();
    let mut ids = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let id: Uuid = line.parse().map_err(|_| {
            let shown: String = line.chars().take(60).collect();
            format!(
                "line {}: {shown:?} is not the id of a session; give one UUID a line",
                at + 1
            )
        })?;
        if seen.insert(id) {
            ids.push(id);
        }
    }
    if ids.len() > MAX_IDS {
        return Err(format!(
            "{} ids are more than the limit of {MAX_IDS}: split the file",
            ids.len()
        ));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        rescore: Rescore,
    }

    #[test]
    fn terminal_requires_confirmation() {
        let must_confirm = |flags: &str, stdin: bool, stderr: bool| {
            let words = std::iter::once("rescore").chain(flags.split_whitespace());
            let line = Line::try_parse_from(words).unwrap();
            line.rescore.must_confirm(stdin, stderr).ok()
        };
        for (flags, stdin, stderr, expected) in [
            ("", true, true, Some(true)),
            ("--yes", true, true, Some(false)),
            ("--ids-file ids.txt", true, true, Some(true)),
            // The ids are piped in, and stderr is a terminal.
            ("--ids-file -", false, true, None),
            ("--ids-file -", true, true, None),
            ("--ids-file - --yes", false, true, Some(false)),
            ("--ids-file - --dry-run", false, true, Some(false)),
            // A script, a timer or a pipeline: no user.
            ("--ids-file -", false, false, Some(false)),
            ("", false, false, Some(false)),
            ("", false, true, Some(false)),
            ("", true, false, Some(false)),
        ] {
            let found = must_confirm(flags, stdin, stderr);
            assert_eq!(found, expected, "{flags:?}, {stdin}, {stderr}");
        }
    }

    #[test]
    fn ids_file_has_unique_ids_one_per_line() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let text = format!("{a}\r\n\n# old ones\n{b}  # the second\n{a}\n");
        assert_eq!(ids_of(&text), Ok(vec![a, b]));
        assert_eq!(ids_of("# none\n"), Ok(Vec::new()));
        let fault = ids_of(&format!("{a}\nsession-7\n")).unwrap_err();
        assert!(
            fault.starts_with("line 2: \"session-7\" is not the id"),
            "{fault}"
        );
        let many: String = (0..=MAX_IDS as u128)
            .map(|n| format!("{}\n", Uuid::from_u128(n)))
            .collect();
        assert!(ids_of(&many).unwrap_err().contains("split the file"));
    }
}
