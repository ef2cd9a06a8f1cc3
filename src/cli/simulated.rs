//! A simulated judge in this process, for commands that must work without installation and key. Its scores are marked as simulated
//! everywhere.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::context::listen;
use super::outcome::CliError;
use super::output;
use crate::app::simulated::{self, SimulatorOptions};
use crate::config::{Settings, judge_variables};
use crate::job::Kind;

/// The simulated judge's name in the built-in `llm_providers.yaml`.
pub(super) const NAME: &str = "simulated";
/// Source shown for the settings that it changes.
const BY: &str = "the simulated judge of this command";

pub(super) struct SimulatedJudge {
    listener: TcpListener,
    url: String,
}

impl SimulatedJudge {
    pub(super) async fn open() -> Result<Self, CliError> {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        Ok(Self { listener, url })
    }

    /// Returns the change of settings that makes it the judge of all kinds, regardless of the environment. Criteria that name a judge
    /// without a variable keep it.
    pub(super) fn for_everything(&self) -> impl FnOnce(&mut Settings) + use<> {
        let url = self.url.clone();
        move |settings| {
            let substitutions = &mut settings.substitutions;
            substitutions.insert("GAVEL_SIMULATED_URL".to_owned(), url);
            for [judge, model] in Kind::ALL.iter().copied().map(judge_variables) {
                substitutions.insert(judge, NAME.to_owned());
                substitutions.insert(model, String::new());
            }
            settings.only_simulated = Some(true);
            NAME.clone_into(&mut settings.default_llm_provider);
            settings.llm_providers.clear();
            settings.overruled("default_llm_provider", NAME, BY);
            settings.overruled("llm_providers", "", BY);
        }
    }

    /// Runs a command over the data folder with a simulated judge in this process, which remote workers couldn't call.
    pub(super) async fn run<T>(
        service: &ConnectionArgs,
        (global, needs): (&Global, Needs),
        command: impl AsyncFnOnce(Connection<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        // Not checked by clap, because its message wouldn't name a server from the environment.
        if service.is_remote() {
            return Err(CliError::usage(
                "--simulate uses a judge in this process, but --server (GAVEL_SERVER) names another process: omit one of the two",
            ));
        }
        let judge = Self::open().await?;
        let judged = judge.for_everything();
        let adjust = |settings: &mut Settings| {
            judged(settings);
            over_the_data_folder(settings);
        };
        let running = service.run_with(global, needs, adjust, command);
        judge.serve_during(Box::pin(running)).await
    }

    /// Serves until `work` has ended.
    pub(super) async fn serve_during<T>(self, work: impl Future<Output = T>) -> T {
        let done = CancellationToken::new();
        let options = SimulatorOptions::default();
        let serving = async {
            let served = simulated::serve(self.listener, options, done.clone()).await;
            if let Err(error) = served {
                tracing::error!(%error, "the simulated judge broke");
            }
        };
        let working = async {
            let ended = work.await;
            done.cancel();
            ended
        };
        tokio::join!(working, serving).0
    }
}

fn over_the_data_folder(settings: &mut Settings) {
    if settings.database.url.is_empty() && settings.redis.url.is_empty() {
        return;
    }
    output::note(&format!(
        "--simulate: the judge is in this process, so its jobs are stored in the data folder {}, and DATABASE_URL and \
         REDIS_URL are ignored",
        settings.data_dir
    ));
    settings.database.url.clear();
    settings.redis.url.clear();
}
