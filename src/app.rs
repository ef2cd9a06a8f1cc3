//! Wires the parts into a running process: which store, which queue, which judges. Decides nothing about a job.
//! (Skeleton: bodies to be written.)

use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Settings;
use crate::enqueue::Enqueue;
use crate::job::Lane;
use crate::queue::{Depth, QueueError};
use crate::score::Criteria;
use crate::store::Store;

/// Why a process can't run, by its exit code.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Exit 2: a setting or a file is wrong.
    #[error("{0}")]
    Config(String),
    /// Exit 2: another process holds the data folder.
    #[error(
        "{path} is in use by another gavel process: talk to that one with --server http://ADDRESS, or choose another --data-dir"
    )]
    Locked {
        /// The data folder.
        path: PathBuf,
    },
    /// Exit 2: the schema is not the one this binary needs.
    #[error("the database lacks {pending} migration(s): run `gavel migrate` first")]
    Unmigrated {
        /// How many.
        pending: usize,
    },
    /// Exit 2: a worker without a judge that it could ask.
    #[error("{0}")]
    NoJudge(String),
    /// Exit 3: a server that this process needs doesn't answer.
    #[error("{0}")]
    Unreachable(String),
    /// Exit 3: it ran, and broke.
    #[error("{0}")]
    Broken(String),
}

/// Where the rows and the ids lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// SQLite and the in-process queue, in a folder that this process locks.
    Embedded {
        /// The folder; made if it isn't there.
        data_dir: PathBuf,
    },
    /// Postgres and Redis, as the settings name them.
    Shared,
}

/// What to do about pending migrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrations {
    /// Apply them.
    Apply,
    /// Refuse to start.
    Require,
}

/// When to stop: `soft` takes no more work and lets what runs finish; `hard` gives back what is still running.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Begin to drain.
    pub soft: CancellationToken,
    /// Stop now.
    pub hard: CancellationToken,
}

/// A wired process.
pub struct App {
    _todo: (),
}

impl App {
    /// Reads the files that the settings name, opens the store, makes the queue, builds the judges.
    pub async fn open(
        _settings: Settings,
        _mode: Mode,
        _migrations: Migrations,
    ) -> Result<Self, AppError> {
        unimplemented!()
    }
    /// The settings.
    pub fn settings(&self) -> &Settings {
        unimplemented!()
    }
    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        unimplemented!()
    }
    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        unimplemented!()
    }
    /// Step 1 of the flow.
    pub fn enqueue(&self) -> &Arc<Enqueue> {
        unimplemented!()
    }
    /// The criteria that this process loaded.
    pub fn criteria(&self) -> Arc<Criteria> {
        unimplemented!()
    }
    /// The judges' names, each with `None` if it can be asked, else what to do.
    pub fn judges(&self) -> Vec<(String, Option<String>)> {
        unimplemented!()
    }
    /// What lies in a lane of the queue.
    pub async fn depth(&self, _lane: &Lane) -> Result<Depth, QueueError> {
        unimplemented!()
    }
    /// Whether the queue answers.
    pub async fn ping_queue(&self) -> Result<(), QueueError> {
        unimplemented!()
    }
    /// Answers HTTP on `listener` until `stop.soft`; open requests finish until `stop.hard`.
    pub async fn serve(&self, _listener: TcpListener, _stop: Stop) -> Result<(), AppError> {
        unimplemented!()
    }
    /// Works on jobs until `stop.soft`, then drains until `stop.hard` or the drain timeout.
    pub async fn work(&self, _stop: Stop) -> Result<(), AppError> {
        unimplemented!()
    }
    /// Reads the criteria file again; a bad one keeps the last good one and is shown in `/readyz?verbose`.
    pub fn reload_criteria(&self) -> Result<(), AppError> {
        unimplemented!()
    }
    /// Writes what is held, closes the store, frees the data folder.
    pub async fn close(self) {
        unimplemented!()
    }
}
