//! A simulated judge: in the process of commands that must work without installation and key, and as a server (`gavel simulate-judge`).
//! Its scores are marked as simulated everywhere.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, ConnectionArgs, Needs};
use super::context::{Context, LogProfile, listen};
use super::daemon::drained;
use super::outcome::{CliError, Exit};
use super::{Global, output};
use crate::app::Stop;
use crate::app::simulated::{FaultRates, SimulatorOptions, serve};
use crate::config::{Settings, judge_variables};
use crate::job::Kind;
use crate::lifecycle::Signals;

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
        adjust: impl FnOnce(&mut Settings),
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
            adjust(settings);
            judged(settings);
            over_the_data_folder(settings);
        };
        let running = service.run_with(global, needs, adjust, command);
        serve_during(Some(judge), Box::pin(running)).await
    }
}

/// Runs `work` with the judge, if there is one. The judge runs until the drain has finished, because active jobs still call it.
pub(super) async fn serve_during<T>(
    judge: Option<SimulatedJudge>,
    work: impl Future<Output = T>,
) -> T {
    let Some(judge) = judge else {
        return work.await;
    };
    let done = CancellationToken::new();
    let serving = async {
        let options = SimulatorOptions::default();
        if let Err(error) = serve(judge.listener, options, done.clone()).await {
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

/// Run a judge with generated scores, for trials and load tests
#[derive(Debug, Args)]
#[command(
    long_about = "Run a server with a chat completions API that makes up scores: the same question always gets the \
        same score. Every score is marked as simulated. The seed selects the calls that fail; --fault sets their \
        share of all calls.",
    after_help = "Examples:\n  gavel simulate-judge --port 8099\n  gavel simulate-judge --port 8099 --latency 2s \\\n      --fault 429=0.1,500=0.1,timeout=0.05,malformed=0.05,truncated=0.02\n  DEFAULT_LLM_PROVIDER=simulated GAVEL_SIMULATED_URL=http://127.0.0.1:8099/v1 \\\n      gavel up"
)]
pub(super) struct SimulateJudge {
    /// Port to listen on; 0 chooses a free one and prints it
    #[arg(long, value_name = "N", default_value_t = 8099)]
    port: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Latency of each reply, such as 200ms or 2s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    latency: Duration,
    /// Shares of failing calls by type of failure, such as 429=0.1,500=0.05
    #[arg(long, value_name = "FAULTS")]
    fault: Option<FaultRates>,
    /// Selects which calls fail; scores don't depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl SimulateJudge {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let _logs = Context::new(global, [], LogProfile::Log)?;
        let mut signals = Signals::listen()?;
        let address = SocketAddr::from((self.host, self.port));
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(|error| {
                CliError::usage(format!(
                    "{address} can't be bound: {error}; choose another --port"
                ))
            })?;
        tracing::info!("simulated judge on http://{}/v1", listener.local_addr()?);
        let options = SimulatorOptions {
            latency: self.latency,
            faults: self.fault.clone().unwrap_or_default(),
            seed: self.seed,
        };
        let stop = Stop::default();
        let serving = async {
            let served = tokio::select! {
                served = serve(listener, options, stop.soft.clone()) => served,
                () = stop.hard.cancelled() => Ok(()),
            };
            served.map_err(|error| CliError::incomplete(format!("serving: {error}")))
        };
        drained(&mut signals, &stop, serving).await?;
        Ok(Exit::Done)
    }
}

/// Parses `200ms`, `2s`, `1.5s`, or seconds without a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.trim() {
        text if text.ends_with("ms") => (text.trim_end_matches("ms"), 0.001),
        text => (text.trim_end_matches('s'), 1.0),
    };
    number
        .parse::<f64>()
        .ok()
        .map(|number| number * unit)
        .filter(|seconds| (0.0..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a time such as 200ms or 2s, at most an hour".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_with_and_without_unit() {
        for (text, millis) in [("200ms", 200), ("2s", 2000), ("1.5s", 1500), ("3", 3000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "fast", "-1s", "2h", "inf"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
