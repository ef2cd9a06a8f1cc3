//! One import in the hands of one process: page by page, some sessions at a time, each stored and counted at once.
//!
//! Ends in one of four ways: all was seen, it can't go on, somebody else has it (or cancelled it), or this process stops
//! and gives it back. What was fetched and not stored by then is fetched again.

use std::time::Duration;

use chrono::SubsecRound as _;
use futures::stream::{self, StreamExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Imports;
use super::walk::{self, MOST_PAGES};
use crate::history::tarsy::{
    Address, Generation, ListPage, Listed, SOURCE, Tarsy, TarsyError, Window,
};
use crate::store::{
    ImportEnd, ImportRow, ImportStep, SessionRecord, StoreError, StoredSession, WalkPlace, Walked,
};

/// Sessions that are fetched at once.
const SESSIONS_AT_ONCE: usize = 8;
/// How many sessions are stored in one step at most.
const STEP_SESSIONS: usize = 100;
/// How much text is held at most before it is stored, bytes.
const STEP_BYTES: usize = 16 * 1024 * 1024;
/// How long a fetched session waits for others before it is stored.
const STEP_EVERY: Duration = Duration::from_secs(2);

/// Why a run ended before the walk did.
enum Halt {
    /// TARSy gives nothing more.
    Broken(String),
    /// The import isn't ours any more.
    Lost,
    /// The database is away: the import goes stale, and somebody goes on with it.
    Store(StoreError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What became of one session of a page.
enum Fetched {
    Session(Box<SessionRecord>),
    Failed(String, String),
}

impl Imports {
    /// Goes on with an import until it ends or `stop`.
    pub(super) async fn go_on(&self, import: ImportRow, owner: Uuid, stop: &CancellationToken) {
        let id = import.import_id;
        tracing::info!(import_id = %id, source = import.source, "importing");
        let ended = tokio::select! {
            () = stop.cancelled() => None,
            () = self.beat(id, owner) => Some(Err(Halt::Lost)),
            walked = self.walk(&import, owner) => Some(walked),
        };
        let end = match ended {
            None => {
                tracing::info!(import_id = %id, "stopping: the import is given back");
                if let Err(error) = self.store.release_import(id, owner).await {
                    tracing::warn!(import_id = %id, %error, "could not give an import back; it is taken over when it is stale");
                }
                return;
            }
            Some(Ok(())) => ImportEnd::Completed,
            Some(Err(Halt::Broken(reason))) => ImportEnd::Failed(reason),
            Some(Err(Halt::Lost)) => {
                tracing::info!(import_id = %id, "the import was cancelled or taken over");
                return;
            }
            Some(Err(Halt::Store(error))) => {
                tracing::warn!(import_id = %id, %error, "an import stopped; it goes on when the database is back");
                return;
            }
        };
        match &end {
            ImportEnd::Completed => tracing::info!(import_id = %id, "import completed"),
            ImportEnd::Failed(reason) => tracing::warn!(import_id = %id, reason, "import failed"),
        }
        if let Err(error) = self
            .store
            .finish_import(id, owner, &end, self.clock.now())
            .await
        {
            tracing::warn!(import_id = %id, %error, "could not end an import; another process will");
        }
    }

    /// Says that this process lives, until the import isn't its own any more.
    async fn beat(&self, id: Uuid, owner: Uuid) {
        loop {
            tokio::time::sleep(self.options.stale_after / 3).await;
            match self.store.import_heartbeat(id, owner).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(import_id = %id, %error, "could not write an import's heartbeat");
                }
            }
        }
    }

    async fn walk(&self, import: &ImportRow, owner: Uuid) -> Result<(), Halt> {
        let address = Address::parse(&import.source)
            .map_err(|fault| Halt::Broken(format!("the source {fault}")))?;
        let tarsy = self.options.tarsy(address, import.requests_per_second);
        let run = Run {
            imports: self,
            import,
            owner,
            generation: tarsy.generation().await.map_err(broken)?,
            tarsy,
        };
        let mut place = import.place;
        let mut noted = import.expected.is_some();
        loop {
            let page = run.list(place).await?;
            if !noted {
                run.note(page.total_items).await?;
                noted = true;
            }
            let on = walk::next(place, &page);
            run.page(&page.items, on).await?;
            match on {
                None => return Ok(()),
                Some(next) if next.page > MOST_PAGES => {
                    return Err(Halt::Broken(format!(
                        "the list has more than {MOST_PAGES} pages of one window"
                    )));
                }
                Some(next) => place = next,
            }
        }
    }
}

/// What one run works with.
struct Run<'a> {
    imports: &'a Imports,
    import: &'a ImportRow,
    owner: Uuid,
    generation: Generation,
    tarsy: Tarsy,
}

impl Run<'_> {
    async fn list(&self, place: WalkPlace) -> Result<ListPage, Halt> {
        let window = Window {
            statuses: self.import.statuses.clone(),
            since: self.import.since,
            until: place.until,
        };
        self.tarsy.list(&window, place.page).await.map_err(broken)
    }

    async fn note(&self, expected: Option<u64>) -> Result<(), Halt> {
        let noted = self
            .imports
            .store
            .note_import_source(
                self.import.import_id,
                self.owner,
                self.generation.as_str(),
                expected,
            )
            .await?;
        if noted { Ok(()) } else { Err(Halt::Lost) }
    }

    /// Stores what a page lists; the place moves on with its last step.
    async fn page(&self, items: &[Listed], on: Option<WalkPlace>) -> Result<(), Halt> {
        let store = &self.imports.store;
        let names: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
        let mut seen = store.seen_by_import(self.import.import_id, &names).await?;
        let ids: Vec<Uuid> = items.iter().filter_map(|item| id_of(&item.id)).collect();
        let stored = store.stored_sessions(&ids).await?;
        let mut step = Gathered::default();
        let mut wanted = Vec::new();
        for item in items.iter().filter(|item| seen.insert(item.id.clone())) {
            match id_of(&item.id) {
                None => step
                    .failed
                    .push((shown(&item.id), "its id is not a UUID".to_owned())),
                Some(id) if !self.import.refresh && is_unchanged(item, stored.get(&id)) => {
                    step.unchanged.push(item.id.clone());
                }
                Some(id) => wanted.push(id),
            }
        }
        let mut fetched = stream::iter(wanted)
            .map(|id| self.fetch(id))
            .buffer_unordered(SESSIONS_AT_ONCE);
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

    /// One session. What is wrong with it alone is its failure; what is wrong with TARSy ends the run.
    async fn fetch(&self, id: Uuid) -> Result<Fetched, Halt> {
        let reason = match self.tarsy.session(id).await {
            Ok(input) => match input.into_record(id, SOURCE) {
                Ok(record) => return Ok(Fetched::Session(Box::new(record))),
                Err(faults) => faults.to_string(),
            },
            Err(TarsyError::Missing(said)) => {
                format!("{said} to its details: deleted while it was listed?")
            }
            Err(TarsyError::Unusable(reason)) => reason,
            Err(error @ TarsyError::Denied(_)) => return Err(broken(error)),
            Err(error @ TarsyError::Unavailable { .. }) => {
                // Is it this session that TARSy can't give, or is TARSy away?
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

    async fn store(&self, gathered: Gathered, place: Option<WalkPlace>) -> Result<(), Halt> {
        if gathered.is_empty() && place.is_none() {
            return Ok(());
        }
        let step = ImportStep {
            import_id: self.import.import_id,
            owner: self.owner,
            sessions: gathered.sessions,
            unchanged: gathered.unchanged,
            failed: gathered.failed,
            place,
            now: self.imports.clock.now(),
        };
        match self.imports.store.record_import(&step).await? {
            Walked::On(_) => Ok(()),
            Walked::Lost => Err(Halt::Lost),
        }
    }
}

/// What the next step will store.
#[derive(Default)]
struct Gathered {
    sessions: Vec<SessionRecord>,
    unchanged: Vec<String>,
    failed: Vec<(String, String)>,
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, fetched: Fetched) {
        match fetched {
            Fetched::Session(session) => {
                let messages = session.conversation.iter();
                self.bytes += messages.map(|message| message.content.len()).sum::<usize>();
                self.bytes += session.final_analysis.as_ref().map_or(0, String::len);
                self.sessions.push(*session);
            }
            Fetched::Failed(id, reason) => self.failed.push((id, reason)),
        }
    }

    fn is_full(&self) -> bool {
        self.sessions.len() >= STEP_SESSIONS || self.bytes >= STEP_BYTES
    }

    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.unchanged.is_empty() && self.failed.is_empty()
    }
}

/// Only the form with hyphens: one session, one id.
fn id_of(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text)
        .ok()
        .filter(|id| id.to_string() == text)
}

/// Whether the list shows what is stored: it came from a TARSy, it had ended, and it ended then and so.
fn is_unchanged(listed: &Listed, stored: Option<&StoredSession>) -> bool {
    stored.is_some_and(|stored| {
        stored.source == SOURCE
            && stored.status.is_terminal()
            && listed.status == Some(stored.status)
            && listed.completed_at.map(|at| at.trunc_subsecs(6)) == stored.completed_at
    })
}

fn broken(error: TarsyError) -> Halt {
    Halt::Broken(error.to_string())
}

/// A text of the source, as far as it is kept.
fn shown(text: &str) -> String {
    crate::history::ingest::shortened(text)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::store::SessionStatus;

    fn at(ns: i64) -> Option<DateTime<Utc>> {
        Some(DateTime::from_timestamp_nanos(ns))
    }

    #[test]
    fn only_what_ended_and_is_listed_as_it_is_stored_need_not_be_fetched() {
        let listed = Listed {
            id: String::new(),
            status: Some(SessionStatus::Completed),
            began_at: None,
            completed_at: at(5_000_000_123),
        };
        let stored = StoredSession {
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
    fn an_id_is_taken_in_one_spelling_only() {
        let id = Uuid::now_v7();
        assert_eq!(id_of(&id.to_string()), Some(id));
        assert_eq!(id_of(&id.simple().to_string()), None);
        assert_eq!(id_of(&id.to_string().to_uppercase()), None);
        assert_eq!(id_of("../secrets"), None);
    }
}
