//! `gavel serve`: the API over Postgres and Redis.

use clap::Args;

use super::Global;
use super::context::{Context, LogProfile};
use super::daemon::{self, ApiArgs, Work};
use super::outcome::{CliError, Exit};
use crate::app::{App, Migrations, Mode};
use crate::lifecycle::Signals;

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
        let flags = self.api.flags().into_iter().flatten().collect();
        let context = Context::new(global, flags, LogProfile::Log)?;
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
