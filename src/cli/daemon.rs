//! Shared by `up`, `serve`, `worker` and `demo`: runs the parts of a process until a signal, and stops them together.

use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;

use super::context::{Context, flag_of};
use super::outcome::{CliError, Exit};
use crate::app::{App, AppError, Stop};
use crate::config::Flag;
use crate::history::imports::Whose;
use crate::lifecycle::{Ending, Signals};

/// Time for the active jobs of a command's own worker to finish after Ctrl-C.
const COMMAND_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for open requests to finish in an API without a worker.
const REQUEST_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Additional time after a worker's drain to report the release of its unfinished jobs.
const WORKER_GRACE: Duration = Duration::from_secs(1);
/// Time limit of a forced stop, which records results and releases jobs. Together with the drain before it and closing the store after it,
/// it must stay within the 30 s that Kubernetes allows by default.
const FORCED_STOP_TIMEOUT: Duration = Duration::from_secs(8);

pub(super) struct ProcessParts<'a> {
    pub(super) api: Option<TcpListener>,
    pub(super) worker: Work,
    /// Health and metrics port of a process that doesn't serve the API.
    pub(super) health: Option<TcpListener>,
    /// Source of the tokens that SIGHUP reloads. `None` without tokens, or if this process created them.
    pub(super) tokens: Option<&'a Context>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Jobs,
    Nothing,
}

/// Flags of commands that serve the API.
#[derive(Debug, Args)]
pub(super) struct ApiArgs {
    /// Address of the API [env: GAVEL_BIND] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Allow non-loopback addresses without tokens [env: GAVEL_AUTH_INSECURE_NO_AUTH]
    #[arg(long)]
    insecure_no_auth: bool,
}

impl ApiArgs {
    pub(super) fn flags(&self) -> [Option<Flag>; 2] {
        let insecure = self.insecure_no_auth.then_some(true);
        [
            flag_of("--bind", "bind", self.bind.as_ref()),
            flag_of("--insecure-no-auth", "auth.insecure_no_auth", insecure),
        ]
    }
}

/// Serves the API of a newly opened process until a signal, then closes it.
pub(super) async fn serve(
    app: App,
    context: &Context,
    worker: Work,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let running = async {
        let listener = context.listen().await?;
        announce_judge(&app);
        let settings = &context.settings;
        let data_dir = (worker == Work::Jobs).then_some(settings.data_dir.as_str());
        tracing::info!(data_dir, "listening on http://{}", listener.local_addr()?);
        let parts = ProcessParts {
            api: Some(listener),
            worker,
            health: None,
            tokens: Some(context),
        };
        Box::pin(run_parts(&app, parts, signals)).await
    };
    let ended = running.await;
    app.close().await;
    ended
}

/// Runs the parts until a signal.
pub(super) async fn run_parts(
    app: &App,
    parts: ProcessParts<'_>,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    run(app, parts, signals, &Stop::default(), async { Ok(()) }).await
}

/// Runs the parts and `foreground` until a signal. If one part fails, the others are stopped gracefully.
pub(super) async fn run(
    app: &App,
    parts: ProcessParts<'_>,
    signals: &mut Signals,
    stop: &Stop,
    foreground: impl Future<Output = Result<(), CliError>>,
) -> Result<Exit, CliError> {
    let drain = match parts.worker {
        // A worker releases its unfinished jobs itself. This limit applies if it fails to.
        Work::Jobs => Duration::from_secs(app.settings().worker.drain_timeout_s) + WORKER_GRACE,
        Work::Nothing => app.answers_on() + REQUEST_DRAIN_TIMEOUT,
    };
    if parts.worker == Work::Jobs
        && let Some((judge, cap)) = app.capped_judge()
    {
        tracing::warn!(
            %judge, cap, concurrency = app.settings().worker.concurrency,
            "the judge gets fewer calls at once than this worker has slots; raise its max_concurrency in llm_providers.yaml"
        );
    }
    let tokens = parts.tokens;
    let reload = || reload(app, tokens);
    let serving = part(stop, async {
        match parts.api {
            Some(listener) => {
                let serving = app.serve(listener, stop.clone());
                tokio::try_join!(serving, app.import(Whose::Anybodys, stop.clone())).map(|_| ())
            }
            None => {
                stop.soft.cancelled().await;
                Ok(())
            }
        }
    });
    let working = part(stop, async {
        match parts.worker {
            Work::Jobs => {
                // Boxed because the main thread's stack is small for this future.
                let work = Box::pin(app.work(stop.clone()));
                Box::pin(app.with_worker_health(parts.health, stop.soft.clone(), work)).await
            }
            Work::Nothing => {
                stop.soft.cancelled().await;
                Ok(())
            }
        }
    });
    let foreground = async {
        let done = foreground.await;
        if done.is_err() {
            stop.soft.cancel();
        }
        done
    };
    let all = async {
        let (served, worked, done, ()) =
            tokio::join!(serving, working, foreground, announce_queue(app));
        served?;
        worked?;
        done
    };
    let ending = Ending {
        soft: &stop.soft,
        hard: &stop.hard,
        drain,
        cut: Some(FORCED_STOP_TIMEOUT),
        reload: &reload,
    };
    let ended = signals.guard(ending, all).await;
    match ended.output {
        Some(done) => done.map(|()| Exit::Done),
        None => Ok(Exit::Interrupted),
    }
}

/// Reloads criteria and tokens. If one is invalid, its previous version stays in effect, and the other is still reloaded.
fn reload(app: &App, tokens: Option<&Context>) {
    match app.reload_criteria() {
        Ok(()) => tracing::info!(criteria_hash = %app.criteria().hash, "reloaded"),
        Err(error) => tracing::error!(%error, "not reloaded: the criteria before stay"),
    }
    match tokens.map(|context| app.reload_tokens(context.reread())) {
        Some(Ok(count)) => tracing::info!(count, "tokens reloaded"),
        Some(Err(error)) => tracing::error!(%error, "not reloaded: the tokens before stay"),
        None => {}
    }
}

/// Runs a command's work, which stops after `stop` is cancelled. If it is dropped, the error has exit code 130.
pub(super) async fn drained<T>(
    signals: &mut Signals,
    stop: &Stop,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let ending = Ending {
        soft: &stop.soft,
        hard: &stop.hard,
        drain: COMMAND_DRAIN_TIMEOUT,
        cut: None,
        reload: &|| (),
    };
    let ended = signals.guard(ending, work).await.output;
    ended.unwrap_or_else(|| Err(CliError::interrupted()))
}

/// Runs a command's work, which the first signal drops. The error then has exit code 130.
pub(super) async fn until_interrupted<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let stop = Stop::default();
    let work = async {
        tokio::select! {
            done = work => done,
            () = stop.soft.cancelled() => Err(CliError::interrupted()),
        }
    };
    drained(signals, &stop, work).await
}

async fn part(
    stop: &Stop,
    running: impl Future<Output = Result<(), AppError>>,
) -> Result<(), AppError> {
    let ended = running.await;
    stop.soft.cancel();
    ended
}

/// Logs that the queue is unavailable. No job is lost then, but processing is slower.
async fn announce_queue(app: &App) {
    if let Err(error) = app.ping_queue().await {
        tracing::warn!(
            "{error}: check REDIS_URL (redis.url) and that the server runs; requests are accepted, and workers poll the database until then"
        );
    }
}

/// Logs the judge of the criteria, and the missing setting if it isn't configured.
fn announce_judge(app: &App) {
    let judge = &app.criteria().judge;
    match app.enqueue().check_judge(judge) {
        Ok(()) => tracing::info!(%judge, "judge configured"),
        Err(problem) => tracing::warn!(
            %judge,
            "no judge: sessions are stored, but can't be scored: {}; then restart",
            problem.remedy
        ),
    }
}
