//! Logs to stderr, as text or JSON lines, and a hook that logs panics.
//!
//! A panic's message is logged only if it is a literal, because a formatted one may quote a prompt, a reply or a key.
//! The source location identifies the bug.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::LogSettings;

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error(
        "log.filter (--log, GAVEL_LOG_FILTER): {0:?} is not a filter; give a level such as info, or info,gavel=debug"
    )]
    Filter(String),
    #[error("logs are already set up: {0}")]
    AlreadySet(#[from] TryInitError),
}

/// Hides notices of the database ("relation already exists, skipping") unless the filter names them.
const QUIET: &str = "sqlx::postgres::notice=warn";

/// Sets up logs and the panic hook. Must be called only once.
pub fn init(settings: &LogSettings) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", settings.filter))
        .map_err(|_| TelemetryError::Filter(settings.filter.clone()))?;
    let registry = tracing_subscriber::registry().with(filter);
    if settings.format == "json" {
        let lines = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_writer(stderr);
        registry.with(lines).try_init()?;
    } else {
        let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(colours)
            .with_writer(stderr);
        registry.with(lines).try_init()?;
    }
    log_panics();
    Ok(())
}

fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .unwrap_or("(formatted message omitted: it may quote data)");
        let place = panic.location().map(ToString::to_string);
        let backtrace = Backtrace::capture();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        if backtrace.status() == BacktraceStatus::Captured {
            tracing::error!(place, thread, %backtrace, "panicked: {message}");
        } else {
            tracing::error!(place, thread, "panicked: {message}");
        }
    }));
}
