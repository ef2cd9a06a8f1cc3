//! `gavel up`: the complete service in one process.

use std::path::PathBuf;

use clap::Args;

use super::Global;
use super::context::{Context, LogProfile, flag_of};
use super::daemon::{self, ApiArgs, Work};
use super::outcome::{CliError, Exit};
use super::simulated::SimulatedJudge;
use crate::app::{App, Migrations, Mode};
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
        let concurrency = self.concurrency.clone();
        let flags = [
            flag_of("--data-dir", "data_dir", self.data_dir.clone()),
            flag_of("--concurrency", "worker.concurrency", concurrency),
        ];
        let flags = flags.into_iter().chain(self.api.flags());
        let mut context = Context::new(global, flags.flatten().collect(), LogProfile::Log)?;
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
        // The simulator runs until the drain has finished, because active jobs still call it.
        match simulated {
            Some(simulated) => simulated.serve_during(running).await,
            None => running.await,
        }
    }
}
