//! Rescue: lost jobs are requeued, and jobs that kill their workers end.

use gavel::job::{FailureClass, Job, JobId, JobState, Lane, Priority, WaitReason};
use gavel::judge::gate::{BreakerState, GateSnapshot, LastError};
use gavel::store::{Died, Ending, Heartbeat, Rescued, Store};
use gavel::wire::WorkerState;
use uuid::Uuid;

use super::fixtures::{
    accept, claim, job, minutes, new_job, now, record, record_of, recorded, waiting,
};
use crate::support;

async fn rescue(store: &Store) -> Rescued {
    store
        .jobs()
        .rescue_lost(Died::Somebody, 3, now())
        .await
        .unwrap()
}

/// Declares a worker dead by its last heartbeat; returns the number of newly dead ones.
async fn declare_dead(store: &Store, worker: Uuid) -> u64 {
    let roll = store.workers().roll_call().await.unwrap();
    let pulse = roll.workers.iter().find(|pulse| pulse.worker_id == worker);
    let dead: Vec<_> = pulse
        .map(|pulse| (worker, pulse.heartbeat_at))
        .into_iter()
        .collect();
    store.workers().declare_dead(&dead).await.unwrap()
}

/// Claims as an unknown worker, and rescues the lost job.
async fn lose(store: &Store, id: JobId) -> Job {
    claim(store, id, Uuid::now_v7()).await;
    let rescued = rescue(store).await;
    assert_eq!(rescued.requeued.len() + rescued.poisoned.len(), 1);
    job(store, id).await
}

async fn heartbeat(store: &Store, worker: Uuid, state: WorkerState) {
    let beat = Heartbeat {
        in_hand: 1,
        state,
        ..support::beat(worker, "host")
    };
    support::heartbeat(store, &beat).await;
}

#[tokio::test]
async fn jobs_of_dead_or_unknown_workers_are_requeued() {
    for test in support::stores().await {
        let store = &test.store;
        let workers = store.workers();
        let [live, draining, stopped, unknown] = [1, 2, 3, 4].map(|_| Uuid::now_v7());
        let mut ids = Vec::new();
        for worker in [live, draining, stopped, unknown] {
            let id = accept(store, new_job(None)).await;
            claim(store, id, worker).await;
            ids.push(id);
        }
        support::heartbeat(store, &support::beat(live, "host")).await;
        heartbeat(store, draining, WorkerState::Draining).await;
        heartbeat(store, stopped, WorkerState::Stopped).await;
        assert_eq!(declare_dead(store, stopped).await, 1);
        assert_eq!(declare_dead(store, stopped).await, 0);
        let at = now();
        let rescued = store
            .jobs()
            .rescue_lost(Died::Somebody, 3, at)
            .await
            .unwrap();
        let mut requeued: Vec<JobId> = rescued.requeued.iter().map(|due| due.job_id).collect();
        requeued.sort();
        assert_eq!(requeued, ids[2..]);
        assert!(rescued.poisoned.is_empty());
        assert!(
            rescued
                .requeued
                .iter()
                .all(|due| due.due_at == at && due.priority == Priority::Bulk)
        );
        let lost = job(store, ids[3]).await;
        assert_eq!(
            (lost.state, lost.losses, lost.attempts),
            (JobState::Queued, 1, 0)
        );
        assert_eq!((lost.worker_id, lost.claim_no), (None, 1));
        assert_eq!(job(store, ids[0]).await.state, JobState::Running);

        // A concurrent heartbeat revokes a death, before or after it is declared.
        let heard = workers.roll_call().await.unwrap().workers;
        heartbeat(store, live, WorkerState::Running).await;
        let last: Vec<_> = heard
            .iter()
            .map(|pulse| (pulse.worker_id, pulse.heartbeat_at))
            .collect();
        assert_eq!(
            workers.declare_dead(&last).await.unwrap(),
            1,
            "the draining one"
        );
        heartbeat(store, draining, WorkerState::Draining).await;
        assert_eq!(rescue(store).await, Rescued::default());
    }
}

#[tokio::test]
async fn one_worker_leads_until_it_stops_or_is_declared_dead() {
    for test in support::stores().await {
        let store = &test.store;
        let [first, second] = [1, 2].map(|_| Uuid::now_v7());
        for worker in [first, second] {
            heartbeat(store, worker, WorkerState::Running).await;
        }
        let leads = async |worker| store.workers().lead(worker, now()).await.unwrap();
        assert!(leads(first).await && leads(first).await);
        assert!(!leads(second).await);
        assert_eq!(
            store.workers().roll_call().await.unwrap().leader,
            Some(first)
        );
        declare_dead(store, first).await;
        assert!(leads(second).await);
        heartbeat(store, first, WorkerState::Running).await;
        assert!(!leads(first).await, "it comes back, and the other leads");
        heartbeat(store, second, WorkerState::Draining).await;
        assert!(leads(first).await);
    }
}

#[tokio::test]
async fn clock_that_was_ahead_and_is_reset_delays_no_job() {
    for test in support::stores().await {
        let store = &test.store;
        let ahead = now() + minutes(60);
        let queued = accept(
            store,
            gavel::job::NewJob {
                created_at: ahead,
                ..new_job(None)
            },
        )
        .await;
        let mut waits = Vec::new();
        for (began, until) in [(ahead, ahead + minutes(1)), (now(), ahead)] {
            let id = accept(store, new_job(None)).await;
            let run = claim(store, id, Uuid::now_v7()).await;
            let mut end = record_of(&run, waiting(WaitReason::Throttled, until));
            end.at = began;
            recorded(store, end).await;
            waits.push(id);
        }
        let at = now();
        assert_eq!(store.jobs().make_due_what_lies_ahead(at).await.unwrap(), 2);
        for id in [queued, waits[0]] {
            assert_eq!(job(store, id).await.due_at, at);
        }
        assert_eq!(
            job(store, waits[1]).await.due_at,
            ahead,
            "a long wait stays one"
        );
    }
}

#[tokio::test]
async fn second_loss_in_a_row_makes_a_suspect_and_next_ones_poison() {
    for test in support::stores().await {
        let store = &test.store;
        let id = accept(store, new_job(None)).await;
        let lost = lose(store, id).await;
        assert_eq!(
            (lost.lane.as_str(), lost.losses, lost.attempts),
            ("main", 1, 0)
        );
        let lost = lose(store, id).await;
        assert!(lost.lane.is_suspect());
        assert_eq!((lost.losses, lost.attempts), (2, 0));
        let lost = lose(store, id).await;
        assert_eq!((lost.state, lost.attempts), (JobState::Queued, 1));
        let lost = lose(store, id).await;
        assert_eq!((lost.state, lost.attempts), (JobState::Queued, 2));
        let lost = lose(store, id).await;
        assert_eq!((lost.state, lost.attempts), (JobState::Failed, 3));
        let failure = lost.failure.unwrap();
        assert_eq!(failure.class, FailureClass::Poison);
        assert!(failure.message.contains("5 workers"), "{}", failure.message);
        assert!(lost.finished_at.is_some());
        assert_eq!(rescue(store).await, Rescued::default());
    }
}

#[tokio::test]
async fn worker_death_with_an_active_suspect_counts_only_for_it() {
    for test in support::stores().await {
        let store = &test.store;
        let poison = accept(store, new_job(None)).await;
        lose(store, poison).await;
        assert!(lose(store, poison).await.lane.is_suspect());
        // More than one slice: the suspect's row stays claimed until the last of them is rescued.
        let others: Vec<_> = (0..600).map(|_| new_job(None)).collect();
        let ids: Vec<JobId> = others.iter().map(|job| job.job_id).collect();
        futures::future::join_all(others.into_iter().map(|job| store.jobs().accept(job))).await;
        for died in 1..=3 {
            let worker = Uuid::now_v7();
            claim(store, poison, worker).await;
            let at = now() + minutes(1);
            let claimed = store.jobs().claim(&ids, worker, at).await.unwrap();
            assert_eq!(claimed.len(), ids.len());
            // The death of another worker counts for its own jobs.
            let alone = accept(store, new_job(None)).await;
            claim(store, alone, Uuid::now_v7()).await;
            let rescued = rescue(store).await;
            assert_eq!(
                rescued.requeued.len() + rescued.poisoned.len(),
                ids.len() + 2
            );
            assert_eq!(job(store, poison).await.attempts, died);
            assert_eq!(job(store, alone).await.losses, 1);
            for id in [ids[0], ids[599]] {
                let other = job(store, id).await;
                assert_eq!((other.state, other.losses), (JobState::Queued, 0));
                assert_eq!(other.lane.as_str(), "main");
            }
        }
        let ended = job(store, poison).await;
        assert_eq!(ended.failure.unwrap().class, FailureClass::Poison);
    }
}

#[tokio::test]
async fn run_with_any_other_outcome_clears_losses_and_suspicion() {
    for test in support::stores().await {
        let store = &test.store;
        for wait in [true, false] {
            let id = accept(store, new_job(None)).await;
            lose(store, id).await;
            assert!(lose(store, id).await.lane.is_suspect());
            let run = claim(store, id, Uuid::now_v7()).await;
            assert!(run.lane.is_suspect());
            let ending = match wait {
                true => waiting(WaitReason::BreakerOpen, now()),
                false => Ending::Requeued,
            };
            record(store, &run, ending).await;
            let back = job(store, id).await;
            assert_eq!((back.lane.as_str(), back.losses), ("main", 0));
        }
    }
}

#[tokio::test]
async fn lost_jobs_beyond_one_slice_are_found_in_one_call() {
    for test in support::stores().await {
        let jobs: Vec<_> = (0..1100).map(|_| new_job(None)).collect();
        let ids: Vec<JobId> = jobs.iter().map(|job| job.job_id).collect();
        let accepts = jobs.into_iter().map(|job| test.store.jobs().accept(job));
        futures::future::join_all(accepts).await;
        let at = now() + minutes(1);
        let claimed = test
            .store
            .jobs()
            .claim(&ids, Uuid::now_v7(), at)
            .await
            .unwrap();
        assert_eq!(claimed.len(), ids.len());
        assert_eq!(rescue(&test.store).await.requeued.len(), ids.len());
    }
}

#[tokio::test]
async fn due_jobs_are_paged_by_lane_and_set() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let start = now() - minutes(60);
        let mut bulk = Vec::new();
        for n in 0..5 {
            let mut new = new_job(None);
            new.created_at = start + minutes(n / 2);
            bulk.push(accept(store, new).await);
        }
        let mut interactive = new_job(None);
        interactive.priority = Priority::Interactive;
        let interactive = accept(store, interactive).await;
        let mut none = new_job(None);
        none.judge = None;
        accept(store, none).await;
        let main = Lane::of_judge("main");
        let later = now() + minutes(1);

        let first = jobs
            .due(&main, Priority::Bulk, later, None, 3)
            .await
            .unwrap();
        let after = first.last().map(|due| (due.due_at, due.job_id));
        let rest = jobs
            .due(&main, Priority::Bulk, later, after, 3)
            .await
            .unwrap();
        let ids: Vec<JobId> = first.iter().chain(&rest).map(|due| due.job_id).collect();
        assert_eq!(ids, bulk);
        let due = jobs
            .due(&main, Priority::Interactive, later, None, 9)
            .await
            .unwrap();
        assert_eq!(due[0].job_id, interactive);
        let due = jobs
            .due(&main, Priority::Bulk, start, None, 9)
            .await
            .unwrap();
        assert_eq!(due.len(), 2);
        assert_eq!(
            jobs.lanes().await.unwrap(),
            [main.clone(), Lane::of_judge(Lane::NONE)]
        );

        claim(store, bulk[0], Uuid::now_v7()).await;
        let run = claim(store, bulk[1], Uuid::now_v7()).await;
        record(
            store,
            &run,
            waiting(WaitReason::Throttled, later - minutes(2)),
        )
        .await;
        let due = jobs
            .due(&main, Priority::Bulk, later, None, 9)
            .await
            .unwrap();
        let ids: Vec<JobId> = due.iter().map(|due| due.job_id).collect();
        assert_eq!(ids, [bulk[2], bulk[3], bulk[4], bulk[1]]);
    }
}

#[tokio::test]
async fn lane_without_unfinished_jobs_is_not_listed() {
    for test in support::stores().await {
        assert!(test.store.jobs().lanes().await.unwrap().is_empty());
        let id = accept(&test.store, new_job(None)).await;
        test.store.jobs().cancel(id, now()).await.unwrap();
        assert!(test.store.jobs().lanes().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn only_waiting_counts_towards_the_longest_wait() {
    for test in support::stores().await {
        let store = &test.store;
        let since = now() - minutes(60);
        let mut ids = Vec::new();
        for (judge, began) in [("main", 90), ("main", 30), ("paused", 90)] {
            let mut new = new_job(None);
            new.judge = Some(judge.to_owned());
            let id = accept(store, new).await;
            let run = claim(store, id, Uuid::now_v7()).await;
            let mut end = record_of(&run, waiting(WaitReason::BreakerOpen, now()));
            end.at = now() - minutes(began);
            recorded(store, end).await;
            ids.push(id);
        }
        let mut old = new_job(None);
        old.created_at = now() - minutes(9000);
        let old = accept(store, old).await;
        let gate = GateSnapshot {
            breaker: BreakerState::Open,
            last_error: Some(LastError {
                message: "it answered 503".to_owned(),
                ago: std::time::Duration::from_secs(90),
            }),
            ..support::gate("main")
        };
        let gates = [gate];
        let known = store.judges().put(Uuid::now_v7(), &gates, now());
        known.await.unwrap();
        let except = [Lane::of_judge("paused")];
        let expired = store
            .jobs()
            .expire_waits(since, &except, now())
            .await
            .unwrap();
        assert_eq!(expired, [ids[0]]);
        let ended = job(store, ids[0]).await;
        let failure = ended.failure.unwrap();
        assert_eq!(
            (ended.state, failure.class),
            (JobState::Failed, FailureClass::WaitExpired)
        );
        assert_eq!(
            failure.message,
            "waited too long; the last reason was breaker_open: it answered 503"
        );
        assert_eq!(job(store, old).await.state, JobState::Queued);
        assert_eq!(
            store.jobs().expire_waits(since, &[], now()).await.unwrap(),
            [ids[2]]
        );
        let unknown = job(store, ids[2]).await.failure.unwrap().message;
        assert!(unknown.ends_with("breaker_open"), "{unknown}");
    }
}

#[tokio::test]
async fn jobs_of_a_dead_worker_are_found_behind_a_long_backlog() {
    for test in support::stores().await {
        let store = &test.store;
        let accepts = (0..10_010).map(|_| store.jobs().accept(new_job(None)));
        futures::future::join_all(accepts).await;
        let worker = Uuid::now_v7();
        support::heartbeat(store, &support::beat(worker, "host")).await;
        let quiet = async |store: &Store| {
            store
                .jobs()
                .rescue_lost(Died::Nobody, 3, now())
                .await
                .unwrap()
        };
        assert_eq!(quiet(store).await, Rescued::default());
        for _ in 0..2 {
            heartbeat(store, worker, WorkerState::Running).await;
            let id = accept(store, new_job(None)).await;
            claim(store, id, worker).await;
            assert_eq!(quiet(store).await, Rescued::default());
            declare_dead(store, worker).await;
            assert_eq!(rescue(store).await.requeued[0].job_id, id);
            assert_eq!(quiet(store).await, Rescued::default());
        }
    }
}
