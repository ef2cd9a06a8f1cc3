//! `gavel simulate-judge`: a judge with generated scores, for trials and load tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

use super::Global;
use super::context::{Context, LogProfile};
use super::daemon::ending;
use super::outcome::{CliError, Exit};
use crate::app::Stop;
use crate::app::simulated::{FaultRates, SimulatorOptions, serve};
use crate::lifecycle::Signals;

/// Time for running replies to finish after a signal.
const DRAIN: Duration = Duration::from_secs(5);

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
        let _logs = Context::new(global, Vec::new(), LogProfile::Log)?;
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
            tokio::select! {
                served = serve(listener, options, stop.soft.clone()) => served,
                () = stop.hard.cancelled() => Ok(()),
            }
        };
        let ended = signals.guard(ending(&stop, DRAIN), serving).await;
        match ended.output {
            Some(served) => served
                .map(|()| Exit::Done)
                .map_err(|error| CliError::incomplete(format!("serving: {error}"))),
            None => Ok(Exit::Interrupted),
        }
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
