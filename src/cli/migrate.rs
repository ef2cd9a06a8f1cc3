//! `gavel migrate`: applies or reverts schema migrations.

use std::path::PathBuf;

use clap::Args;

use super::Global;
use super::context::{Context, LogProfile, flag_of};
use super::outcome::{CliError, Exit};
use super::output;
use crate::app::{Mode, hold_data_folder, open_store};
use crate::config::{Settings, redacted_url};
use crate::store::Store;

/// Apply pending database migrations, or revert some
#[derive(Debug, Args)]
#[command(
    long_about = "Apply pending migrations to the database in DATABASE_URL, or without one to the database in the \
        data folder. `gavel up` and `gavel demo` apply theirs automatically; `serve` and `worker` don't start before \
        this command has run. Processes of the previous release work with a migrated database. If a table is in use, \
        the command waits for it for a minute or two, without blocking others. --revert drops tables and columns \
        with their data.",
    after_help = "Examples:\n  DATABASE_URL=postgres://gavel@db/gavel gavel migrate\n  gavel migrate --revert 1"
)]
pub(super) struct Migrate {
    /// Revert the newest N migrations instead; the data they added is lost
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    revert: Option<u32>,
    /// Data folder, without a database [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

impl Migrate {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let flags = flag_of("--data-dir", "data_dir", self.data_dir.clone());
        let context = Context::new(global, flags.into_iter().collect(), LogProfile::Results)?;
        let (mode, name) = store_of(&context.settings)?;
        let _held = hold_data_folder(&mode)?;
        let store = open_store(&context.settings, &mode).await?;
        let done = self.on(&store, &name).await;
        store.close().await;
        done
    }

    async fn on(&self, store: &Store, name: &str) -> Result<Exit, CliError> {
        let before = store.schema_version().await?;
        let (versions, what) = match self.revert {
            None => (store.migrate().await?, "applied"),
            Some(n) => (store.revert(n).await?, "reverted"),
        };
        if versions.is_empty() {
            output::line(&format!("{name}: no change, at version {before}"))?;
        } else {
            let (now, listed) = (store.schema_version().await?, output::joined(&versions));
            output::line(&format!(
                "{name}: from version {before} to {now}; {what} {listed}"
            ))?;
        }
        Ok(Exit::Done)
    }
}

/// The store of the settings, with its display name.
pub(super) fn store_of(settings: &Settings) -> Result<(Mode, String), CliError> {
    match settings.database.url.as_str() {
        "" => embedded(settings),
        url => Ok((Mode::Shared, redacted_url(url))),
    }
}

/// The data folder. Must exist.
fn embedded(settings: &Settings) -> Result<(Mode, String), CliError> {
    let data_dir = PathBuf::from(&settings.data_dir);
    let name = data_dir.display().to_string();
    if !data_dir.exists() {
        return Err(CliError::usage(format!(
            "no data in {name} and no DATABASE_URL (database.url) is set; `gavel up` creates and migrates its database"
        )));
    }
    Ok((Mode::Embedded { data_dir }, name))
}
