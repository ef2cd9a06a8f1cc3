//! `gavel demo`: the complete service with example sessions, and with a simulated judge by default.

mod examples;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use secrecy::SecretString;
use uuid::Uuid;

use super::Global;
use super::context::{Context, LogProfile, flag_of};
use super::daemon::{self, ProcessParts, Work};
use super::import::{self, FileSession};
use super::outcome::{CliError, Exit};
use super::output::{self, TableRow, Text};
use super::score::{failure, is_simulated, rating};
use super::scoring::{self, ScoringOptions, SessionVerdict, Until, Verdict, waiting};
use super::simulated::{self, SimulatedJudge};
use crate::app::{App, Migrations, Mode, Stop};
use crate::client::Client;
use crate::config::Settings;
use crate::job::Kind;
use crate::lifecycle::Signals;
use crate::wire::PutOutcome;

const DATA_DIR: &str = "./gavel-demo";

/// Score example sessions with a simulated judge, then serve the results
#[derive(Debug, Args)]
#[command(
    long_about = "Start everything in one process, store the example sessions, score the ended ones, and print the \
        scores. The API then runs until Ctrl-C. The judge is simulated, unless --judge names one of \
        llm_providers.yaml. Data is stored in ./gavel-demo; a second run prints the existing scores.",
    after_help = "Examples:\n  gavel demo\n  OPENAI_API_KEY=sk-... gavel demo --judge openai-default\n  GOOGLE_API_KEY=... gavel demo --judge google-default"
)]
pub(super) struct Demo {
    /// Use this judge instead of the simulated one
    #[arg(long, value_name = "NAME")]
    judge: Option<String>,
    /// Address of the API [env: GAVEL_BIND] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Data folder of the demo
    #[arg(long, value_name = "DIR", default_value = DATA_DIR)]
    data_dir: String,
    /// Exit after printing the scores
    #[arg(long)]
    exit: bool,
}

impl Demo {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let flags = [
            flag_of("--bind", "bind", self.bind.clone()),
            flag_of("--data-dir", "data_dir", Some(self.data_dir.clone())),
            flag_of("--judge", "default_llm_provider", self.judge.clone()),
        ];
        let flags = flags.into_iter().flatten().collect();
        let mut context = Context::new(global, flags, LogProfile::Jobs)?;
        context.check_access()?;
        let mut signals = Signals::listen()?;
        let listener = context.listen().await?;
        let address = listener.local_addr()?;
        context.settings.bind = address.to_string();
        let is_named = context.names_default_judge;
        let simulator = self.prepare(&mut context.settings, is_named).await?;
        let token = token_for_ourselves(&mut context.settings, address);
        let mode = Mode::Embedded {
            data_dir: PathBuf::from(&context.settings.data_dir),
        };
        let app = App::open(context.settings.clone(), mode, Migrations::Apply).await?;
        // Check before storing any data.
        if let Some(judge) = &self.judge {
            let checked = app.enqueue().check_judge(judge);
            checked.map_err(|problem| {
                CliError::usage(format!("--judge {judge}: {}", problem.named))
            })?;
        }
        let stop = Stop::default();
        let show = Show {
            base: format!("http://{}", reachable(address)),
            open: token.is_none(),
            simulated: simulator.is_some(),
            stays: !self.exit,
            judge: self.judge.clone(),
            data_dir: self.data_dir.clone(),
        };
        let beside = async {
            let client = Client::new(&show.base, token)?;
            let shown = tokio::select! {
                shown = show.run(&client) => shown,
                () = stop.soft.cancelled() => Ok(()),
            };
            if self.exit || shown.is_err() {
                stop.soft.cancel();
                return shown;
            }
            stop.soft.cancelled().await;
            output::note(&format!(
                "stopping: what runs may finish; the data stays in {}",
                self.data_dir
            ));
            Ok(())
        };
        let parts = ProcessParts {
            api: Some(listener),
            worker: Work::Jobs,
            health: None,
            tokens: None,
        };
        let running = Box::pin(daemon::run(&app, parts, &mut signals, &stop, beside));
        // The simulator runs until the drain has finished, because active jobs still call it.
        let ended = match simulator {
            Some(simulator) => simulator.serve_during(running).await,
            None => running.await,
        };
        app.close().await;
        ended
    }

    /// Prepares the settings. Without --judge, uses a simulated judge and the built-in files, regardless of the environment.
    async fn prepare(
        &self,
        settings: &mut Settings,
        is_named: bool,
    ) -> Result<Option<SimulatedJudge>, CliError> {
        let mut set = |name: &str, value: &str| {
            let substitutions = &mut settings.substitutions;
            substitutions.insert(name.to_owned(), value.to_owned());
        };
        set("SCORING_ENABLED", "true");
        if let Some(judge) = &self.judge {
            set("SCORING_LLM_PROVIDER", judge);
            set("SCORING_LLM_MODEL", "");
            // The current criteria of an earlier demo without --judge name its simulated judge, which isn't available now.
            settings.only_simulated = Some(judge == simulated::NAME);
            return Ok(None);
        }
        if is_named {
            output::note(
                "DEFAULT_LLM_PROVIDER is ignored, because the demo's judge is simulated: use --judge NAME for a real one",
            );
        }
        let simulated = SimulatedJudge::open().await?;
        simulated.for_everything()(settings);
        settings.scoring_config.clear();
        Ok(Some(simulated))
    }
}

/// On loopback, the demo's API needs no token, so that the printed commands can be copied. On other addresses the configured tokens are
/// required, and the demo creates one for itself.
fn token_for_ourselves(settings: &mut Settings, address: SocketAddr) -> Option<SecretString> {
    let auth = &mut settings.auth;
    if address.ip().is_loopback() {
        auth.tokens.clear();
        auth.tokens_file.clear();
        return None;
    }
    if auth.tokens.is_empty() && auth.tokens_file.is_empty() {
        return None;
    }
    let token = super::tokens::secret();
    auth.tokens.push(format!("gavel-demo:admin:{token}").into());
    Some(SecretString::from(token))
}

/// Returns an address for local clients.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    address
}

struct Show {
    base: String,
    open: bool,
    simulated: bool,
    stays: bool,
    judge: Option<String>,
    data_dir: String,
}

impl Show {
    async fn run(&self, client: &Client) -> Result<(), CliError> {
        let sessions = examples::sessions()?;
        let imported = import::put(client, &sessions).await?;
        output::note(&format!(
            "{} example sessions, {} of them new; requesting scores of the ended ones",
            sessions.len(),
            imported.count(PutOutcome::New)
        ));
        let ids: Vec<Uuid> = sessions.iter().map(|session| session.session_id).collect();
        // With --judge, requests the current criteria so that the named judge replaces simulated scores. Without, simulated scores don't
        // replace real ones.
        let criteria_hash = match self.simulated {
            true => None,
            false => {
                let current = client.current_criteria(Kind::Session).await?;
                Some(current.version.criteria_hash)
            }
        };
        let options = ScoringOptions {
            force: false,
            criteria_hash,
            until: Until::Stuck,
        };
        let judged = scoring::score_all(client, &ids, &options).await?;
        let head = [
            "session",
            "alert type",
            "rating",
            "score",
            "reasoning",
            "flags",
        ];
        let both = sessions.iter().zip(&judged);
        let mut out = Text::default();
        out.spaced_table(&head, both.map(|(session, one)| row(session, one)));
        out.write()?;
        let failed = judged.iter().any(|one| {
            matches!(
                one.verdict,
                Verdict::Failed { .. } | Verdict::Unfinished { .. }
            )
        });
        if failed {
            let remedy = match &self.judge {
                Some(judge) => format!(
                    ": the table has the reasons. Fix judge {judge} and run the demo again, or omit --judge for a simulated \
                     one. Commands in the table need --data-dir {}",
                    self.data_dir
                ),
                None => String::new(),
            };
            return Err(CliError::incomplete(format!(
                "not every example session got its score{remedy}"
            )));
        }
        self.what_next(&judged)
    }

    fn what_next(&self, judged: &[SessionVerdict]) -> Result<(), CliError> {
        if judged.iter().any(is_simulated) {
            output::line(
                "\n*** SIMULATED: these scores are made up by a simulated judge. They are not meaningful. ***\n\
                 For real ones: OPENAI_API_KEY=... gavel demo --judge openai-default",
            )?;
        }
        let scored = judged
            .iter()
            .find(|one| matches!(one.verdict, Verdict::Scored { .. }))
            .or(judged.first());
        let id = scored.map(|one| one.session_id).unwrap_or_default();
        let token = if self.open {
            ""
        } else {
            " -H \"Authorization: Bearer $GAVEL_TOKEN\""
        };
        let base = &self.base;
        output::line(&format!(
            "\nOpen {base} in a browser. The API has the same address (docs: {base}/docs). Try:\n\
             \x20 curl -s{token} {base}/api/v1/scoring/sessions/{id}/score\n\
             \x20 curl -s{token} -X POST -H 'Content-Type: application/json' -H 'Prefer: wait=30' \\\n\
             \x20   -d '{{\"force_rescore\": true}}' {base}/api/v1/scoring/sessions/{id}/score\n\
             \x20 gavel sessions list --server {base}\n\
             Next: your own sessions with `gavel score FILE --server {base}`, the service with `gavel up`; `gavel --help` lists the rest."
        ))?;
        if self.stays {
            output::line("Ctrl-C or SIGTERM ends the demo.")?;
        }
        Ok(())
    }
}

fn row(session: &FileSession, one: &SessionVerdict) -> TableRow {
    let id = session.session_id.to_string();
    let alert = session.input.alert_type.clone().unwrap_or_default();
    let why = match &one.verdict {
        Verdict::Scored { score } => {
            return vec![
                id,
                alert,
                rating(score.rating),
                score.total_score.to_string(),
                first_sentences(&score.score_reasoning),
                output::joined(&score.flags),
            ];
        }
        Verdict::Refused { problem } if problem.name() == "session-not-completed" => format!(
            "it is {}: only sessions that have ended are scored",
            session.input.status.as_deref().unwrap_or_default()
        ),
        Verdict::Refused { problem } => problem.to_string(),
        Verdict::Failed { job } => failure(job),
        Verdict::Unfinished { job } => waiting(job),
    };
    let [rating, score, flags] = ["not scored", "-", ""].map(str::to_owned);
    vec![id, alert, rating, score, why, flags]
}

/// Returns the first complete sentences, up to about 160 characters.
fn first_sentences(text: &str) -> String {
    const ENOUGH: usize = 160;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut end = 0;
    for (at, _) in flat.match_indices(['.', '!', '?']) {
        let after = at + 1;
        if flat.as_bytes().get(after).is_none_or(|next| *next == b' ') {
            if end > 0 && flat[..after].chars().count() > ENOUGH {
                break;
            }
            end = after;
        }
    }
    let cut = if end == 0 {
        flat.as_str()
    } else {
        &flat[..end]
    };
    if cut.chars().count() <= ENOUGH * 2 {
        return cut.to_owned();
    }
    let short: String = cut.chars().take(ENOUGH).collect();
    format!("{short}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_truncated_at_sentences() {
        assert_eq!(first_sentences("One. Two."), "One. Two.");
        assert_eq!(
            first_sentences("Version 1.42 leaks. And more"),
            "Version 1.42 leaks."
        );
        let long = format!("First é sentence. {} end. Third.", "word ".repeat(60));
        assert_eq!(first_sentences(&long), "First é sentence.");
        assert!(first_sentences(&"é".repeat(1000)).ends_with('…'));
    }
}
