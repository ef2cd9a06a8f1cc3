//! `gavel demo`: the complete service with example sessions, and with a simulated judge by default.

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
use super::output::{self, TableRow, Text, joined, or_empty};
use super::scoring::{self, SessionVerdict, Until};
use super::simulated::{self, SimulatedJudge};
use crate::app::{App, Migrations, Mode, Stop};
use crate::client::Client;
use crate::config::Settings;
use crate::history::examples::SESSIONS;
use crate::job::Kind;
use crate::lifecycle::Signals;
use crate::wire::{PutOutcome, ScoreRequest, words};

const DATA_DIR: &str = "./gavel-demo";
/// Maximum length of a score's reasons in the table.
const MAX_REASON_CHARS: usize = 240;

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
            flag_of("--bind", "bind", self.bind.as_ref()),
            flag_of("--data-dir", "data_dir", Some(&self.data_dir)),
            flag_of("--judge", "default_llm_provider", self.judge.as_ref()),
        ];
        let mut context = Context::new(global, flags, LogProfile::Jobs)?;
        context.check_access()?;
        let mut signals = Signals::listen()?;
        let listener = context.listen().await?;
        let address = listener.local_addr()?;
        context.settings.bind = address.to_string();
        let is_named = context.names_default_judge;
        let settings = &mut context.settings;
        let simulator = self.prepare(settings, is_named).await?;
        let token = own_token(settings, address);
        let mode = Mode::Embedded {
            data_dir: PathBuf::from(&settings.data_dir),
        };
        let app = App::open(settings.clone(), mode, Migrations::Apply).await?;
        // Check before storing any data.
        if let Some(judge) = &self.judge {
            let checked = app.enqueue().check_judge(judge);
            checked.map_err(|problem| {
                CliError::usage(format!("--judge {judge}: {}", problem.named))
            })?;
        }
        let stop = Stop::default();
        let is_open = token.is_none();
        let client = Client::new(&format!("http://{}", reachable(address)), token)?;
        let show = async {
            let shown = tokio::select! {
                shown = self.show(&client, is_open) => shown,
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
        let running = Box::pin(daemon::run(&app, parts, &mut signals, &stop, show));
        let ended = simulated::serve_during(simulator, running).await;
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
    /// Stores and scores the examples, and prints the scores.
    async fn show(&self, client: &Client, is_open: bool) -> Result<(), CliError> {
        let sessions = examples()?;
        let imported = import::put(client, &sessions).await?;
        output::note(&format!(
            "{} example sessions, {} of them new; requesting scores of the ended ones",
            sessions.len(),
            imported.count(PutOutcome::New)
        ));
        let ids: Vec<Uuid> = sessions.iter().map(|session| session.session_id).collect();
        let mut request = ScoreRequest::default();
        if self.judge.is_some() {
            // The named judge replaces simulated scores, whereas simulated scores don't replace real ones.
            let current = client.current_criteria(Kind::Session).await?;
            request.criteria_hash = Some(current.version.criteria_hash);
        }
        let judged = scoring::score_all(client, &ids, &request, Until::Stuck).await?;
        let head = [
            "session",
            "alert type",
            "rating",
            "score",
            "reasoning",
            "flags",
        ];
        let mut out = Text::default();
        out.spaced_table(&head, sessions.iter().zip(&judged).map(row));
        out.write()?;
        if judged.iter().any(SessionVerdict::has_unscored_job) {
            let remedy = self.judge.as_ref().map(|judge| {
                format!(
                    ": the table has the reasons. Fix judge {judge} and run the demo again, or omit --judge for a simulated \
                     one. Commands in the table need --data-dir {}",
                    self.data_dir
                )
            });
            return Err(CliError::incomplete(format!(
                "not every example session got its score{}",
                remedy.unwrap_or_default()
            )));
        }
        self.print_next_steps(&client.address(""), is_open, &judged)
    }

    fn print_next_steps(
        &self,
        base: &str,
        is_open: bool,
        judged: &[SessionVerdict],
    ) -> Result<(), CliError> {
        let mut scored = judged.iter().filter(|one| one.score().is_some());
        if scored.clone().any(SessionVerdict::is_simulated) {
            output::line(
                "\n*** SIMULATED: these scores are made up by a simulated judge. They are not meaningful. ***\n\
                 For real ones: OPENAI_API_KEY=... gavel demo --judge openai-default",
            )?;
        }
        let scored = scored.next().or(judged.first());
        let id = scored.map(|one| one.session_id).unwrap_or_default();
        let token = match is_open {
            true => "",
            false => " -H \"Authorization: Bearer $GAVEL_TOKEN\"",
        };
        output::line(&format!(
            "\nOpen {base} in a browser. The API has the same address (docs: {base}/docs). Try:\n\
             \x20 curl -s{token} {base}/api/v1/scoring/sessions/{id}/score\n\
             \x20 curl -s{token} -X POST -H 'Content-Type: application/json' -H 'Prefer: wait=30' \\\n\
             \x20   -d '{{\"force_rescore\": true}}' {base}/api/v1/scoring/sessions/{id}/score\n\
             \x20 gavel sessions list --server {base}\n\
             Next: your own sessions with `gavel score FILE --server {base}`, the service with `gavel up`; `gavel --help` lists the rest."
        ))?;
        if !self.exit {
            output::line("Ctrl-C or SIGTERM ends the demo.")?;
        }
        Ok(())
    }
}

/// The example sessions, parsed like files.
fn examples() -> Result<Vec<FileSession>, CliError> {
    let parsed = SESSIONS.iter();
    let parsed = parsed.map(|(name, text)| import::parse(name, text.as_bytes(), None));
    Ok(parsed.collect::<Result<Vec<_>, _>>()?.concat())
}

/// On loopback, the demo's API needs no token, so that the printed commands can be copied. On other addresses the configured tokens are
/// required, and the demo creates one for itself.
fn own_token(settings: &mut Settings, address: SocketAddr) -> Option<SecretString> {
    let auth = &mut settings.auth;
    if address.ip().is_loopback() {
        auth.tokens.clear();
        auth.tokens_file.clear();
        return None;
    }
    if auth.tokens.is_empty() && auth.tokens_file.is_empty() {
        return None;
    }
    let token = super::print::secret();
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

fn row((session, one): (&FileSession, &SessionVerdict)) -> TableRow {
    let score = one.score();
    let reason = match score {
        Some(score) => score.score_reasoning.clone(),
        None => one.why(),
    };
    let reason: Vec<&str> = reason.split_whitespace().collect();
    vec![
        session.session_id.to_string(),
        or_empty(session.input.alert_type.as_deref()),
        score.map_or("not scored".to_owned(), |score| score.rating.in_words()),
        score.map_or("-".to_owned(), |score| score.total_score.to_string()),
        words::clip(&reason.join(" "), MAX_REASON_CHARS).into_owned(),
        or_empty(score.map(|score| joined(&score.flags))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_files_are_embedded_and_valid() {
        let embedded = examples().unwrap();
        let on_disk = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sessions"))
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|e| e.path().extension().is_some_and(|x| x == "json"))
            })
            .count();
        assert_eq!(
            embedded.len(),
            on_disk,
            "a file of examples/sessions isn't embedded"
        );
        assert!(
            embedded
                .iter()
                .any(|s| s.input.status.as_deref() == Some("in_progress"))
        );
    }
}
