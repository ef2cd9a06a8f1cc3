//! Rescores expand in steps, each session once, with any number of workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use gavel::clock::SystemClock;
use gavel::job::{JobId, JobState, Kind, Lane, Priority, Purpose};
use gavel::queue::{ClaimRequest, Queue};
use gavel::store::{
    BacklogPlan, BatchRow, ClassifyRules, Disposition, Moved, NewBacklog, NewBatch, SessionFilter,
    SessionRecord, StepOutcome, Store,
};
use gavel::worker::{Expansion, ExpansionOutcome};
use uuid::Uuid;

use super::fixtures::{
    accept, claim, current_score, hash, item_ids, job, minutes, new_job, new_score, now, record,
    scored_session, scored_with, session, session_with_job,
};
use crate::queue::fifo::Fifo;
use crate::support;
use crate::support::client::PATIENCE;
use crate::support::wait::eventually;
use gavel::wire::SessionStatus;
use gavel::wire::{BatchOrigin, BatchState, PausedBy, Skipped};

/// Rescore of all sessions by criteria `a`.
pub(super) fn new_backlog() -> NewBacklog {
    NewBacklog {
        batch: NewBatch {
            name: Some("spring".to_owned()),
            origin: BatchOrigin::Rescore,
            ..support::new_batch(Kind::Session, now())
        },
        filter: SessionFilter::default(),
        plan: BacklogPlan {
            judges: vec!["main".to_owned()],
            repeats: 1,
            rules: ClassifyRules {
                purpose: Purpose::Score,
                criteria_hash: hash('a'),
                force: false,
                simulated: false,
                completed_only: false,
            },
            force_rescore: false,
            priority: Priority::Bulk,
            max: None,
            ids: None,
            sample: None,
            economy: false,
        },
        picks: Vec::new(),
        unknown: 0,
    }
}

pub(super) async fn stored(store: &Store, n: usize) -> BTreeSet<Uuid> {
    let mut ids = BTreeSet::new();
    for _ in 0..n {
        let id = Uuid::now_v7();
        store.sessions().put(&session(id), now()).await.unwrap();
        ids.insert(id);
    }
    ids
}

pub(super) async fn begun(store: &Store, new: NewBacklog) -> Uuid {
    store.batches().begin_backlog(&new).await.unwrap();
    new.batch.batch_id
}

async fn row(store: &Store, id: Uuid) -> BatchRow {
    store.batches().get(id).await.unwrap().unwrap()
}

pub(super) async fn whole(store: &Store, id: Uuid, jobs: u32) -> BatchRow {
    loop {
        match store.batches().expand(id, jobs, now()).await.unwrap() {
            StepOutcome::Part(_) => {}
            StepOutcome::Whole(batch) => return *batch,
            StepOutcome::Stopped => panic!("it expands"),
        }
    }
}

async fn subjects(store: &Store, id: Uuid) -> Vec<Uuid> {
    let mut subjects = Vec::new();
    for item in item_ids(store, id).await {
        subjects.push(job(store, item).await.subject_id.unwrap());
    }
    subjects
}

fn set(ids: &[Uuid]) -> BTreeSet<Uuid> {
    let set: BTreeSet<Uuid> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "each once");
    set
}

#[tokio::test]
async fn rescore_expands_in_steps_and_each_session_once() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let sessions = stored(store, 7).await;
        let new = new_backlog();
        let id = begun(store, new.clone()).await;
        // Sessions stored after the request aren't included.
        let later = SessionRecord {
            completed_at: Some(now() - minutes(1)),
            ..session(Uuid::now_v7())
        };
        store
            .sessions()
            .put(&later, now() + minutes(1))
            .await
            .unwrap();
        assert_eq!(batches.expanding_backlogs().await.unwrap(), [id]);
        for step in 1..=2 {
            let stepped = batches.expand(id, 3, now()).await.unwrap();
            assert_eq!(stepped, StepOutcome::Part(3));
            let batch = row(store, id).await;
            assert_eq!(
                (batch.state, batch.total),
                (BatchState::Expanding, 3 * step)
            );
            // A repeat has no effect.
            batches.begin_backlog(&new).await.unwrap();
        }
        // Items run during the expansion.
        let first = batches.first_items(id, 1).await.unwrap();
        claim(store, first[0].job_id, Uuid::now_v7()).await;
        assert_eq!(batches.complete(id, now()).await.unwrap(), None);
        let batch = whole(store, id, 3).await;
        assert_eq!(
            (batch.state, batch.total, batch.expanded),
            (BatchState::Running, 7, true)
        );
        assert_eq!(set(&subjects(store, id).await), sessions);
        assert_eq!(
            batches.expand(id, 3, now()).await.unwrap(),
            StepOutcome::Stopped
        );
        assert!(batches.expanding_backlogs().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn step_reads_a_fixed_number_of_sessions() {
    for test in support::stores().await {
        let store = &test.store;
        stored(store, 5).await;
        let wanted = SessionRecord {
            agent: Some("rare".to_owned()),
            completed_at: Some(now() - minutes(60)),
            ..session(Uuid::now_v7())
        };
        store.sessions().put(&wanted, now()).await.unwrap();
        let mut new = new_backlog();
        new.filter.agent = Some("rare".to_owned());
        let id = begun(store, new).await;
        for found in [0, 0, 1] {
            let stepped = store.batches().expand(id, 2, now()).await.unwrap();
            assert_eq!(stepped, StepOutcome::Part(found));
        }
        assert_eq!(whole(store, id, 2).await.total, 1);
        assert_eq!(subjects(store, id).await, [wanted.session_id]);
    }
}

#[tokio::test]
async fn concurrent_expanding_workers_create_each_item_once() {
    for test in support::stores().await {
        let sessions = stored(&test.store, 40).await;
        let id = begun(&test.store, new_backlog()).await;
        let others = [
            test.store.clone(),
            support::reopen(&test).await,
            support::reopen(&test).await,
        ];
        let steps = others.iter().map(|store| async move {
            while let StepOutcome::Part(_) = store.batches().expand(id, 3, now()).await.unwrap() {}
        });
        join_all(steps).await;
        let batch = row(&test.store, id).await;
        assert_eq!((batch.state, batch.total), (BatchState::Running, 40));
        assert_eq!(set(&subjects(&test.store, id).await), sessions);
    }
}

#[tokio::test]
async fn interrupted_step_is_applied_completely_or_not_at_all() {
    for test in support::stores().await {
        let store = &test.store;
        let sessions = stored(store, 30).await;
        let id = begun(store, new_backlog()).await;
        for polls in 0..24 {
            let step = store.batches().expand(id, 1, now());
            tokio::pin!(step);
            for _ in 0..polls {
                if futures::poll!(&mut step).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // The server may still be committing the last interrupted step.
        let batch = eventually(PATIENCE, "as many items as the row says", async || {
            let batch = row(store, id).await;
            let items = subjects(store, id).await.len();
            (usize::try_from(batch.total) == Ok(items)).then_some(batch)
        })
        .await;
        if batch.state == BatchState::Expanding {
            whole(store, id, 7).await;
        }
        assert_eq!(row(store, id).await.total, 30);
        assert_eq!(set(&subjects(store, id).await), sessions);
    }
}

#[tokio::test]
async fn sessions_without_need_or_means_of_scoring_are_skipped() {
    for test in support::stores().await {
        let store = &test.store;
        let sessions = store.sessions();
        let current = scored_session(store, 70).await;
        let fresh = stored(store, 1).await;
        let busy = Uuid::now_v7();
        sessions.put(&session(busy), now()).await.unwrap();
        let active = accept(store, new_job(Some(busy))).await;
        let open = SessionRecord {
            status: SessionStatus::InProgress,
            completed_at: None,
            ..session(Uuid::now_v7())
        };
        let silent = SessionRecord {
            conversation: Vec::new(),
            ..session(Uuid::now_v7())
        };
        for unjudged in [&open, &silent] {
            sessions.put(unjudged, now()).await.unwrap();
        }
        let new = new_backlog();
        let found = sessions
            .classify(&new.filter, &new.plan.rules, now(), None, 100)
            .await
            .unwrap()
            .found;
        let disposition = |id: Uuid| {
            found
                .iter()
                .find(|f| f.session_id == id)
                .unwrap()
                .disposition
        };
        assert_eq!(disposition(current), Disposition::AlreadyCurrent);
        assert_eq!(disposition(busy), Disposition::InProgress);
        assert_eq!(disposition(open.session_id), Disposition::NotScorable);
        let id = begun(store, new).await;
        let batch = whole(store, id, 2).await;
        let skipped = Skipped {
            already_current: 1,
            in_progress: 1,
            not_scorable: 2,
            unknown: 0,
        };
        assert_eq!((batch.total, batch.skipped), (1, Some(skipped)));
        assert_eq!(set(&subjects(store, id).await), fresh);
        let skips = store.budgets().batch_skips(id).await.unwrap();
        assert_eq!(skips.len(), 1);
        assert_eq!((skips[0].session_id, skips[0].job_id), (busy, Some(active)));

        // Under other criteria the score isn't current, and `force` ignores it.
        for (criteria, force) in [('b', false), ('a', true)] {
            let mut again = new_backlog();
            again.plan.rules.criteria_hash = hash(criteria);
            again.plan.rules.force = force;
            let found = sessions
                .classify(&again.filter, &again.plan.rules, now(), None, 100)
                .await
                .unwrap()
                .found;
            let place = found.iter().find(|f| f.session_id == current).unwrap();
            assert_eq!(
                place.disposition,
                Disposition::ToScore,
                "{criteria} {force}"
            );
        }
    }
}

#[tokio::test]
async fn simulated_score_is_current_only_for_simulated_judges() {
    for test in support::stores().await {
        let store = &test.store;
        let (session_id, id) = session_with_job(store).await;
        let run = claim(store, id, Uuid::now_v7()).await;
        let mut score = new_score(session_id, 70);
        score.score.simulated = true;
        record(store, &run, scored_with(score)).await;
        for (simulated, expected) in [
            (false, Disposition::ToScore),
            (true, Disposition::AlreadyCurrent),
        ] {
            let mut new = new_backlog();
            new.plan.rules.simulated = simulated;
            let found = store
                .sessions()
                .classify(&new.filter, &new.plan.rules, now(), None, 1)
                .await
                .unwrap()
                .found;
            assert_eq!(found[0].disposition, expected, "{simulated}");
        }
    }
}

#[tokio::test]
async fn expanding_batch_is_paused_resumed_and_cancelled() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        stored(store, 6).await;
        let id = begun(store, new_backlog()).await;
        batches.expand(id, 2, now()).await.unwrap();
        let Moved::Now(paused) = batches.pause(id).await.unwrap() else {
            panic!("it can be paused");
        };
        assert_eq!(
            (paused.state, paused.paused_by),
            (BatchState::Paused, Some(PausedBy::Operator))
        );
        assert_eq!(
            batches.expand(id, 2, now()).await.unwrap(),
            StepOutcome::Stopped
        );
        let items = item_ids(store, id).await;
        let claimed = store
            .jobs()
            .claim(&items, Uuid::now_v7(), now() + minutes(1))
            .await;
        assert!(claimed.unwrap().is_empty(), "nothing begins");
        let Moved::Now(resumed) = batches.resume(id, now()).await.unwrap() else {
            panic!("it can be resumed");
        };
        assert_eq!(
            (resumed.state, resumed.paused_by),
            (BatchState::Expanding, None)
        );
        let again = batches.resume(id, now()).await.unwrap();
        assert!(matches!(again, Moved::Already(_)));
        batches.expand(id, 2, now()).await.unwrap();
        let Moved::Now(cancelled) = batches.cancel(id, now()).await.unwrap() else {
            panic!("it can be cancelled");
        };
        assert_eq!(
            (cancelled.state, cancelled.total),
            (BatchState::Cancelled, 4)
        );
        assert_eq!(
            batches.expand(id, 2, now()).await.unwrap(),
            StepOutcome::Stopped
        );
        let figures = batches.figures(&row(store, id).await).await.unwrap();
        assert_eq!(figures.count(JobState::Cancelled), 4);
        // A silent owner doesn't make it an incomplete batch that is removed.
        let silent = std::time::Duration::ZERO;
        assert!(batches.remove_silent(silent).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn named_sessions_up_to_the_limit_become_items() {
    for test in support::stores().await {
        let store = &test.store;
        let sessions = stored(store, 6).await;
        let named: Vec<Uuid> = sessions.iter().copied().take(4).collect();
        let mut new = new_backlog();
        new.plan.ids = Some(5);
        new.picks = named.iter().copied().chain([Uuid::now_v7()]).collect();
        new.unknown = 1;
        let id = begun(store, new).await;
        let batch = whole(store, id, 3).await;
        assert_eq!((batch.total, batch.skipped.unwrap().unknown), (4, 1));
        assert_eq!(set(&subjects(store, id).await), set(&named));
        assert_eq!(
            store
                .sessions()
                .count_stored(&[named[0], id], now())
                .await
                .unwrap(),
            1
        );
        let mut new = new_backlog();
        new.plan.max = Some(1);
        let id = begun(store, new).await;
        let batch = whole(store, id, 1).await;
        assert_eq!(batch.total, 1, "the others have jobs of the first one");
        assert_eq!(batch.state, BatchState::Running);
    }
}

#[tokio::test]
async fn earlier_job_retains_its_session_and_item_numbers_continue() {
    for test in support::stores().await {
        let store = &test.store;
        let sessions = stored(store, 4).await;
        let id = begun(store, new_backlog()).await;
        store.batches().expand(id, 2, now()).await.unwrap();
        let taken = set(&subjects(store, id).await);
        let busy = *sessions.difference(&taken).next().unwrap();
        accept(store, new_job(Some(busy))).await;
        let batch = whole(store, id, 2).await;
        assert_eq!((batch.total, batch.skipped.unwrap().in_progress), (3, 1));
        assert_eq!(
            store.budgets().batch_skips(id).await.unwrap()[0].session_id,
            busy
        );
    }
}

#[tokio::test]
async fn repeats_and_juries_make_items_and_previews_ignore_scores() {
    for test in support::stores().await {
        let store = &test.store;
        let session = scored_session(store, 70).await;
        accept(store, new_job(Some(session))).await;
        for (purpose, judges, repeats) in [
            (Purpose::Preview, vec!["main"], 1),
            (Purpose::Repeat, vec!["main"], 3),
            (Purpose::Jury, vec!["main", "other", "third"], 1),
        ] {
            let mut new = new_backlog();
            new.plan.rules.purpose = purpose;
            new.plan.judges = judges.iter().map(|judge| (*judge).to_owned()).collect();
            new.plan.repeats = repeats;
            let each = i64::try_from(new.plan.jobs_each()).unwrap();
            let id = begun(store, new).await;
            let batch = whole(store, id, 10).await;
            assert_eq!((batch.total, batch.purpose), (each, purpose));
            assert_eq!(batch.skipped, Some(Skipped::default()));
            let items: Vec<JobId> = item_ids(store, id).await;
            let mut asked = Vec::new();
            for item in items {
                let item = job(store, item).await;
                assert_eq!((item.subject_id, item.purpose), (Some(session), purpose));
                assert_eq!(item.lane.as_str(), item.judge.clone().unwrap());
                asked.push(item.judge.unwrap());
                let run = claim(store, item.job_id, Uuid::now_v7()).await;
                let mut score = new_score(session, 10);
                score.purpose = purpose;
                record(store, &run, scored_with(score)).await;
            }
            if purpose == Purpose::Jury {
                assert_eq!(asked, judges);
            }
            assert!(store.batches().complete(id, now()).await.unwrap().is_some());
        }
        let current = current_score(store, session).await;
        assert_eq!(current.score.total_score, 70);
    }
}

/// Expanded items don't wait for rescue, which skips young rows because their creator pushes them.
#[tokio::test]
async fn expanded_items_are_pushed_at_once_and_only_once() {
    for test in support::stores().await {
        let queue = Fifo::new();
        let shared: Arc<dyn Queue> = queue.clone();
        let mut worker = Expansion::new(Arc::clone(&test.store), shared, Arc::new(SystemClock));
        stored(&test.store, 3).await;
        let id = begun(&test.store, new_backlog()).await;
        while worker.round().await.unwrap() == ExpansionOutcome::More {}

        let batch = row(&test.store, id).await;
        assert_eq!((batch.total, batch.state), (3, BatchState::Running));
        let lane = Lane::of_judge("main");
        assert_eq!(queue.depth(&lane).await.unwrap().bulk, 3);

        // Ids that left the queue in between aren't pushed again by later rounds.
        let claim = ClaimRequest::of_lanes(vec![lane.clone()], 9);
        assert_eq!(queue.claim(&claim).await.unwrap().len(), 3);
        assert_eq!(worker.round().await.unwrap(), ExpansionOutcome::Nothing);
        assert_eq!(queue.depth(&lane).await.unwrap().bulk, 0);
    }
}
