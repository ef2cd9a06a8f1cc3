//! `gavel migrate` and `gavel prune`: schema migrations and retention, run directly on the store.

use std::path::PathBuf;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::context::{Context, LogProfile, flag_of};
use super::daemon::drained;
use super::outcome::{CliError, Exit};
use super::output::WithText;
use super::progress::Progress;
use super::{Global, output};
use crate::app::{AppError, Mode, Stop, clocks_apart, hold_data_folder, open_store};
use crate::clock::{Clock as _, ClockSkew, SystemClock};
use crate::config::{Settings, redacted_url};
use crate::lifecycle::Signals;
use crate::store::{Aged, Pruning, Store};

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
        let context = Context::new(global, [flags], LogProfile::Results)?;
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

/// Minimum age, because idempotency keys and cached replies are stored for a day.
const MIN_AGE: TimeDelta = TimeDelta::days(1);

/// Delete old jobs, sessions and judge calls
#[derive(Debug, Args)]
#[command(
    long_about = "Delete old jobs, sessions and judge calls from the database in DATABASE_URL, or without one from \
        the data folder. Workers do the same automatically if retention.jobs_days, retention.sessions_days or \
        retention.judge_calls_days is set. The command deletes in short steps while the service runs. Ctrl-C ends it \
        with 130 and keeps what it has deleted so far deleted. Active jobs, running batches and their rows stay, and \
        so do costs by day. A batch is deleted as a unit, with its report. To delete more than half of a kind, add \
        --more-than-half. If the clocks of database and machine differ by more than 5 minutes, the command deletes \
        no rows.",
    after_help = "Examples:\n  gavel prune --jobs --older-than 365d --dry-run\n  gavel prune --jobs --sessions --older-than 2024-01-01",
    group = ArgGroup::new("what").args(["jobs", "sessions", "calls", "deliveries", "imports"]).required(true).multiple(true)
)]
pub(super) struct Prune {
    /// Jobs and batches that ended before that, with their calls and the scores of cases; scores of sessions stay
    #[arg(long)]
    jobs: bool,
    /// Sessions completed (otherwise created) and last updated before that, with all their data
    #[arg(long)]
    sessions: bool,
    /// Judge calls sent before that, with their raw replies
    #[arg(long)]
    calls: bool,
    /// Webhook deliveries of events before that, delivered or not
    #[arg(long)]
    deliveries: bool,
    /// Imports that ended before that, with their errors
    #[arg(long)]
    imports: bool,
    /// Age (365d), date (2024-01-31) or time; at least a day ago
    #[arg(long, value_name = "AGE", value_parser = crate::wire::time_of_flag)]
    older_than: DateTime<Utc>,
    /// Delete even if that is more than half of the stored rows of a type
    #[arg(long)]
    more_than_half: bool,
    /// Count rows without deleting them
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Data folder, without a database [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

impl Prune {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        if self.older_than > SystemClock.now() - MIN_AGE {
            return Err(CliError::usage(
                "--older-than names a time less than a day ago: give 1d or more, or an earlier date",
            ));
        }
        let flags = flag_of("--data-dir", "data_dir", self.data_dir.clone());
        let context = Context::new(global, [flags], LogProfile::Results)?;
        let (mode, name) = store_of(&context.settings)?;
        output::note(&format!("store: {name}"));
        let mut signals = Signals::listen()?;
        let _held = match hold_data_folder(&mode) {
            Err(AppError::Locked { path }) => {
                return Err(CliError::usage(format!(
                    "{} is in use by another gavel process: end that process first, or let it prune automatically with retention.jobs_days, \
                     retention.sessions_days and retention.judge_calls_days",
                    path.display()
                )));
            }
            held => held?,
        };
        let store = open_store(&context.settings, &mode).await?;
        let stop = Stop::default();
        let pruned = drained(&mut signals, &stop, self.prune(&store, &stop)).await;
        store.close().await;
        output::print(&pruned?, self.json)
    }

    async fn prune(&self, store: &Store, stop: &Stop) -> Result<WithText<Value>, CliError> {
        let pending = store.pending_migrations().await?.len();
        if pending > 0 {
            return Err(AppError::Unmigrated { pending }.into());
        }
        if let Some(time) = store.database_time().await? {
            let skew = ClockSkew::of(time);
            if skew.is_too_large() {
                return Err(CliError::usage(clocks_apart(skew)));
            }
        }
        let kinds = [
            (self.jobs, "jobs", [Aged::Batches, Aged::Jobs].as_slice()),
            (self.sessions, "sessions", &[Aged::Sessions]),
            (self.calls, "calls", &[Aged::Calls]),
            (self.deliveries, "deliveries", &[Aged::Deliveries]),
            (self.imports, "imports", &[Aged::Imports]),
        ];
        let wanted = || kinds.iter().filter(|(wanted, ..)| *wanted);
        if !self.more_than_half && !self.dry_run {
            for aged in wanted().flat_map(|(_, _, of_it)| *of_it) {
                let expired = store.retention().expired(*aged, self.older_than).await?;
                if expired.is_implausible() {
                    return Err(CliError::usage(format!(
                        "{expired}: no rows deleted; if that is intended, add --more-than-half"
                    )));
                }
            }
        }
        let mut answer = json!({"before": self.older_than, "dry_run": self.dry_run});
        let mut words = Vec::new();
        if self.sessions && !self.dry_run {
            // Rolls up days before their sessions are deleted. Workers do this continuously, but there may be none.
            while store.analytics().roll_up_days().await?.more {}
        }
        for (_, name, of_it) in wanted() {
            let mut rows = 0;
            for aged in *of_it {
                rows += store.retention().count(*aged, self.older_than).await?;
            }
            if !self.dry_run {
                rows = self.delete(store, stop, (name, of_it), rows).await?;
            }
            answer[*name] = rows.into();
            words.push(format!("{rows} {name}"));
        }
        let what = match self.dry_run {
            true => "would be deleted",
            false => "deleted",
        };
        let (rows, before) = (words.join(", "), output::time(self.older_than));
        let text = format!("{rows} older than {before} {what}");
        Ok(WithText::line(answer, text))
    }

    /// Deletes in steps. Sleeps after each step as long as it took, so that other processes can use the database.
    async fn delete(
        &self,
        store: &Store,
        stop: &Stop,
        (name, of_it): (&'static str, &[Aged]),
        expected: u64,
    ) -> Result<u64, CliError> {
        let progress = Progress::growing(name);
        let mut rows = 0;
        for aged in of_it {
            let mut pruning = Pruning::new(*aged, self.older_than);
            loop {
                let began = Instant::now();
                let step = store.retention().step(&mut pruning).await?;
                rows += step.deleted;
                progress.at([rows, 0, expected.max(rows)], "");
                if !step.more {
                    store.retention().approve(*aged, self.older_than).await?;
                    break;
                }
                let rest = tokio::time::sleep(began.elapsed());
                if stop.soft.run_until_cancelled(rest).await.is_none() {
                    output::note(&format!("{rows} {name} deleted"));
                    return Err(CliError::interrupted());
                }
            }
        }
        Ok(rows)
    }
}
