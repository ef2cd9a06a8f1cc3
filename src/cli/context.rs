//! Setup of each command: layered settings, logs, warnings.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::Global;
use super::outcome::CliError;
use crate::app::{App, only_judge};
use crate::config::{self, ConfigError, Flag, Settings, Sources};
use crate::telemetry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogProfile {
    /// A server: logs as configured.
    Log,
    /// A command: warnings only, unless flags enable more.
    Results,
    /// A command that runs jobs and prints their results, so failed jobs aren't logged as warnings.
    Jobs,
    /// Like `Jobs`, and problems of items are in the command's summary.
    Summary,
}

/// Validated settings, with logging initialized.
pub(super) struct Context {
    pub(super) settings: Settings,
    /// Whether a flag, the environment or a file sets the default judge. Otherwise it is the built-in one.
    pub(super) names_default_judge: bool,
    sources: Sources,
}

impl Context {
    pub(super) fn new(
        global: &Global,
        flags: impl IntoIterator<Item = Option<Flag>>,
        profile: LogProfile,
    ) -> Result<Self, CliError> {
        let sources = sources(global, flags);
        let config::Loaded {
            mut settings,
            values,
            warnings,
        } = config::load(&sources)?;
        let is_set = global.log.is_some() || std::env::var_os("GAVEL_LOG_FILTER").is_some();
        let filter = match profile {
            LogProfile::Log => "info",
            LogProfile::Results => "warn",
            LogProfile::Jobs => "warn,gavel::worker::handle=error",
            LogProfile::Summary => {
                "warn,gavel::worker::handle=error,gavel::worker::endings=off,gavel::suite::run::computed=off"
            }
        };
        if !is_set && settings.log.filter == "info" {
            filter.clone_into(&mut settings.log.filter);
        }
        telemetry::init(&settings.log)?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let names_default_judge = values
            .iter()
            .any(|one| one.key == "default_llm_provider" && one.origin != "default");
        if !names_default_judge && let Some(judge) = only_judge(&settings) {
            settings.overruled(
                "default_llm_provider",
                judge.as_str(),
                "the only judge with a key",
            );
            settings.default_llm_provider = judge;
        }
        Ok(Self {
            settings,
            names_default_judge,
            sources,
        })
    }

    /// Reads the settings again with the flags and the environment of the process's start.
    pub(super) fn reread(&self) -> Result<Settings, ConfigError> {
        config::load(&self.sources).map(|loaded| loaded.settings)
    }

    /// Address of the API, validated by `load`.
    pub(super) fn bind(&self) -> Result<SocketAddr, CliError> {
        address("bind", &self.settings.bind)
    }

    /// Address of a worker's own port, validated by `load`. `None` if disabled.
    pub(super) fn health_bind(&self) -> Result<Option<SocketAddr>, CliError> {
        match self.settings.worker.health_bind.as_str() {
            "" => Ok(None),
            bind => address("worker.health_bind", bind).map(Some),
        }
    }

    pub(super) fn is_default(&self, key: &str) -> bool {
        let mut shown = self.settings.shown.iter();
        shown.any(|one| one.key == key && one.origin == "default")
    }

    /// Rejects an address that is reachable without authentication, before any resource is opened.
    pub(super) fn check_access(&self) -> Result<(), CliError> {
        Ok(App::check_access(&self.settings, self.bind()?)?)
    }

    pub(super) async fn listen(&self) -> Result<TcpListener, CliError> {
        listen(self.bind()?).await
    }
}

fn address(key: &str, text: &str) -> Result<SocketAddr, CliError> {
    text.parse()
        .map_err(|error| CliError::usage(format!("{key}: {text:?}: {error}")))
}

/// Binds an address. If it is in use, the error explains how to choose another.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| {
        let what = if error.kind() == std::io::ErrorKind::AddrInUse {
            "is in use by another process".to_owned()
        } else {
            format!("can't be bound: {error}")
        };
        CliError::usage(format!(
            "{address} {what}; choose another address with --bind (GAVEL_BIND), such as --bind 127.0.0.1:{}",
            if address.port() == u16::MAX { 8081 } else { address.port() + 1 }
        ))
    })
}

pub(super) fn sources(global: &Global, flags: impl IntoIterator<Item = Option<Flag>>) -> Sources {
    let given = [
        ("--scoring-config", "scoring_config", &global.scoring_config),
        ("--llm-providers", "llm_providers", &global.llm_providers),
        ("--log-format", "log.format", &global.log_format),
        ("--log", "log.filter", &global.log),
    ];
    let given = given.map(|(flag, key, value)| flag_of(flag, key, value.as_ref()));
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let file = global.config.clone();
    Sources {
        flags: flags.into_iter().chain(given).flatten().collect(),
        env: env.collect(),
        file: file.filter(|path| !path.as_os_str().is_empty()),
    }
}

pub(super) fn flag_of(
    flag: &'static str,
    key: &'static str,
    value: Option<impl ToString>,
) -> Option<Flag> {
    value.map(|value| Flag {
        flag,
        key,
        value: value.to_string(),
    })
}
