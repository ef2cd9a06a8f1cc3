//! What judges remember: replies, calls, and what gates know.

use std::time::Duration;

use gavel::job::{JobId, WaitReason};
use gavel::judge::gate::{
    BreakerState, Denial, GateSnapshot, HeldBack, LastError, MeterSnapshot, PaceSnapshot,
};
use gavel::judge::{CacheKey, CallLog as _, CallRecord, CallUsage, ErrorClass};
use gavel::store::{Aged, Heartbeat};
use gavel::wire::WorkerState;
use uuid::Uuid;

use super::fixtures::{delete_older, minutes, now};
use crate::support::{self, call};

fn with_key(key: CacheKey) -> CallRecord {
    CallRecord {
        cache_key: Some(key),
        ..call(JobId::new())
    }
}

#[tokio::test]
async fn a_call_is_found_by_its_key_while_it_is_young_and_the_newest_wins() {
    for test in support::stores().await {
        let store = &test.store;
        let (key, since) = (CacheKey(Uuid::now_v7()), now() - minutes(60));
        assert_eq!(store.find(key, since).await, None);
        let first = CallRecord {
            reply: Some(r#"{"text": "日本 🦀"}"#.to_owned()),
            simulated: true,
            repaired: true,
            retries_spent: 2,
            ..with_key(key)
        };
        store.log(first.clone());
        store.log(with_key(CacheKey(Uuid::now_v7())));
        assert_eq!(store.find(key, since).await, Some(first.clone()));
        let older = CallRecord {
            at: first.at - minutes(1),
            ..with_key(key)
        };
        store.log(older);
        assert_eq!(store.find(key, since).await, Some(first.clone()));
        let newest = CallRecord {
            at: first.at + minutes(1),
            ..with_key(key)
        };
        store.log(newest.clone());
        assert_eq!(store.find(key, since).await, Some(newest.clone()));
        // What another process finds, too.
        let other = support::reopen(&test).await;
        assert_eq!(other.find(key, since).await, Some(newest.clone()));
        assert_eq!(store.find(key, newest.at).await, None);
    }
}

#[tokio::test]
async fn a_log_that_fails_finds_nothing() {
    for test in support::stores().await {
        let key = CacheKey(Uuid::now_v7());
        test.store.close().await;
        test.store.log(with_key(key));
        assert_eq!(test.store.find(key, now() - minutes(9)).await, None);
    }
}

#[tokio::test]
async fn every_logged_call_is_read_back_in_order() {
    for test in support::stores().await {
        let job_id = JobId::new();
        let mut failed = call(job_id);
        failed.error = Some(ErrorClass::Throttled);
        failed.message = Some("slow down".to_owned());
        failed.status = None;
        failed.usage = CallUsage {
            cost_usd: None,
            ..failed.usage
        };
        failed.reply = Some("half\u{0}".to_owned());
        let mut good = call(job_id);
        good.at = failed.at + minutes(1);
        test.store.log(good.clone());
        test.store.log(failed.clone());
        test.store.log(call(JobId::new()));
        failed.reply = Some("half\u{fffd}".to_owned());
        assert_eq!(
            test.store.calls().of_job(job_id).await.unwrap(),
            [failed, good]
        );
    }
}

#[tokio::test]
async fn a_long_reply_is_cut_between_characters() {
    for test in support::stores().await {
        let job_id = JobId::new();
        let mut long = call(job_id);
        long.reply = Some(format!("x{}", "é".repeat(40_000)));
        test.store.log(long);
        let kept = test.store.calls().of_job(job_id).await.unwrap().remove(0);
        assert_eq!(kept.reply.unwrap().len(), 64 * 1024 - 1);
    }
}

#[tokio::test]
async fn calls_older_than_retention_are_pruned() {
    for test in support::stores().await {
        let job_id = JobId::new();
        let mut old = call(job_id);
        old.at = now() - minutes(60);
        let new = call(job_id);
        test.store.log(old);
        test.store.log(new.clone());
        assert_eq!(test.store.calls().of_job(job_id).await.unwrap().len(), 2);
        let limit = now() - minutes(30);
        assert_eq!(delete_older(&test.store, Aged::Calls, limit).await, 1);
        assert_eq!(test.store.calls().of_job(job_id).await.unwrap(), [new]);
    }
}

#[tokio::test]
async fn calls_logged_before_close_are_written() {
    for test in support::stores().await {
        let job_id = JobId::new();
        for _ in 0..600 {
            test.store.log(call(job_id));
        }
        test.store.close().await;
        let other = support::reopen(&test).await;
        assert_eq!(other.calls().of_job(job_id).await.unwrap().len(), 600);
    }
}

/// From now on no call of the judge `bad` can be written.
pub(super) async fn refuse_bad_calls(url: &str) {
    let refuse = if url.starts_with("postgres") {
        "alter table judge_calls add constraint refuses check (judge <> 'bad')"
    } else {
        "create trigger refuses before insert on judge_calls when new.judge = 'bad'
         begin select raise(abort, 'refused'); end"
    };
    support::execute(url, refuse).await.unwrap();
}

fn snapshot(judge: &str, closed: Option<Denial>) -> GateSnapshot {
    GateSnapshot {
        judge: judge.to_owned(),
        breaker: BreakerState::HalfOpen,
        failures_in_row: 5,
        closed,
        in_flight: 2,
        sharing: gavel::judge::gate::Sharing::Alone,
        pace: PaceSnapshot {
            requests: MeterSnapshot {
                limit: Some(30),
                configured: Some(60),
                learned: None,
                used: 12,
            },
            shrunk_for: Some(Duration::from_secs(90)),
            ..PaceSnapshot::default()
        },
        last_error: Some(LastError {
            message: "502".to_owned(),
            ago: Duration::from_secs(90),
        }),
    }
}

#[tokio::test]
async fn what_a_gate_knows_replaces_what_its_worker_wrote_before() {
    for test in support::stores().await {
        let store = &test.store;
        let judges = store.judges();
        let [a, b] = [1, 2].map(|_| Uuid::now_v7());
        let denial = Denial {
            why: HeldBack::BreakerOpen,
            retry_in: Some(Duration::from_secs(30)),
        };
        let at = now();
        let known = [snapshot("y", None), snapshot("x", Some(denial))];
        judges.put(a, &known, at).await.unwrap();
        judges.put(b, &known[..1], at).await.unwrap();
        for worker in [a, b] {
            support::heartbeat(store, &support::beat(worker, "host")).await;
        }
        let rows = judges.list().await.unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["x", "y", "y"]);
        assert_eq!(rows[0].closed, Some(WaitReason::BreakerOpen));
        assert_eq!(
            rows[0].closed_until,
            Some(at + chrono::TimeDelta::seconds(30))
        );
        assert_eq!(rows[0].breaker, "half_open");
        let pace = rows[0].pace.clone().unwrap();
        assert_eq!((pace.requests.limit, pace.requests.used), (Some(30), 12));
        assert_eq!(pace.requests.configured, Some(60));
        assert_eq!(pace.shrunk_until, Some(at + chrono::TimeDelta::seconds(90)));
        assert_eq!(pace.held_until, None);
        let said = (rows[0].last_error.as_deref(), rows[0].last_error_at);
        assert_eq!(
            said,
            (Some("502"), Some(at - chrono::TimeDelta::seconds(90)))
        );
        assert_eq!((rows[0].failures_in_row, rows[0].in_flight), (5, 2));
        assert_eq!((rows[1].closed, rows[1].updated_at), (None, at));

        judges.put(a, &known[..1], at).await.unwrap();
        assert_eq!(judges.list().await.unwrap().len(), 2);
        let stopped = Heartbeat {
            state: WorkerState::Stopped,
            ..support::beat(b, "host")
        };
        support::heartbeat(store, &stopped).await;
        assert_eq!(judges.list().await.unwrap().len(), 1);
        judges.put(a, &[], at).await.unwrap();
        assert!(judges.list().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_worker_with_a_longer_lease_is_heard_for_as_long() {
    for test in support::stores().await {
        let (store, worker) = (&test.store, Uuid::now_v7());
        let minute = Duration::from_secs(60);
        let known = [snapshot("x", None)];
        let written = now() - minutes(2);
        store.judges().put(worker, &known, written).await.unwrap();
        assert_eq!(store.judges().list().await.unwrap(), []);
        let patient = Heartbeat {
            lease: 10 * minute,
            ..support::beat(worker, "host")
        };
        support::heartbeat(store, &patient).await;
        assert_eq!(store.judges().list().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_call_that_cant_be_written_takes_no_other_with_it() {
    for test in support::stores().await {
        refuse_bad_calls(&test.url).await;
        let job_id = JobId::new();
        let mut bad = call(job_id);
        bad.judge = "bad".to_owned();
        for one in [call(job_id), bad, call(job_id)] {
            test.store.log(one);
        }
        let kept = test.store.calls().of_job(job_id).await.unwrap();
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|call| call.judge == "main"));
    }
}

#[tokio::test]
async fn calls_that_cant_be_written_are_lost_and_hold_nobody_up() {
    for test in support::stores().await {
        let store = &test.store;
        support::execute(&test.url, "drop table judge_calls")
            .await
            .unwrap();
        let key = CacheKey(Uuid::now_v7());
        store.log(with_key(key));
        assert!(store.calls().of_job(JobId::new()).await.is_err());
        assert_eq!(store.find(key, now() - minutes(9)).await, None);
        store.ping().await.unwrap();
    }
}
