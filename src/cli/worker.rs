//! `gavel worker`: claims jobs from Redis and Postgres and scores them.

use clap::Args;
use tokio::net::TcpListener;

use super::Global;
use super::context::{Context, LogProfile, flag_of};
use super::daemon::{self, ProcessParts, Work};
use super::outcome::{CliError, Exit};
use super::serve::require_servers;
use crate::app::{App, AppError, Migrations, Mode, Stop};
use crate::lifecycle::Signals;

/// Run a worker over Postgres and Redis
#[derive(Debug, Args)]
#[command(
    long_about = "Run a worker with Postgres and Redis. You can run any number of workers. After SIGTERM running \
        jobs may finish for worker.drain_timeout_s (15 s). Unfinished jobs then return to the queue, and the process \
        ends at most 11 s later. Needs DATABASE_URL, REDIS_URL, a migrated database and a judge. Health and metrics \
        have a separate port (--health-bind).",
    after_help = "Example:\n  DATABASE_URL=postgres://gavel@db/gavel REDIS_URL=redis://redis:6379 \\\n      OPENAI_API_KEY=sk-... gavel worker --concurrency 64"
)]
pub(super) struct Worker {
    /// Concurrent judge calls [env: GAVEL_WORKER_CONCURRENCY] [default: 16]
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// Address of /livez, /readyz and /metrics; empty: none [env: GAVEL_WORKER_HEALTH_BIND] [default: 127.0.0.1:9465]
    #[arg(long, value_name = "ADDRESS")]
    health_bind: Option<String>,
}

impl Worker {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let concurrency = self.concurrency.clone();
        let health_bind = self.health_bind.clone();
        let flags = [
            flag_of("--concurrency", "worker.concurrency", concurrency),
            flag_of("--health-bind", "worker.health_bind", health_bind),
        ];
        let context = Context::new(
            global,
            flags.into_iter().flatten().collect(),
            LogProfile::Log,
        )?;
        require_servers(&context, "worker")?;
        let health = health_listener(&context).await?;
        let mut signals = Signals::listen()?;
        let app = App::open(context.settings.clone(), Mode::Shared, Migrations::Require).await?;
        let ended = match require_judge(&app) {
            Ok(()) => {
                tracing::info!(
                    concurrency = app.settings().worker.concurrency,
                    queue = %context.settings.redis.queue,
                    "working"
                );
                let parts = ProcessParts {
                    api: None,
                    worker: Work::Jobs,
                    tokens: health.is_some().then_some(&context),
                    health,
                };
                let stop = Stop::default();
                Box::pin(daemon::run(&app, parts, &mut signals, &stop, async {
                    Ok(())
                }))
                .await
            }
            Err(error) => Err(error.into()),
        };
        app.close().await;
        ended
    }
}

/// Binds the address of the worker's own port; `None` if disabled. A configured address must be free. The default one may be in use by
/// another worker of this host.
async fn health_listener(context: &Context) -> Result<Option<TcpListener>, CliError> {
    let Some(address) = context.health_bind()? else {
        return Ok(None);
    };
    App::check_access(&context.settings, address)?;
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if context.is_default("worker.health_bind") => {
            tracing::warn!(
                %address, %error,
                "no health port: the address can't be bound, perhaps another worker has it; give each worker of a host its own with --health-bind (GAVEL_WORKER_HEALTH_BIND)"
            );
            return Ok(None);
        }
        Err(error) => {
            return Err(CliError::usage(format!(
                "worker.health_bind: {address} can't be bound: {error}; choose another address with --health-bind (GAVEL_WORKER_HEALTH_BIND), port 0 for any free one, or an empty one for none"
            )));
        }
    };
    tracing::info!("health and metrics on http://{}", listener.local_addr()?);
    Ok(Some(listener))
}

/// Rejects a worker without any usable judge. With a judge other than the default, it may have jobs.
fn require_judge(app: &App) -> Result<(), AppError> {
    let judge = app.criteria().judge.clone();
    let Err(problem) = app.enqueue().check_judge(&judge) else {
        return Ok(());
    };
    // The simulator's entry always exists and needs no key, so it doesn't count.
    let other = app
        .judges()
        .into_iter()
        .any(|(name, fault)| fault.is_none() && !name.starts_with("simulated"));
    if other {
        tracing::warn!(%judge, "the current criteria's judge can't be called: {}", problem.remedy);
        return Ok(());
    }
    Err(AppError::NoJudge(format!(
        "this worker has no judge: {}",
        problem.remedy
    )))
}
