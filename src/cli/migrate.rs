//! `gavel migrate`: the schema, forwards and back.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Global;
use super::context::{Context, Voice, flag_of};
use super::outcome::{CliError, Exit};
use super::output;
use crate::app::{App, Migrations, Mode, open_store};
use crate::config::redacted_url;
use crate::store::Store;

/// Apply pending database migrations, or take some back
#[derive(Debug, Args)]
#[command(
    long_about = "Apply pending migrations to the database that DATABASE_URL names, else to the one in the data folder. \
                  `gavel up` and `gavel demo` apply theirs by themselves; `serve` and `worker` refuse to start before this \
                  has run. Processes of the release before go on beside a migrated database, unless a version says otherwise. A table that is \
                  in use is waited for without holding up others, for a minute or two. --revert drops tables and columns, and what is in them.",
    after_help = "Examples:\n  DATABASE_URL=postgres://gavel@db/gavel gavel migrate\n  gavel migrate --revert 1"
)]
pub(super) struct Migrate {
    /// Take back the newest N migrations instead; what they added is lost
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    revert: Option<u32>,
    /// Data folder, when no database is set [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

impl Migrate {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let flags = flag_of("--data-dir", "data_dir", self.data_dir.clone());
        let context = Context::new(global, flags.into_iter().collect(), Voice::Results)?;
        let database = &context.settings.database;
        if database.url.is_empty() {
            return self.embedded(&context).await;
        }
        let store = open_store(&context.settings, &Mode::Shared).await?;
        let done = self.on(&store, &redacted_url(&database.url)).await;
        store.close().await;
        done
    }

    /// The data folder is opened as `up` opens it: locked, and up to date before anything is taken back.
    async fn embedded(&self, context: &Context) -> Result<Exit, CliError> {
        let data_dir = PathBuf::from(&context.settings.data_dir);
        if !Path::new(&data_dir).exists() {
            return Err(CliError::usage(format!(
                "there is no data in {} and no DATABASE_URL (database.url) is set; `gavel up` makes and migrates its own",
                data_dir.display()
            )));
        }
        let name = data_dir.display().to_string();
        let mode = Mode::Embedded { data_dir };
        let app = App::open(context.settings.clone(), mode, Migrations::Apply).await?;
        let done = self.on(app.store(), &name).await;
        app.close().await;
        done
    }

    async fn on(&self, store: &Store, name: &str) -> Result<Exit, CliError> {
        let (versions, what) = match self.revert {
            None => (store.migrate().await?, "applied"),
            Some(n) => (store.revert(n).await?, "reverted"),
        };
        let listed: Vec<String> = versions.iter().map(ToString::to_string).collect();
        if listed.is_empty() {
            output::line(&format!("{name}: nothing to do"))?;
        } else {
            output::line(&format!("{name}: {what} {}", listed.join(", ")))?;
        }
        Ok(Exit::Done)
    }
}
