//! Checks that the configured TARSy responds, and detects its generation. Reads one entry of its list.

use super::Check;
use crate::app::history_options;
use crate::config::{Settings, redacted_url};
use crate::history::tarsy::TarsyError;

/// Returns `None` if no TARSy is configured.
pub(super) async fn check(settings: &Settings) -> Option<Check> {
    if settings.history.base_url.is_empty() {
        return None;
    }
    Some(Check::new("history", found(settings).await))
}

async fn found(settings: &Settings) -> Result<String, String> {
    let mut options = history_options(settings).map_err(|error| error.to_string())?;
    // No retries, because a user is waiting.
    options.max_retries = 0;
    let name = redacted_url(&settings.history.base_url);
    let Some(base) = options.base.clone() else {
        return Err("not set".to_owned());
    };
    let tarsy = options.tarsy(base, options.requests_per_second);
    match tarsy.generation().await {
        Ok(generation) => Ok(format!(
            "{name} answers, a TARSy of the {generation} generation"
        )),
        Err(error @ TarsyError::Denied(_)) => Err(error.to_string()),
        Err(error) => Err(format!(
            "{error}; check history.base_url (GAVEL_HISTORY_BASE_URL) and that it can be reached from here"
        )),
    }
}
