//! A simulated judge in this process, for commands that shall work with nothing installed and no key. What it scores is marked
//! as simulated everywhere.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::context::listen;
use super::outcome::CliError;
use crate::app::simulated::{self, SimulatorOptions};
use crate::config::{Settings, judge_variables};
use crate::job::Kind;

/// The simulated judge's name in the built-in `llm_providers.yaml`.
const NAME: &str = "simulated";
/// What settings that it changes are said to come from.
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

    /// What makes it the judge of every kind, whatever the environment says. Criteria that name a judge without a variable keep it.
    pub(super) fn for_everything(&self) -> impl FnOnce(&mut Settings) + use<> {
        let url = self.url.clone();
        move |settings| {
            let substitutions = &mut settings.substitutions;
            substitutions.insert("GAVEL_SIMULATED_URL".to_owned(), url);
            for [judge, model] in Kind::ALL.iter().copied().map(judge_variables) {
                substitutions.insert(judge, NAME.to_owned());
                substitutions.insert(model, String::new());
            }
            settings.files_only = true;
            NAME.clone_into(&mut settings.default_llm_provider);
            settings.llm_providers.clear();
            settings.overruled("default_llm_provider", NAME, BY);
            settings.overruled("llm_providers", "", BY);
        }
    }

    /// Answers until the work beside it has ended.
    pub(super) async fn beside<T>(self, work: impl Future<Output = T>) -> T {
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
