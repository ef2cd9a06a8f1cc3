//! Exit codes of commands and their errors.

use std::process::ExitCode;

use crate::app::AppError;
use crate::client::ClientError;
use crate::config::ConfigError;
use crate::report::ReportError;
use crate::store::StoreError;
use crate::suite::run::Stopped;
use crate::suite::run::folder::FolderError;
use crate::telemetry::TelemetryError;

/// Exit codes. Scripts depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exit {
    Done = 0,
    /// The evaluated run doesn't pass.
    GateFailed = 1,
    /// The command line, a setting or a file is invalid.
    Usage = 2,
    /// A service or the judge is unavailable, or a part failed or isn't finished.
    Incomplete = 3,
    /// No work.
    Nothing = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// `Nothing` if the result is empty, otherwise `Done`.
    pub(super) fn nothing_if(is_empty: bool) -> Self {
        match is_empty {
            true => Self::Nothing,
            false => Self::Done,
        }
    }

    pub(super) fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// Error of a command, with a message for the user.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct CliError {
    pub(super) exit: Exit,
    /// Error and remedy. Empty if already printed.
    pub(super) message: String,
}

impl CliError {
    fn new(exit: Exit, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { exit, message }
    }

    pub(super) fn usage(message: impl ToString) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(super) fn incomplete(message: impl ToString) -> Self {
        Self::new(Exit::Incomplete, message)
    }

    pub(super) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted")
    }

    pub(super) fn unreadable(name: impl std::fmt::Display, error: std::io::Error) -> Self {
        Self::usage(format!("{name}: can't be read: {error}"))
    }
}

pub(super) fn is_interrupted<T>(ended: &Result<T, CliError>) -> bool {
    let error = ended.as_ref().err();
    error.is_some_and(|error| error.exit == Exit::Interrupted)
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::usage(error)
    }
}

impl From<TelemetryError> for CliError {
    fn from(error: TelemetryError) -> Self {
        Self::usage(error)
    }
}

impl From<AppError> for CliError {
    fn from(error: AppError) -> Self {
        match &error {
            AppError::Config(_)
            | AppError::Locked { .. }
            | AppError::Unmigrated { .. }
            | AppError::MissingGrants(_)
            | AppError::NoJudge(_) => Self::usage(error),
            AppError::Unreachable(_) | AppError::Broken(_) => Self::incomplete(error),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Schema(_) | StoreError::SharedSessions | StoreError::BadCursor(_) => {
                Self::usage(error)
            }
            StoreError::Unavailable { .. } | StoreError::Unexpected { .. } => {
                Self::incomplete(error)
            }
        }
    }
}

impl From<ClientError> for CliError {
    /// Exit code 2 if the user can correct it, 3 if the service is unavailable.
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Address(_) => Exit::Usage,
            ClientError::Unreachable { .. }
            | ClientError::BrokeOff { .. }
            | ClientError::Unexpected { .. }
            | ClientError::Away { .. } => Exit::Incomplete,
            ClientError::Refused(problem) => match problem.name() {
                "judge-not-configured" | "scoring-disabled" => Exit::Usage,
                _ if (400..500).contains(&problem.status) => Exit::Usage,
                _ => Exit::Incomplete,
            },
        };
        let remedy = match error.problem() {
            Some("unauthorized") => "\n  give the token with --token (GAVEL_TOKEN)",
            Some(_) | None => "",
        };
        Self::new(exit, format!("{error}{remedy}"))
    }
}

impl From<FolderError> for CliError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Unfit(message) => Self::usage(message),
            error @ FolderError::Io { .. } => Self::incomplete(error),
        }
    }
}

impl From<Stopped> for CliError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Usage(message) => Self::usage(message),
            Stopped::Down(message) => Self::incomplete(message),
        }
    }
}

impl From<ReportError> for CliError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Read { .. } | ReportError::Line { .. } => Self::usage(error),
            ReportError::Write { .. } => Self::incomplete(error),
            ReportError::Store(error) => error.into(),
        }
    }
}

impl From<std::io::Error> for CliError {
    /// A closed pipe (`| head`) isn't an error.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::incomplete(format!("input or output: {error}"))
    }
}
