//! Options of the TARSy client, from the settings.

use std::time::Duration;

use secrecy::SecretString;

use super::AppError;
use crate::config::Settings;
use crate::history::imports::HistoryOptions;
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
