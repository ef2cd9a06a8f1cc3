//! Runs one import: page by page, several sessions concurrently, each stored and counted at once.
//!
//! It ends when all pages are read, on a permanent error, when the import is cancelled or owned by another process, or when this process
//! stops and releases it. Sessions that were fetched but not stored are fetched again.

use std::time::Duration;

use chrono::SubsecRound as _;
use futures::stream::{self, StreamExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Imports;
use super::gathered::{Fetched, ImportBuffer};
use super::walk::{self, MOST_PAGES};
use crate::history::tarsy::{
    Address, Generation, ListFilter, ListPage, Listed, PAGE_SIZE, SOURCE, Tarsy, TarsyError,
    TarsySession,
};
use crate::store::{
    ImportEnd, ImportRow, ImportStep, StoreError, StoredSession, WalkPlace, Walked,
};
use crate::wire::Quality;

/// Maximum concurrent fetches of sessions.
const MAX_CONCURRENT_SESSIONS: usize = 8;
/// Maximum time a fetched session is buffered.
const STEP_EVERY: Duration = Duration::from_secs(2);

/// Reason why a run ended early.
enum StopReason {
    /// Permanent error of the TARSy.
    Broken(String),
    /// Cancelled, or owned by another process.
    Lost,
    /// The database is unavailable: the import becomes stale, and a process resumes it.
    Store(StoreError),
}

impl From<StoreError> for StopReason {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Imports {
    pub(super) async fn go_on(&self, import: ImportRow, owner: Uuid, stop: &CancellationToken) {
        let id = import.import_id;
        tracing::info!(import_id = %id, source = import.source, "importing");
        let ended = match self.tarsy_of(&import) {
            Err(halt) => Some(Err(halt)),
            Ok(tarsy) => tokio::select! {
                () = stop.cancelled() => None,
                () = self.beat(id, owner, &tarsy) => Some(Err(StopReason::Lost)),
                walked = self.walk(&import, owner, &tarsy) => Some(walked),
            },
        };
        let end = match ended {
            None => {
                tracing::info!(import_id = %id, "stopping: the import is given back");
                if let Err(error) = self.store.imports().release(id, owner).await {
                    tracing::warn!(import_id = %id, %error, "failed to release an import; another process claims it when it is stale");
                }
                return;
            }
            Some(Ok(())) => ImportEnd::Completed,
            Some(Err(StopReason::Broken(reason))) => ImportEnd::Failed(reason),
            Some(Err(StopReason::Lost)) => {
                tracing::info!(import_id = %id, "import cancelled or claimed by another process");
                return;
            }
            // This error would repeat, so another owner would retry forever.
            Some(Err(StopReason::Store(error @ StoreError::Unexpected { .. }))) => {
                ImportEnd::Failed(error.to_string())
            }
            Some(Err(StopReason::Store(error))) => {
                tracing::warn!(import_id = %id, %error, "import stopped; it resumes when the database is available");
                return;
            }
        };
        match &end {
            ImportEnd::Completed => tracing::info!(import_id = %id, "import completed"),
            ImportEnd::Failed(reason) => tracing::warn!(import_id = %id, reason, "import failed"),
        }
        if let Err(error) = self
            .store
            .imports()
            .finish(id, owner, &end, self.clock.now())
            .await
        {
            tracing::warn!(import_id = %id, %error, "could not end an import; another process will");
        }
    }

    fn tarsy_of(&self, import: &ImportRow) -> Result<Tarsy, StopReason> {
        let address = Address::parse(&import.source)
            .map_err(|fault| StopReason::Broken(format!("the source {fault}")))?;
        Ok(self.options.tarsy(address, import.requests_per_second))
    }

    /// Sends heartbeats until the import is owned by another process. Applies a changed rate.
    async fn beat(&self, id: Uuid, owner: Uuid, tarsy: &Tarsy) {
        loop {
            tokio::time::sleep(self.options.stale_after / 3).await;
            match self.store.imports().heartbeat(id, owner).await {
                Ok(Some(requests_per_second)) => tarsy.set_pace(requests_per_second),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(import_id = %id, %error, "could not write an import's heartbeat");
                }
            }
        }
    }

    async fn walk(&self, import: &ImportRow, owner: Uuid, tarsy: &Tarsy) -> Result<(), StopReason> {
        let run = Run {
            imports: self,
            import,
            owner,
            generation: tarsy.generation().await.map_err(broken)?,
            tarsy,
        };
        let mut place = import.place;
        let mut noted = import.expected.is_some();
        // Limits pages without progress, in case the list keeps changing.
        let mut still = 0;
        loop {
            let page = run.list(place).await?;
            if !noted {
                run.note(page.total_items).await?;
                noted = true;
            }
            let on = walk::next(place, &page);
            run.page(&page.items, on).await?;
            let Some(next) = on else {
                return Ok(());
            };
            still = if next.until < place.until {
                0
            } else {
                still + 1
            };
            if still > MOST_PAGES || next.page > MOST_PAGES {
                return Err(StopReason::Broken(format!(
                    "the list has more than {MOST_PAGES} pages of one window"
                )));
            }
            place = next;
        }
    }
}

struct Run<'a> {
    imports: &'a Imports,
    import: &'a ImportRow,
    owner: Uuid,
    generation: Generation,
    tarsy: &'a Tarsy,
}

impl Run<'_> {
    async fn list(&self, place: WalkPlace) -> Result<ListPage, StopReason> {
        let window = ListFilter {
            statuses: self.import.statuses.clone(),
            since: self.import.since,
            until: place.until,
        };
        self.tarsy.list(&window, place.page).await.map_err(broken)
    }

    async fn note(&self, expected: Option<u64>) -> Result<(), StopReason> {
        let noted = self
            .imports
            .store
            .imports()
            .note_source(
                self.import.import_id,
                self.owner,
                self.generation.as_str(),
                expected,
            )
            .await?;
        if noted { Ok(()) } else { Err(StopReason::Lost) }
    }

    /// Stores the sessions of a page. The cursor advances with the last step. A source may return larger pages than requested.
    async fn page(&self, items: &[Listed], on: Option<WalkPlace>) -> Result<(), StopReason> {
        let mut parts = items.chunks(PAGE_SIZE as usize).peekable();
        while let Some(part) = parts.next() {
            self.part(part, on.filter(|_| parts.peek().is_none()))
                .await?;
        }
        if items.is_empty() {
            self.store(ImportBuffer::default(), on).await?;
        }
        Ok(())
    }

    async fn part(&self, items: &[Listed], on: Option<WalkPlace>) -> Result<(), StopReason> {
        let store = &self.imports.store;
        let names: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
        let mut seen = store.imports().seen(self.import.import_id, &names).await?;
        let ids: Vec<Uuid> = items.iter().filter_map(|item| id_of(&item.id)).collect();
        let stored = store.sessions().stored(&ids).await?;
        let mut step = ImportBuffer::default();
        let mut wanted = Vec::new();
        let asked_for = items.iter().filter(|item| self.is_requested(item));
        for item in asked_for.filter(|item| seen.insert(item.id.clone())) {
            match id_of(&item.id) {
                None => step
                    .failed
                    .push((shown(&item.id), "its id is not a UUID".to_owned())),
                Some(id) if !self.import.refresh && is_unchanged(item, stored.get(&id)) => {
                    step.unchanged.push(item.id.clone());
                    step.ratings
                        .extend(item.quality.map(|quality| (id, quality)));
                }
                Some(id) => wanted.push((id, item.quality)),
            }
        }
        let mut fetched = stream::iter(wanted)
            .map(|(id, listed)| self.fetch(id, listed))
            .buffer_unordered(MAX_CONCURRENT_SESSIONS);
        let mut flush_at = Instant::now() + STEP_EVERY;
        loop {
            tokio::select! {
                one = fetched.next() => match one {
                    None => break,
                    Some(Err(halt)) => {
                        self.store(step, None).await?;
                        return Err(halt);
                    }
                    Some(Ok(one)) => step.add(one),
                },
                () = tokio::time::sleep_until(flush_at), if !step.is_empty() => {}
            }
            if step.is_full() || flush_at <= Instant::now() {
                self.store(std::mem::take(&mut step), None).await?;
                flush_at = Instant::now() + STEP_EVERY;
            }
        }
        drop(fetched);
        self.store(step, on).await
    }

    /// Returns whether an entry is within the window and has a requested status, because one generation includes the end of the window, and
    /// a source may ignore a filter. Missing fields match.
    fn is_requested(&self, item: &Listed) -> bool {
        let import = self.import;
        item.began_at
            .is_none_or(|at| at < import.until && import.since.is_none_or(|since| since <= at))
            && item.status.is_none_or(|status| {
                import.statuses.is_empty() || import.statuses.contains(&status)
            })
    }

    /// Fetches a session; `listed` is the rating in the list. An error of the session is recorded as its failure; an error of the TARSy
    /// ends the run.
    async fn fetch(&self, id: Uuid, listed: Option<Quality>) -> Result<Fetched, StopReason> {
        let reason = match self.tarsy.session(id).await {
            Ok(TarsySession { input, quality }) => match input.into_record(id, SOURCE) {
                Ok(record) => return Ok(Fetched::Session(Box::new(record), quality.or(listed))),
                Err(faults) => faults.to_string(),
            },
            Err(TarsyError::Missing(said)) => {
                format!("{said} to its details: deleted while it was listed?")
            }
            Err(TarsyError::Unusable(reason)) => reason,
            Err(error @ TarsyError::Denied(_)) => return Err(broken(error)),
            Err(error @ TarsyError::Unavailable { .. }) => {
                // Checks whether only this session fails or all of TARSy.
                let first = WalkPlace {
                    until: self.import.until,
                    page: 1,
                    total: None,
                };
                self.list(first).await?;
                error.to_string()
            }
        };
        tracing::debug!(import_id = %self.import.import_id, session_id = %id, reason, "a session is not imported");
        Ok(Fetched::Failed(id.to_string(), shown(&reason)))
    }

    async fn store(
        &self,
        gathered: ImportBuffer,
        place: Option<WalkPlace>,
    ) -> Result<(), StopReason> {
        if gathered.is_empty() && place.is_none() {
            return Ok(());
        }
        let step = ImportStep {
            import_id: self.import.import_id,
            owner: self.owner,
            sessions: gathered.sessions,
            unchanged: gathered.unchanged,
            failed: gathered.failed,
            ratings: gathered.ratings,
            place,
            now: self.imports.clock.now(),
        };
        match self.imports.store.imports().record(&step).await? {
            Walked::On(_) => Ok(()),
            Walked::Lost => Err(StopReason::Lost),
        }
    }
}

/// Accepts only the hyphenated form, so that a session has one id.
fn id_of(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text)
        .ok()
        .filter(|id| id.to_string() == text)
}

/// Returns whether the list shows the stored version: from a TARSy, ended, with the same end and status.
fn is_unchanged(listed: &Listed, stored: Option<&StoredSession>) -> bool {
    stored.is_some_and(|stored| {
        stored.source == SOURCE
            && stored.status.is_terminal()
            && listed.status == Some(stored.status)
            && listed.completed_at.map(|at| at.trunc_subsecs(6)) == stored.completed_at
    })
}

fn broken(error: TarsyError) -> StopReason {
    StopReason::Broken(error.to_string())
}

fn shown(text: &str) -> String {
    crate::history::ingest::shortened(text)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::wire::SessionStatus;

    fn at(ns: i64) -> Option<DateTime<Utc>> {
        Some(DateTime::from_timestamp_nanos(ns))
    }

    #[test]
    fn unchanged_ended_sessions_are_not_fetched() {
        let listed = Listed {
            id: String::new(),
            status: Some(SessionStatus::Completed),
            began_at: None,
            completed_at: at(5_000_000_123),
            quality: None,
        };
        let stored = StoredSession {
            session_id: Uuid::nil(),
            source: SOURCE.to_owned(),
            status: SessionStatus::Completed,
            completed_at: at(5_000_000_000),
        };
        assert!(is_unchanged(&listed, Some(&stored)));
        assert!(!is_unchanged(&listed, None));
        let changes: [fn(&mut StoredSession); 3] = [
            |stored| stored.source = "api".to_owned(),
            |stored| stored.status = SessionStatus::Failed,
            |stored| stored.completed_at = at(6_000_000_000),
        ];
        for change in changes {
            let mut other = stored.clone();
            change(&mut other);
            assert!(!is_unchanged(&listed, Some(&other)), "{other:?}");
        }
        let going_on = Listed {
            status: Some(SessionStatus::InProgress),
            ..listed
        };
        let stored = StoredSession {
            status: SessionStatus::InProgress,
            ..stored
        };
        assert!(!is_unchanged(&going_on, Some(&stored)));
    }

    #[test]
    fn accepts_only_hyphenated_ids() {
        let id = Uuid::now_v7();
        assert_eq!(id_of(&id.to_string()), Some(id));
        assert_eq!(id_of(&id.simple().to_string()), None);
        assert_eq!(id_of(&id.to_string().to_uppercase()), None);
        assert_eq!(id_of("../secrets"), None);
    }
}
