//! Holds: closed until somebody opens them.

use gavel::job::{JobId, JobState, WaitReason};
use gavel::store::{Hold, HoldTarget, Store, StoreError};
use uuid::Uuid;

use super::fixtures::{accept, claim, job, minutes, new_job, now, record_of, recorded, waiting};
use crate::support;

fn hold(target: &HoldTarget, reason: WaitReason) -> Hold {
    Hold {
        target: target.clone(),
        reason,
        message: "because".to_owned(),
        set_by: "ann".to_owned(),
        since: now(),
        until: None,
    }
}

fn judge(name: &str) -> HoldTarget {
    HoldTarget::Judge(name.to_owned())
}

/// A job that has waited for half an hour, due in another half.
async fn waits(store: &Store, name: &str, reason: WaitReason) -> JobId {
    let mut new = new_job(None);
    new.judge = Some(name.to_owned());
    let id = accept(store, new).await;
    let run = claim(store, id, Uuid::now_v7()).await;
    let mut end = record_of(&run, waiting(reason, now() + minutes(30)));
    end.at = now() - minutes(30);
    recorded(store, end).await;
    id
}

#[tokio::test]
async fn an_operators_pause_outranks_a_workers_closure() {
    for test in support::stores().await {
        let holds = test.store.holds();
        let target = judge("main");
        assert!(
            holds
                .set(&hold(&target, WaitReason::Exhausted))
                .await
                .unwrap()
        );
        assert!(
            holds
                .set(&hold(&target, WaitReason::Misconfigured))
                .await
                .unwrap()
        );
        let pause = hold(&target, WaitReason::Paused);
        assert!(holds.set(&pause).await.unwrap());
        assert!(
            !holds
                .set(&hold(&target, WaitReason::Exhausted))
                .await
                .unwrap()
        );
        assert_eq!(
            holds.list(now()).await.unwrap(),
            std::slice::from_ref(&pause)
        );
        let mut again = pause.clone();
        again.message = "still".to_owned();
        assert!(holds.set(&again).await.unwrap());
        assert_eq!(holds.list(now()).await.unwrap(), [again]);
    }
}

#[tokio::test]
async fn a_closure_that_another_worker_wrote_already_is_not_set_again() {
    for test in support::stores().await {
        let store = &test.store;
        let first = hold(&judge("main"), WaitReason::Misconfigured);
        assert!(store.holds().set(&first).await.unwrap());
        let mut other = first.clone();
        other.set_by = "another worker".to_owned();
        assert!(!store.holds().set(&other).await.unwrap());
        assert_eq!(
            store.holds().list(now()).await.unwrap(),
            std::slice::from_ref(&first)
        );
        other.until = Some(now() + minutes(10));
        assert!(
            store.holds().set(&other).await.unwrap(),
            "another end is news"
        );
    }
}

#[tokio::test]
async fn a_hold_opens_by_itself_when_its_time_has_passed() {
    for test in support::stores().await {
        let store = &test.store;
        let mut pause = hold(&HoldTarget::Queue, WaitReason::Paused);
        pause.until = Some(now() + minutes(10));
        store.holds().set(&pause).await.unwrap();
        assert_eq!(
            store.holds().list(now()).await.unwrap(),
            std::slice::from_ref(&pause)
        );
        let later = now() + minutes(11);
        assert!(store.holds().list(later).await.unwrap().is_empty());
        let mut closure = hold(&HoldTarget::Queue, WaitReason::Exhausted);
        closure.since = later;
        assert!(store.holds().set(&closure).await.unwrap());
    }
}

#[tokio::test]
async fn a_release_makes_what_waited_behind_it_due_and_its_wait_new() {
    for test in support::stores().await {
        let store = &test.store;
        let holds = store.holds();
        let target = judge("main");
        let behind = waits(store, "main", WaitReason::Exhausted).await;
        let throttled = waits(store, "main", WaitReason::Throttled).await;
        let elsewhere = waits(store, "other", WaitReason::Exhausted).await;
        let at = now();
        assert!(!holds.release(&target, at).await.unwrap());
        assert!(job(store, behind).await.due_at > at);

        holds
            .set(&hold(&target, WaitReason::Exhausted))
            .await
            .unwrap();
        assert!(holds.release(&target, at).await.unwrap());
        assert!(holds.list(at).await.unwrap().is_empty());
        let due = job(store, behind).await;
        assert_eq!(due.state, JobState::Waiting);
        assert_eq!((due.due_at, due.waiting_since), (at, Some(at)));
        let due = job(store, throttled).await;
        assert!(due.due_at > at);
        assert_eq!(due.waiting_since, Some(at));
        assert!(job(store, elsewhere).await.due_at > at);

        holds
            .set(&hold(&HoldTarget::Queue, WaitReason::Paused))
            .await
            .unwrap();
        assert!(holds.release(&HoldTarget::Queue, at).await.unwrap());
        assert_eq!(job(store, elsewhere).await.due_at, at);
    }
}

#[tokio::test]
async fn a_workers_start_releases_misconfigured_judges_of_its_own_and_no_pause() {
    for test in support::stores().await {
        let store = &test.store;
        let holds = store.holds();
        let behind = waits(store, "a", WaitReason::Misconfigured).await;
        for (name, reason) in [
            ("a", WaitReason::Misconfigured),
            ("b", WaitReason::Paused),
            ("c", WaitReason::Misconfigured),
            ("d", WaitReason::Exhausted),
        ] {
            holds.set(&hold(&judge(name), reason)).await.unwrap();
        }
        let own = ["a", "b", "d"].map(str::to_owned);
        let at = now();
        let released = holds.release_misconfigured(&own, at).await.unwrap();
        assert_eq!(released, [judge("a")]);
        assert_eq!(holds.release_misconfigured(&[], at).await.unwrap(), []);
        let left: Vec<_> = holds
            .list(at)
            .await
            .unwrap()
            .into_iter()
            .map(|b| b.target)
            .collect();
        assert_eq!(left, [judge("b"), judge("c"), judge("d")]);
        assert_eq!(job(store, behind).await.due_at, at);
    }
}

#[tokio::test]
async fn a_hold_that_ends_by_itself_starts_the_waits_behind_it_anew() {
    for test in support::stores().await {
        let store = &test.store;
        let behind = waits(store, "main", WaitReason::Exhausted).await;
        let elsewhere = waits(store, "other", WaitReason::Exhausted).await;
        let mut pause = hold(&judge("main"), WaitReason::Paused);
        pause.until = Some(now() + minutes(10));
        store.holds().set(&pause).await.unwrap();
        let begun = job(store, behind).await.waiting_since;
        assert_eq!(store.holds().lapse(now()).await.unwrap(), []);
        assert_eq!(job(store, behind).await.waiting_since, begun);

        let later = now() + minutes(11);
        assert_eq!(store.holds().lapse(later).await.unwrap(), [judge("main")]);
        assert_eq!(store.holds().lapse(later).await.unwrap(), [], "told once");
        assert_eq!(job(store, behind).await.waiting_since, Some(later));
        assert!(job(store, elsewhere).await.waiting_since < Some(now()));
        assert!(!store.holds().release(&judge("main"), later).await.unwrap());
    }
}

#[tokio::test]
async fn a_hold_on_something_unknown_is_an_error_that_names_its_column() {
    for test in support::stores().await {
        let odd = "insert into holds (target, reason, message, set_by, since)
                   values ('moon', 'paused', 'm', 'ann', '2026-01-01T00:00:00.000000+00:00')";
        support::execute(&test.url, odd).await.unwrap();
        let error = test.store.holds().list(now()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unexpected { .. }), "{error}");
        assert!(error.to_string().contains("column target"), "{error}");
    }
}

#[tokio::test]
async fn a_cap_takes_nobodys_place_and_an_operator_takes_its_own() {
    for test in support::stores().await {
        let holds = test.store.holds();
        let capped = |name: &str, message: &str| Hold {
            message: message.to_owned(),
            until: Some(now() + minutes(60)),
            ..hold(&judge(name), WaitReason::Budget)
        };
        let first = capped("main", "10 USD");
        assert!(holds.set_budget(&first).await.unwrap());
        assert!(!holds.set_budget(&first).await.unwrap(), "no news");
        let raised = Hold {
            message: "20 USD".to_owned(),
            ..first
        };
        assert!(holds.set_budget(&raised).await.unwrap());
        assert_eq!(holds.list(now()).await.unwrap(), [raised]);

        let pause = hold(&judge("main"), WaitReason::Paused);
        assert!(holds.set(&pause).await.unwrap());
        let used_up = hold(&judge("other"), WaitReason::Exhausted);
        assert!(holds.set(&used_up).await.unwrap());
        for name in ["main", "other"] {
            let set = holds.set_budget(&capped(name, "20 USD")).await.unwrap();
            assert!(!set, "{name} is stopped already");
        }
        let names = ["main", "other", "third"].map(str::to_owned);
        assert_eq!(holds.release_budget(&names, now()).await.unwrap(), []);
        holds.set_budget(&capped("third", "20 USD")).await.unwrap();
        let released = holds.release_budget(&names, now()).await.unwrap();
        assert_eq!(released, [judge("third")]);
        assert_eq!(holds.list(now()).await.unwrap(), [pause, used_up]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_opens_though_somebody_has_locked_a_row_that_waits() {
    use sqlx::Connection as _;
    let Some(test) = support::postgres().await else {
        return;
    };
    let (store, target) = (&test.store, judge("main"));
    let locked = waits(store, "main", WaitReason::Exhausted).await;
    let free = waits(store, "main", WaitReason::Exhausted).await;
    let set = hold(&target, WaitReason::Exhausted);
    assert!(store.holds().set(&set).await.unwrap());
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    let row = sqlx::query("select job_id from scoring_jobs where job_id = $1 for update");
    row.bind(locked.0).execute(&mut *lock).await.unwrap();
    assert!(store.holds().release(&target, now()).await.unwrap());
    assert!(store.holds().list(now()).await.unwrap().is_empty());
    assert!(job(store, free).await.due_at <= now());
    assert!(job(store, locked).await.due_at > now());
    lock.rollback().await.unwrap();
}
