//! Connects the TARSy of the settings to enqueue and the API.

use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use uuid::Uuid;

use super::AppError;
use crate::config::Settings;
use crate::enqueue::{SessionSource, SourceError, SourceProblem, Sourced};
use crate::history::imports::HistoryOptions;
use crate::history::on_demand::{FetchOutcome, OnDemand, OnDemandError};
use crate::history::tarsy::Address;

/// Silence after which another process takes over an import. The same in all processes, independent of worker leases.
const IMPORT_SILENCE: Duration = Duration::from_secs(12);

/// Returns the options of the TARSy client. Its requests are retried like judge calls.
pub fn history_options(settings: &Settings) -> Result<HistoryOptions, AppError> {
    let history = &settings.history;
    let base = match history.base_url.as_str() {
        "" => None,
        url => Some(Address::parse(url).map_err(|fault| {
            AppError::Config(format!("history.base_url (GAVEL_HISTORY_BASE_URL) {fault}"))
        })?),
    };
    let token = history.token.trim();
    Ok(HistoryOptions {
        base,
        token: (!token.is_empty()).then(|| SecretString::from(token.to_owned())),
        requests_per_second: history.requests_per_second,
        timeout: Duration::from_secs_f64(history.timeout_s),
        max_retries: settings.judge.max_retries,
        first_delay: Duration::from_secs_f64(settings.judge.retry_base_s),
        stale_after: IMPORT_SILENCE,
    })
}

/// Source of unknown sessions: the configured TARSy.
pub(super) struct FromHistory(pub(super) OnDemand);

#[async_trait]
impl SessionSource for FromHistory {
    async fn fetch(&self, session_id: Uuid) -> Result<Sourced, SourceError> {
        match self.0.fetch(session_id).await {
            Ok(FetchOutcome::Stored) => Ok(Sourced::Stored),
            Ok(FetchOutcome::Nothing) => Ok(Sourced::Unknown),
            Err(OnDemandError::Unavailable {
                reason,
                retry_after,
            }) => Err(SourceError::Unavailable(SourceProblem {
                reason,
                retry_after_s: retry_after.as_secs().max(1),
            })),
            Err(OnDemandError::Unusable(reason)) => Err(SourceError::Unusable(reason)),
            Err(OnDemandError::Store(error)) => Err(SourceError::Store(error)),
        }
    }
}
