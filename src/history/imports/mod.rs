//! Imports from a TARSy: started by a request, run by any process, resumed by another one if it dies.
//!
//! The store keeps the request, the progress and the owner. [`Imports::run`] claims unowned imports. A stopping process releases its
//! imports, and the imports of a dead process become stale. Sessions are stored as by PUT.

mod gathered;
mod moment;
mod run;
mod walk;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::moment::{EXPECTED, moment};
use super::tarsy::{Address, Tarsy, TarsyOptions};
use crate::clock::{Clock, is_taken};
use crate::store::{ImportRow, NewImport, Store, StoreError};
use crate::wire::SessionStatus;

/// Maximum concurrent imports of one process.
const MAX_CONCURRENT: usize = 4;
/// Poll interval for unowned imports.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum rate that a request may set, requests a second.
pub const FASTEST: f64 = 10_000.0;
pub const SLOWEST: f64 = 0.001;

#[derive(Debug, Clone)]
pub struct HistoryOptions {
    /// Source of unknown sessions and of imports that don't name another one.
    pub base: Option<Address>,
    /// Bearer token; sent to `base` only.
    pub token: Option<SecretString>,
    /// 0: no limit.
    pub requests_per_second: f64,
    pub timeout: Duration,
    pub max_retries: u32,
    pub first_delay: Duration,
    /// Silence of an import's owner after which another process claims it.
    pub stale_after: Duration,
}

impl HistoryOptions {
    pub fn tarsy(&self, address: Address, requests_per_second: f64) -> Tarsy {
        let ours = self
            .base
            .as_ref()
            .is_some_and(|base| base.same_origin(&address));
        let options = TarsyOptions {
            token: self.token.clone().filter(|_| ours),
            requests_per_second,
            timeout: self.timeout,
            max_retries: self.max_retries,
            first_delay: self.first_delay,
        };
        Tarsy::new(address, options)
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportRequest {
    /// URL of the TARSy; `None`: the configured one.
    pub from: Option<String>,
    /// Statuses to import; empty: all.
    pub status: Vec<String>,
    /// Minimum start of sessions: a time, a date, an age.
    pub since: Option<String>,
    /// Exclusive maximum start of sessions; `None`: start of the import.
    pub until: Option<String>,
    /// Requests a second; 0: no limit; `None`: as configured.
    pub requests_per_second: Option<f64>,
    /// Whether to fetch sessions even if the list shows them unchanged.
    pub refresh: bool,
    pub started_by: String,
    /// Id of a new import; `None`: a random one.
    pub import_id: Option<Uuid>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "no TARSy is configured: set history.base_url (GAVEL_HISTORY_BASE_URL), or name one in from"
    )]
    NotConfigured,
    #[error("{field}: {message}")]
    Invalid {
        field: &'static str,
        message: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub struct Imports {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    options: HistoryOptions,
    begun: Notify,
    own: Mutex<BTreeSet<Uuid>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All unowned ones.
    Anybodys,
    /// Only unowned imports that this process received, because other processes may have different settings.
    Own,
}

impl Imports {
    /// Returns the service. No import runs before [`Imports::run`].
    pub fn new(store: Arc<Store>, clock: Arc<dyn Clock>, options: HistoryOptions) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            options,
            begun: Notify::new(),
            own: Mutex::default(),
        })
    }

    /// Returns whether a request stays within the settings: the configured TARSy, at most at its rate.
    pub fn as_configured(&self, request: &ImportRequest) -> bool {
        let pace = self.options.requests_per_second;
        let calm = request
            .requests_per_second
            .is_none_or(|asked| pace == 0.0 || (asked > 0.0 && asked <= pace));
        let known = request.from.as_ref().is_none_or(|from| {
            Address::parse(from).is_ok_and(|from| Some(&from) == self.options.base.as_ref())
        });
        calm && known
    }

    /// Starts an import, or returns a running one with the same request after applying the requested rate. Also returns whether it is new.
    /// Errors: `NotConfigured`, `Invalid`; `Store` if the database is unavailable.
    pub async fn start(&self, request: &ImportRequest) -> Result<(ImportRow, bool), StartError> {
        let new = self.checked(request)?;
        let (mut import, is_new) = self.store.imports().start(&new).await?;
        if let Some(pace) = request.requests_per_second
            && import.requests_per_second != pace
            && let Some(paced) = self.store.imports().pace(import.import_id, pace).await?
        {
            import = paced;
        }
        self.own().insert(import.import_id);
        self.begun.notify_one();
        Ok((import, is_new))
    }

    /// Runs imports until `stop`, then releases unfinished ones.
    pub async fn run(self: Arc<Self>, whose: Whose, stop: CancellationToken) {
        let mut running = JoinSet::new();
        while !stop.is_cancelled() {
            while running.len() < MAX_CONCURRENT {
                let owner = Uuid::now_v7();
                let only: Option<Vec<Uuid>> = match whose {
                    Whose::Anybodys => {
                        self.own().clear();
                        None
                    }
                    Whose::Own => Some(self.own().iter().copied().collect()),
                };
                let stale_after = self.options.stale_after;
                let free = self
                    .store
                    .imports()
                    .claim(owner, stale_after, only.as_deref())
                    .await;
                match free {
                    Ok(Some(import)) => {
                        let (imports, stop) = (self.clone(), stop.clone());
                        running.spawn(async move { imports.go_on(import, owner, &stop).await });
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "could not look for imports");
                        break;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                Some(ended) = running.join_next() => report(ended),
                () = self.begun.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        while let Some(ended) = running.join_next().await {
            report(ended);
        }
    }

    fn own(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        match self.own.lock() {
            Ok(own) => own,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    fn checked(&self, request: &ImportRequest) -> Result<NewImport, StartError> {
        let now = self.clock.now();
        let address = match &request.from {
            Some(from) => {
                Address::parse(from).map_err(|fault| invalid("from", fault.to_string()))?
            }
            None => self.options.base.clone().ok_or(StartError::NotConfigured)?,
        };
        let mut statuses = request
            .status
            .iter()
            .map(|word| word.parse::<SessionStatus>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| invalid("status", error.to_string()))?;
        statuses.sort_unstable();
        statuses.dedup();
        let since = end("since", request.since.as_deref(), now)?;
        let until = end("until", request.until.as_deref(), now)?.unwrap_or(now);
        if since.is_some_and(|since| since >= until) {
            return Err(invalid("since", "is not before until".to_owned()));
        }
        let pace = request
            .requests_per_second
            .unwrap_or(self.options.requests_per_second);
        if pace != 0.0 && !(SLOWEST..=FASTEST).contains(&pace) {
            return Err(invalid(
                "rps",
                format!("is out of range; give 0 (no limit) or {SLOWEST} to {FASTEST}"),
            ));
        }
        let (since_given, until_given) = (given(&request.since), given(&request.until));
        // As given, so that `30d` now and a minute later are the same request.
        let same_as = serde_json::json!([
            address.to_string(),
            statuses,
            since_given,
            until_given,
            request.refresh
        ]);
        Ok(NewImport {
            import_id: request.import_id.unwrap_or_else(Uuid::now_v7),
            same_as: same_as.to_string(),
            source: address.to_string(),
            statuses,
            since_given,
            until_given,
            since,
            until,
            requests_per_second: pace,
            refresh: request.refresh,
            started_by: request.started_by.clone(),
            now,
        })
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "import panicked; another process resumes it");
    }
}

fn given(text: &Option<String>) -> Option<String> {
    text.as_deref().map(|text| text.trim().to_owned())
}

fn end(
    field: &'static str,
    text: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, StartError> {
    let read = |text| {
        moment(text, now)
            .filter(|at| is_taken(*at))
            .ok_or_else(|| invalid(field, format!("is no such moment; {EXPECTED}")))
    };
    text.map(read).transpose()
}

fn invalid(field: &'static str, message: String) -> StartError {
    StartError::Invalid { field, message }
}
