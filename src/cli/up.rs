//! `gavel up`: the whole service in one process.

use std::path::PathBuf;

use clap::Args;

use super::Global;
use super::context::{Context, Voice, flag_of};
use super::daemon::{self, Parts, Work};
use super::outcome::{CliError, Exit};
use crate::app::{App, Migrations, Mode, Stop};
use crate::lifecycle::Signals;

/// Run everything in one process: API, worker, embedded database
#[derive(Debug, Args)]
#[command(
    long_about = "Run everything in one process: API, worker, an embedded SQLite database and queue. One process per data \
                  folder; other commands talk to it with --server. SIGTERM or Ctrl-C lets running jobs finish, a second \
                  one stops at once; SIGHUP reads the criteria file again.",
    after_help = "Examples:\n  OPENAI_API_KEY=sk-... gavel up\n  DEFAULT_LLM_PROVIDER=anthropic-default ANTHROPIC_API_KEY=sk-... gavel up\n  gavel simulate-judge & DEFAULT_LLM_PROVIDER=simulated gavel up   # made-up scores\n  gavel up --bind 127.0.0.1:9000 --data-dir /var/lib/gavel --concurrency 64"
)]
pub(super) struct Up {
    /// Address of the API [env: GAVEL_BIND] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Where the database lies [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Judge calls at once [env: GAVEL_WORKER_CONCURRENCY] [default: 16]
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// Allow a bind beyond loopback without tokens [env: GAVEL_AUTH_INSECURE_NO_AUTH]
    #[arg(long)]
    insecure_no_auth: bool,
}

impl Up {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let insecure = self.insecure_no_auth.then_some(true);
        let flags = [
            flag_of("--bind", "bind", self.bind.clone()),
            flag_of("--data-dir", "data_dir", self.data_dir.clone()),
            flag_of(
                "--concurrency",
                "worker.concurrency",
                self.concurrency.clone(),
            ),
            flag_of("--insecure-no-auth", "auth.insecure_no_auth", insecure),
        ];
        let context = Context::new(global, flags.into_iter().flatten().collect(), Voice::Log)?;
        context.check_access()?;
        let mut signals = Signals::listen()?;
        let mode = Mode::Embedded {
            data_dir: PathBuf::from(&context.settings.data_dir),
        };
        let app = App::open(context.settings.clone(), mode, Migrations::Apply).await?;
        let running = async {
            let listener = context.listen().await?;
            daemon::announce_judge(&app);
            tracing::info!(
                data_dir = %context.settings.data_dir,
                "listening on http://{}",
                listener.local_addr()?
            );
            let parts = Parts {
                api: Some(listener),
                worker: Work::Jobs,
                health: None,
            };
            daemon::run(&app, parts, &mut signals, &Stop::default(), async {
                Ok(())
            })
            .await
        };
        let ended = running.await;
        app.close().await;
        ended
    }
}
