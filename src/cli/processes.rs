//! `gavel up`, `serve` and `worker`: the service in one process, or its API and workers with Postgres and Redis.

use std::path::PathBuf;

use clap::Args;
use tokio::net::TcpListener;

use super::Global;
use super::context::{Context, LogProfile, flag_of};
use super::daemon::{self, ApiArgs, ProcessParts, Work};
use super::outcome::{CliError, Exit};
use super::simulated::{self, SimulatedJudge};
use crate::app::{App, AppError, Migrations, Mode};
use crate::lifecycle::Signals;

/// Run everything in one process: API, worker, embedded database
#[derive(Debug, Args)]
#[command(
    long_about = "Run everything in one process: API, worker, an embedded SQLite database and queue. One process per data \
                  folder; other commands talk to it with --server. SIGTERM or Ctrl-C lets running jobs finish, a \
                  second one stops at once. SIGHUP reads the criteria files and the tokens again.",
    after_help = "Examples:\n  OPENAI_API_KEY=sk-... gavel up\n  DEFAULT_LLM_PROVIDER=anthropic-default ANTHROPIC_API_KEY=sk-... gavel up\n  gavel up --simulate   # made-up scores, no key\n  gavel up --bind 127.0.0.1:9000 --data-dir /var/lib/gavel --concurrency 64"
)]
pub(super) struct Up {
    #[command(flatten)]
    api: ApiArgs,
    /// Data folder [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Concurrent judge calls [env: GAVEL_WORKER_CONCURRENCY] [default: 16]
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// Use a simulated judge in this process, to try Gavel without a key. Its scores don't measure the sessions
    #[arg(long)]
    simulate: bool,
}

impl Up {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let concurrency = self.concurrency.as_ref();
        let flags = [
            flag_of("--data-dir", "data_dir", self.data_dir.as_ref()),
            flag_of("--concurrency", "worker.concurrency", concurrency),
        ];
        let flags = flags.into_iter().chain(self.api.flags());
        let mut context = Context::new(global, flags, LogProfile::Log)?;
        context.check_access()?;
        let shared = &context.settings;
        if !shared.database.url.is_empty() || !shared.redis.url.is_empty() {
            tracing::warn!(data_dir = %shared.data_dir, "DATABASE_URL and REDIS_URL are not used: `gavel up` keeps everything in its data folder; `serve` and `worker` use them");
        }
        let mut signals = Signals::listen()?;
        let simulated = match self.simulate {
            true => Some(SimulatedJudge::open().await?),
            false => None,
        };
        if let Some(simulated) = &simulated {
            simulated.for_everything()(&mut context.settings);
        }
        let mode = Mode::Embedded {
            data_dir: PathBuf::from(&context.settings.data_dir),
        };
        let app = App::open(context.settings.clone(), mode, Migrations::Apply).await?;
        let running = Box::pin(daemon::serve(app, &context, Work::Jobs, &mut signals));
        simulated::serve_during(simulated, running).await
    }
}

/// Run the API over Postgres and Redis
#[derive(Debug, Args)]
#[command(
    long_about = "Run the API with Postgres and Redis. You can run any number of API processes and of `gavel \
        worker`. Needs DATABASE_URL and REDIS_URL, and a migrated database (`gavel migrate`). SIGHUP reloads the \
        criteria files and the tokens. Send it to each process, because the others keep the old ones. After SIGTERM \
        /readyz returns 503 at once, new requests are served for http.drain_delay_s more, and open requests have 10 \
        s after that.",
    after_help = "Example:\n  DATABASE_URL=postgres://gavel@db/gavel REDIS_URL=redis://redis:6379 \\\n      gavel serve --bind 0.0.0.0:8080"
)]
pub(super) struct Serve {
    #[command(flatten)]
    api: ApiArgs,
}

impl Serve {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let context = Context::new(global, self.api.flags(), LogProfile::Log)?;
        require_servers(&context, "serve")?;
        context.check_access()?;
        let mut signals = Signals::listen()?;
        let app = App::open(context.settings.clone(), Mode::Shared, Migrations::Require).await?;
        daemon::serve(app, &context, Work::Nothing, &mut signals).await
    }
}

/// Requires that both servers are configured. The error names the missing one and the alternative without servers.
pub(super) fn require_servers(context: &Context, command: &str) -> Result<(), CliError> {
    let settings = &context.settings;
    let mut missing = Vec::new();
    if settings.database.url.is_empty() {
        missing.push("set DATABASE_URL (database.url) to postgres://user:password@host:5432/name");
    }
    if settings.redis.url.is_empty() {
        missing.push("set REDIS_URL (redis.url) to redis://host:6379/0");
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "`gavel {command}` needs Postgres and Redis: {}; or run everything in one process with `gavel up`",
        missing.join(" and ")
    )))
}

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
        let (concurrency, health_bind) = (self.concurrency.as_ref(), self.health_bind.as_ref());
        let flags = [
            flag_of("--concurrency", "worker.concurrency", concurrency),
            flag_of("--health-bind", "worker.health_bind", health_bind),
        ];
        let context = Context::new(global, flags, LogProfile::Log)?;
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
                let running = daemon::run_parts(&app, parts, &mut signals);
                Box::pin(running).await
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
