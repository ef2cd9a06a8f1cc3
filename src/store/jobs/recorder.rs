//! Recorder: grouped commits of run outcomes, and a queue of failed groups.
//!
//! A rejected group is split in halves until the rejected record is alone. A second task retries it, so that newer results
//! don't wait. A single record that met a lock or timed out is retried later; one that is permanently rejected gets an error.
//!
//! While the database is unavailable it retries until [`Store::close`](crate::store::Store::close).

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::commit::commit_on;
use super::record::{Answer, RECORDING, Record, Recorded, Recording};
use crate::store::StoreError;
use crate::store::database::db::{Db, within};
use crate::store::database::error::WriteFailure;
use crate::store::database::group;
use crate::store::database::group::Spacing;
use crate::store::database::session::Purpose;

/// Minimum time between two groups. Only slots of suspects and of items of batches with a budget wait for the commit. At a
/// thousand records per second this makes groups of five instead of one.
const GROUP_INTERVAL: Duration = Duration::from_millis(5);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Maximum delay while the database is unavailable; short, so that claims stop and resume in time.
const MAX_OUTAGE_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of records in the retry queue; beyond it new records wait in the channel.
const MAX_RETRIED: usize = 1024;
const HALVES: usize = 32;

/// Writes records until the store closes.
pub(in crate::store) async fn run(
    receiver: mpsc::Receiver<Recording>,
    closing: CancellationToken,
    db: Db,
) {
    let (behind, failed) = mpsc::channel(HALVES);
    tokio::join!(
        write_new(receiver, &closing, &db, behind),
        write_again(failed, &closing, &db)
    );
}

async fn write_new(
    mut receiver: mpsc::Receiver<Recording>,
    closing: &CancellationToken,
    db: &Db,
    behind: mpsc::Sender<RecordGroup>,
) {
    let (mut spacing, nobody) = (Spacing::new(GROUP_INTERVAL), Notify::new());
    loop {
        spacing.keep(&nobody, closing).await;
        let group = group::next(&mut receiver, closing).await;
        if group.is_empty() {
            return;
        }
        let taken = group.len();
        let mut rest: VecDeque<Recording> = group.into();
        while !rest.is_empty() {
            let group = RecordGroup::new(take_distinct(&mut rest));
            for left in group.write(db, closing).await {
                // The receiver exists until this sender is dropped.
                let _ = behind.send(left).await;
            }
        }
        spacing.ended(taken);
    }
}

async fn write_again(
    mut failed: mpsc::Receiver<RecordGroup>,
    closing: &CancellationToken,
    db: &Db,
) {
    let (mut retries, mut more) = (RetryQueue::default(), true);
    while more || !retries.groups.is_empty() {
        tokio::select! {
            biased;
            group = failed.recv(), if more && retries.has_room() => {
                more = group.is_some();
                retries.groups.extend(group);
            }
            group = retries.next(closing) => {
                let left = group.write(db, closing).await;
                retries.groups.extend(left);
            }
        }
    }
}

/// Takes records of distinct jobs and sessions, because a statement can change a row once. The others wait for the next group.
fn take_distinct(rest: &mut VecDeque<Recording>) -> Vec<Recording> {
    let mut seen = HashSet::new();
    let mut batch = Vec::with_capacity(rest.len());
    let mut left = VecDeque::new();
    for one in rest.drain(..) {
        let session = one.record.ending.score().map(|score| score.session_id);
        let job = one.record.fence.job_id.0;
        if seen.contains(&job) || session.is_some_and(|id| seen.contains(&id)) {
            left.push_back(one);
            continue;
        }
        seen.insert(job);
        seen.extend(session);
        batch.push(one);
    }
    *rest = left;
    batch
}

/// Records for one transaction, with their callers.
struct RecordGroup {
    records: Vec<Record>,
    answers: Vec<Answer>,
    due: Instant,
    /// Delay after the next failure of a single record.
    pause: Duration,
    /// Some records may be committed, because an answer was lost.
    tried: bool,
}

impl RecordGroup {
    fn new(recordings: Vec<Recording>) -> Self {
        let (records, answers) = recordings.into_iter().map(|r| (r.record, r.done)).unzip();
        Self {
            records,
            answers,
            due: Instant::now(),
            pause: MIN_RETRY_DELAY,
            tried: false,
        }
    }

    /// Commits it and answers the callers; returns the groups to retry.
    async fn write(mut self, db: &Db, closing: &CancellationToken) -> Vec<Self> {
        let error = match self.persist(db, closing).await {
            Ok(outcomes) => {
                self.answer(outcomes.into_iter().map(Ok));
                return Vec::new();
            }
            Err(error) => error,
        };
        match WriteFailure::of(&error) {
            WriteFailure::Blocked | WriteFailure::Refused if self.records.len() > 1 => {
                self.halves().into()
            }
            WriteFailure::Blocked if !closing.is_cancelled() => vec![self.later(&error)],
            WriteFailure::Unavailable | WriteFailure::Blocked | WriteFailure::Refused => {
                let error = StoreError::of(RECORDING, &error);
                self.answer(std::iter::repeat_with(|| Err(error.clone())));
                Vec::new()
            }
        }
    }

    /// Commits it, retrying while the database is unavailable.
    async fn persist(
        &mut self,
        db: &Db,
        closing: &CancellationToken,
    ) -> sqlx::Result<Vec<Recorded>> {
        let mut pause = MIN_RETRY_DELAY;
        loop {
            let error = match within(self.commit(db)).await {
                Ok(outcomes) => return Ok(outcomes),
                Err(error) => error,
            };
            self.tried = true;
            if WriteFailure::of(&error) != WriteFailure::Unavailable || closing.is_cancelled() {
                return Err(error);
            }
            tracing::warn!(%error, records = self.records.len(), "results wait for the database");
            // Closing ends the delay for one last try.
            let _ = timeout(pause, closing.cancelled()).await;
            pause = (pause * 2).min(MAX_OUTAGE_DELAY);
        }
    }

    async fn commit(&self, db: &Db) -> sqlx::Result<Vec<Recorded>> {
        let mut conn = db.writer(Purpose::Record).await?;
        commit_on(&mut conn, &self.records, self.tried).await
    }

    /// Splits it, so that one bad row among many costs few statements.
    fn halves(mut self) -> [Self; 2] {
        let middle = self.records.len() / 2;
        let second = Self {
            records: self.records.split_off(middle),
            answers: self.answers.split_off(middle),
            ..self
        };
        [self, second]
    }

    fn later(mut self, error: &sqlx::Error) -> Self {
        if self.pause == MIN_RETRY_DELAY {
            for record in &self.records {
                tracing::warn!(job_id = %record.fence.job_id, %error, "failed to record a result; retrying until it is recorded");
            }
        }
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
        self
    }

    fn answer(self, outcomes: impl Iterator<Item = Result<Recorded, StoreError>>) {
        for ((record, answer), outcome) in self.records.iter().zip(self.answers).zip(outcomes) {
            if let Ok(Recorded::Stale) = outcome {
                tracing::warn!(
                    job_id = %record.fence.job_id,
                    claim_no = record.fence.claim_no,
                    worker_id = %record.fence.worker_id,
                    ending = %record.ending.state(),
                    "dropped the result of a run that lost its claim"
                );
            }
            // The caller may have been cancelled; the commit stands.
            let _ = answer.send(outcome);
        }
    }
}

/// Failed groups that are retried.
#[derive(Default)]
struct RetryQueue {
    groups: Vec<RecordGroup>,
}

impl RetryQueue {
    fn has_room(&self) -> bool {
        self.groups
            .iter()
            .map(|group| group.records.len())
            .sum::<usize>()
            < MAX_RETRIED
    }

    /// Waits for a due group and takes the one with the shortest retry delay. Closing makes all due.
    async fn next(&mut self, closing: &CancellationToken) -> RecordGroup {
        match self.groups.iter().map(|group| group.due).min() {
            Some(soonest) => drop(timeout_at(soonest, closing.cancelled()).await),
            None => std::future::pending().await,
        }
        let now = Instant::now();
        let groups = self.groups.iter().enumerate();
        let next = groups
            .filter(|(_, group)| group.due <= now || closing.is_cancelled())
            .min_by_key(|(_, group)| (group.pause, group.due))
            .map_or(0, |(at, _)| at);
        self.groups.swap_remove(next)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::*;
    use crate::job::{JobId, Usage};
    use crate::store::jobs::record::{Ending, Fence};

    type Ticket = oneshot::Receiver<Result<Recorded, StoreError>>;

    /// Jobs have the claim numbers 0, 1, ..
    fn group(size: i64) -> (RecordGroup, Vec<Ticket>) {
        let one = |claim_no| {
            let (done, ticket) = oneshot::channel();
            let record = Record {
                fence: Fence {
                    job_id: JobId::new(),
                    claim_no,
                    worker_id: Uuid::now_v7(),
                },
                ending: Ending::Requeued,
                retries: 0,
                usage: Usage::default(),
                at: DateTime::UNIX_EPOCH,
            };
            (Recording { record, done }, ticket)
        };
        let (recordings, tickets) = (0..size).map(one).unzip();
        (RecordGroup::new(recordings), tickets)
    }

    fn held_up() -> sqlx::Error {
        sqlx::Error::PoolTimedOut
    }

    #[tokio::test(start_paused = true)]
    async fn halves_keep_records_with_their_callers() {
        let (whole, tickets) = group(5);
        let halves = whole.halves();
        let sizes = halves.each_ref().map(|half| half.records.len());
        assert_eq!(sizes, [2, 3]);
        for half in halves {
            let outcomes: Vec<_> = half
                .records
                .iter()
                .map(|record| record.fence.claim_no % 2 == 0)
                .map(|even| {
                    Ok(if even {
                        Recorded::Applied
                    } else {
                        Recorded::Stale
                    })
                })
                .collect();
            half.answer(outcomes.into_iter());
        }
        let mut outcomes = Vec::new();
        for ticket in tickets {
            outcomes.push(ticket.await.unwrap().unwrap());
        }
        let (applied, stale) = (Recorded::Applied, Recorded::Stale);
        assert_eq!(outcomes, [applied, stale, applied, stale, applied]);
    }

    #[tokio::test(start_paused = true)]
    async fn single_record_backs_off_up_to_a_maximum() {
        let closing = CancellationToken::new();
        let (mut retries, began) = (RetryQueue::default(), Instant::now());
        retries.groups.push(group(1).0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let before = Instant::now();
            let lone = retries.next(&closing).await;
            pauses.push(before.elapsed().as_millis());
            retries.groups.push(lone.later(&held_up()));
        }
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        tokio::time::advance(MAX_RETRY_DELAY).await;
        // The single record is due for longer.
        retries.groups.push(group(2).0);
        assert!(
            retries
                .groups
                .iter()
                .all(|group| group.due <= Instant::now())
        );
        assert_eq!(retries.next(&closing).await.records.len(), 2);
        assert_eq!(retries.next(&closing).await.records.len(), 1);
        assert!(began.elapsed() > MAX_RETRY_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_makes_all_groups_due() {
        let closing = CancellationToken::new();
        let mut retries = RetryQueue::default();
        retries.groups.push(group(1).0.later(&held_up()));
        closing.cancel();
        let began = Instant::now();
        retries.next(&closing).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn full_retry_queue_accepts_no_group() {
        let mut retries = RetryQueue::default();
        let size = i64::try_from(MAX_RETRIED).unwrap() / 2;
        assert!(retries.has_room());
        retries.groups.push(group(size).0);
        assert!(retries.has_room());
        retries.groups.push(group(size).0);
        assert!(!retries.has_room());
    }
}
