//! The recorder: grouped commits of how runs ended, and a queue of those that failed.
//!
//! A group that the server doesn't take is halved, whatever it says, until what it doesn't take stands alone. That is tried
//! by a second task, so that no newer result waits behind it. A lone result that met a lock or took too long stays
//! in the queue and is tried again; one that is refused for good is answered so.
//!
//! Never gives up while the database is away: it tries on until [`Store::close`](crate::store::Store::close).

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::commit::commit_on;
use super::record::{ATTEMPTED, Answer, Record, Recorded, Recording};
use crate::store::StoreError;
use crate::store::database::db::{Db, within};
use crate::store::database::error::Failed;
use crate::store::database::group;
use crate::store::database::group::Spacing;
use crate::store::database::session::Purpose;

/// The least time between two groups. Only the slots of suspects and of items of a batch with a budget wait for the commit; of
/// other runs only readers of a row see it. At a thousand ends a second it makes groups of five instead of one.
const SPACING: Duration = Duration::from_millis(5);
/// The first pause between two tries.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause while the database is away: short, so that claims stay stopped meanwhile and resume soon after.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// How many results wait to be tried again; then no more are taken, and new ones wait for a place.
const MOST_RETRIED: usize = 1024;
/// How many halves may wait for a place in that queue while one is tried.
const HALVES: usize = 32;

/// Writes what comes until the store closes.
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
    let (mut spacing, nobody) = (Spacing::new(SPACING), Notify::new());
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
                // The other end reads until this one is dropped.
                let _ = behind.send(left).await;
            }
        }
        spacing.ended(taken);
    }
}

/// Tries groups that failed.
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

/// Takes records of different jobs and different sessions: a statement touches a row once. The others stay for the next.
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

/// Results that go into one transaction, and those who wait for it.
struct RecordGroup {
    records: Vec<Record>,
    answers: Vec<Answer>,
    /// When it is tried.
    due: Instant,
    /// How long it waits if it fails alone.
    pause: Duration,
    /// Some of it may be committed: an answer was lost.
    tried: bool,
}

impl RecordGroup {
    fn new(recordings: Vec<Recording>) -> Self {
        let (records, answers) = recordings.into_iter().map(|r| (r.record, r.done)).unzip();
        Self {
            records,
            answers,
            due: Instant::now(),
            pause: FIRST_PAUSE,
            tried: false,
        }
    }

    /// Commits it and answers those who wait; what is to be tried again comes back.
    async fn write(mut self, db: &Db, closing: &CancellationToken) -> Vec<Self> {
        let error = match self.persist(db, closing).await {
            Ok(outcomes) => {
                self.answer(outcomes.into_iter().map(Ok));
                return Vec::new();
            }
            Err(error) => error,
        };
        match Failed::of(&error) {
            Failed::HeldUp | Failed::Refused if self.records.len() > 1 => self.halves().into(),
            Failed::HeldUp if !closing.is_cancelled() => vec![self.later(&error)],
            Failed::Away | Failed::HeldUp | Failed::Refused => {
                let error = StoreError::of(ATTEMPTED, &error);
                self.answer(std::iter::repeat_with(|| Err(error.clone())));
                Vec::new()
            }
        }
    }

    /// Commits it, trying on while the database is away.
    async fn persist(
        &mut self,
        db: &Db,
        closing: &CancellationToken,
    ) -> sqlx::Result<Vec<Recorded>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match within(self.commit(db)).await {
                Ok(outcomes) => return Ok(outcomes),
                Err(error) => error,
            };
            self.tried = true;
            if Failed::of(&error) != Failed::Away || closing.is_cancelled() {
                return Err(error);
            }
            tracing::warn!(%error, records = self.records.len(), "results wait for the database");
            // Closing cuts the pause short, for one last try.
            let _ = timeout(pause, closing.cancelled()).await;
            pause = (pause * 2).min(AWAY_PAUSE);
        }
    }

    async fn commit(&self, db: &Db) -> sqlx::Result<Vec<Recorded>> {
        let mut conn = db.writer_for(Purpose::Record).await?;
        commit_on(&mut conn, &self.records, self.tried).await
    }

    /// Divides it, so that one bad row among many costs few statements.
    fn halves(mut self) -> [Self; 2] {
        let middle = self.records.len() / 2;
        let second = Self {
            records: self.records.split_off(middle),
            answers: self.answers.split_off(middle),
            ..self
        };
        [self, second]
    }

    /// Puts off one that failed alone.
    fn later(mut self, error: &sqlx::Error) -> Self {
        if self.pause == FIRST_PAUSE {
            for record in &self.records {
                tracing::warn!(job_id = %record.fence.job_id, %error, "a result is held up; it is tried until it is recorded");
            }
        }
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
            // Whoever waits may be gone; the commit stands.
            let _ = answer.send(outcome);
        }
    }
}

/// Groups that failed and are tried again.
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
            < MOST_RETRIED
    }

    /// Waits until a group is due and takes it: of several the one that failed least often alone. Closing makes all due.
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

    /// A group whose jobs' claims are numbered from 0.
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
    async fn halves_keep_each_record_with_who_waits_for_it() {
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
    async fn a_lone_result_waits_longer_each_time_up_to_a_bound_and_behind_those_that_failed_less()
    {
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
        tokio::time::advance(LONGEST_PAUSE).await;
        // The lone one has been due for longer.
        retries.groups.push(group(2).0);
        assert!(
            retries
                .groups
                .iter()
                .all(|group| group.due <= Instant::now())
        );
        assert_eq!(retries.next(&closing).await.records.len(), 2);
        assert_eq!(retries.next(&closing).await.records.len(), 1);
        assert!(began.elapsed() > LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_makes_all_due() {
        let closing = CancellationToken::new();
        let mut retries = RetryQueue::default();
        retries.groups.push(group(1).0.later(&held_up()));
        closing.cancel();
        let began = Instant::now();
        retries.next(&closing).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_full_takes_no_more() {
        let mut retries = RetryQueue::default();
        let size = i64::try_from(MOST_RETRIED).unwrap() / 2;
        assert!(retries.has_room());
        retries.groups.push(group(size).0);
        assert!(retries.has_room());
        retries.groups.push(group(size).0);
        assert!(!retries.has_room());
    }
}
