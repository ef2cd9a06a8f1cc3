//! Exit codes of commands and their errors.

use std::process::ExitCode;

use crate::app::AppError;
use crate::client::ClientError;
use crate::config::ConfigError;
use crate::store::StoreError;
use crate::suite::run::folder::FolderError;
use crate::telemetry::TelemetryError;

/// Exit codes. Scripts depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// 0.
    Done,
    /// 1: the evaluated run doesn't pass.
    GateFailed,
    /// 2: the command line, a setting or a file is invalid.
    Usage,
    /// 3: a service or the judge is unavailable, or a part failed or isn't finished.
    Incomplete,
    /// 4: no work.
    Nothing,
    /// 130: Ctrl-C.
    Interrupted,
}

impl Exit {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::GateFailed => 1,
            Self::Usage => 2,
            Self::Incomplete => 3,
            Self::Nothing => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
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
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }

    pub(super) fn incomplete(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Incomplete,
            message: message.into(),
        }
    }

    pub(super) fn interrupted() -> Self {
        Self {
            exit: Exit::Interrupted,
            message: "interrupted".to_owned(),
        }
    }
}

pub(super) fn is_interrupted<T>(ended: &Result<T, CliError>) -> bool {
    let error = ended.as_ref().err();
    error.is_some_and(|error| error.exit == Exit::Interrupted)
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<TelemetryError> for CliError {
    fn from(error: TelemetryError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<AppError> for CliError {
    fn from(error: AppError) -> Self {
        let exit = match &error {
            AppError::Config(_)
            | AppError::Locked { .. }
            | AppError::Unmigrated { .. }
            | AppError::MissingGrants(_)
            | AppError::NoJudge(_) => Exit::Usage,
            AppError::Unreachable(_) | AppError::Broken(_) => Exit::Incomplete,
        };
        Self {
            exit,
            message: error.to_string(),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::Schema(_) | StoreError::SharedSessions | StoreError::BadCursor(_) => {
                Exit::Usage
            }
            StoreError::Unavailable { .. } | StoreError::Unexpected { .. } => Exit::Incomplete,
        };
        Self {
            exit,
            message: error.to_string(),
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let mut message = error.to_string();
        if error.problem() == Some("unauthorized") {
            message.push_str("\n  give the token with --token (GAVEL_TOKEN)");
        }
        Self {
            exit: exit_of(&error),
            message,
        }
    }
}

/// Exit code of an API error: 2 if the user can correct it, 3 if the service is unavailable.
pub(super) fn exit_of(error: &ClientError) -> Exit {
    match error {
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
    }
}

impl From<FolderError> for CliError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Unfit(message) => Self::usage(message),
            error @ FolderError::Io { .. } => Self::incomplete(error.to_string()),
        }
    }
}

impl From<std::io::Error> for CliError {
    /// A closed pipe (`| head`) isn't an error.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self {
                exit: Exit::Done,
                message: String::new(),
            };
        }
        Self::incomplete(format!("input or output: {error}"))
    }
}
