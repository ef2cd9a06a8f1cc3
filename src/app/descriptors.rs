//! File descriptors: raises the limit of the process and lowers settings to fit, so that probes and the database have enough.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;

/// Descriptors for logs, signals, Redis, DNS lookups and files.
const OTHERS: usize = 20;
/// A slot's connection to its judge, and one more: an idle connection or the socket of a DNS lookup.
const PER_SLOT: usize = 2;
/// Descriptors of a connection to SQLite: the file, its WAL and the WAL index.
const PER_FILE: usize = 3;

/// Raises the soft limit to the hard one. Returns the limit, or `None` if unlimited.
pub(super) fn raise_limit() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "failed to raise the limit of descriptors");
            limit.current
        }
    };
    allowed.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Lowers settings to fit the limit. Returns the lowered settings, with the remedy.
pub(super) fn bound(settings: &mut Settings, limit: usize) -> Option<String> {
    let per_connection = match settings.database.url.is_empty() {
        true => PER_FILE,
        false => 1,
    };
    let free = limit.saturating_sub(OTHERS);
    let connections = settings.database.max_connections as usize;
    let requests = settings.http.max_connections;
    let slots = settings.worker.concurrency;
    // Requests have the same number again, at most 32, for probes.
    let needed = connections * per_connection + requests + requests.min(32) + slots * PER_SLOT;
    if needed <= free {
        return None;
    }
    let share = free / 6;
    let of_database = connections.min(share / per_connection).max(1);
    let of_requests = requests.min(share / 2).max(1);
    let rest = free.saturating_sub(of_database * per_connection + 2 * of_requests);
    let of_slots = slots.min(rest / PER_SLOT).max(1);
    settings.database.max_connections = u32::try_from(of_database).unwrap_or(u32::MAX);
    settings.http.max_connections = of_requests;
    settings.worker.concurrency = of_slots;
    Some(format!(
        "the process may open {limit} files: worker.concurrency is {of_slots} instead of {slots}, http.max_connections \
         {of_requests} instead of {requests}, database.max_connections {of_database} instead of {connections}; raise the limit \
         (ulimit -n, LimitNOFILE of systemd, --ulimit nofile of a container)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limit_lowers_slots_and_requests() {
        let mut settings = Settings::defaults().unwrap();
        settings.database.url = "postgres://gavel@db/gavel".to_owned().into();
        settings.worker.concurrency = 64;
        assert_eq!(bound(&mut settings.clone(), 4_096), None);
        let said = bound(&mut settings, 64).unwrap();
        assert!(
            said.contains("worker.concurrency is 15 instead of 64"),
            "{said}"
        );
        let http = settings.http.max_connections;
        let taken =
            settings.database.max_connections as usize + 2 * http + 2 * settings.worker.concurrency;
        assert!(http >= 3 && taken + OTHERS <= 64, "{said}");
        assert_eq!(bound(&mut settings.clone(), 64), None, "it is enough now");
    }

    #[test]
    fn minimal_limit_keeps_one_of_each() {
        let mut settings = Settings::defaults().unwrap();
        bound(&mut settings, 10).unwrap();
        let least = (
            settings.worker.concurrency,
            settings.http.max_connections,
            settings.database.max_connections,
        );
        assert_eq!(least, (1, 1, 1));
    }
}
