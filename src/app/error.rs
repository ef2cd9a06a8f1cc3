//! Errors that end a process, by exit code.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Exit 2: invalid setting or file.
    #[error("{0}")]
    Config(String),
    /// Exit 2: another process has locked the data folder.
    #[error(
        "{path} is in use by another gavel process: stop that process, use its API if this command has --server http://ADDRESS, or choose another --data-dir"
    )]
    Locked { path: PathBuf },
    /// Exit 2: the schema isn't the version that this binary needs.
    #[error("the database is missing {pending} migration(s): run `gavel migrate` first")]
    Unmigrated { pending: usize },
    /// Exit 2: the role lacks privileges.
    #[error("the role has too few privileges on Gavel's tables; run as their owner: {0}")]
    MissingGrants(String),
    /// Exit 2: a worker without a configured judge.
    #[error("{0}")]
    NoJudge(String),
    /// Exit 3: a required server is unavailable.
    #[error("{0}")]
    Unreachable(String),
    /// Exit 3: failure at run time.
    #[error("{0}")]
    Broken(String),
}
