//! Why a process can't run.

use std::path::PathBuf;

/// Why a process can't run, by its exit code.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Exit 2: a setting or a file is wrong.
    #[error("{0}")]
    Config(String),
    /// Exit 2: another process holds the data folder.
    #[error(
        "{path} is in use by another gavel process: end that one, ask it where this command has --server http://ADDRESS, or choose another --data-dir"
    )]
    Locked { path: PathBuf },
    /// Exit 2: the schema is not the one this binary needs.
    #[error("the database lacks {pending} migration(s): run `gavel migrate` first")]
    Unmigrated {
        /// How many.
        pending: usize,
    },
    /// Exit 2: the role lacks privileges.
    #[error("the role lacks privileges on Gavel's tables; run as their owner: {0}")]
    MissingGrants(String),
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
