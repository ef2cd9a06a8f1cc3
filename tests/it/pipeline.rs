//! One run of one job: the result of each error before the judge call.

use std::sync::Arc;

use chrono::Utc;
use gavel::clock::SystemClock;
use gavel::job::{FailureClass, Job, NewJob, WaitReason};
use gavel::judge::gate::{Gate, GateOptions};
use gavel::judge::{Judges, Providers};
use gavel::score::Criteria;
use gavel::store::{Accepted, Ending, Recorded, Store};
use gavel::worker::process::Pipeline;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support;
use crate::support::sessions::session;

/// Pipeline with an unreachable judge: these runs end before the call.
struct Bench {
    test: support::TestStore,
    pipeline: Pipeline,
    worker: Uuid,
    criteria: Criteria,
}

impl Bench {
    async fn all() -> Vec<Self> {
        let mut benches = Vec::new();
        for test in support::stores().await {
            let content = json!({
                "scoring": { "llm_provider": "nowhere" },
                "judge_prompt": "{{SESSION_CONVERSATION}} {{ALERT_DATA}} {{OUTPUT_SCHEMA}}",
            });
            let criteria = Criteria::from_value(&content).unwrap();
            put(&test.store, &criteria).await;
            let worker = Uuid::now_v7();
            benches.push(Self {
                pipeline: pipeline(&test.store, worker),
                criteria,
                worker,
                test,
            });
        }
        benches
    }

    fn store(&self) -> &Arc<Store> {
        &self.test.store
    }

    /// Claimed job for a stored session under stored criteria, as modified by `change`.
    async fn job(&self, change: impl FnOnce(&mut NewJob)) -> Job {
        let session_id = self.session(session()).await;
        let options = support::in_bulk("tester");
        let mut new = NewJob {
            criteria_hash: self.criteria.hash.0.clone(),
            ..NewJob::of_session(session_id, "nowhere".to_owned(), options, Utc::now())
        };
        change(&mut new);
        let id = new.job_id;
        assert_eq!(
            self.store().jobs().accept(new).await.unwrap(),
            Accepted::New
        );
        let claimed = self
            .store()
            .jobs()
            .claim(&[id], self.worker, Utc::now())
            .await;
        claimed.unwrap().remove(0)
    }

    async fn session(&self, body: Value) -> Uuid {
        let id = Uuid::now_v7();
        let input = gavel::history::ingest::SessionInput::from_json(&body.to_string()).unwrap();
        let record = input.into_record(id, "test").unwrap();
        self.store()
            .sessions()
            .put(&record, Utc::now())
            .await
            .unwrap();
        id
    }

    async fn failure(&self, change: impl FnOnce(&mut NewJob)) -> (FailureClass, String) {
        let job = self.job(change).await;
        failure(self.pipeline.process(&job).await.ending)
    }
}

fn pipeline(store: &Arc<Store>, worker: Uuid) -> Pipeline {
    let entry = json!({ "nowhere": {
        "type": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m", "auth": "none",
    }});
    let providers = Providers::from_value(&entry, &|_| Err("none".to_owned())).unwrap();
    let gate = Arc::new(Gate::new(GateOptions::default()));
    let judges = Judges::new(&providers, gate, store.clone());
    Pipeline::new(
        Arc::clone(store),
        Arc::new(judges),
        Arc::new(SystemClock),
        worker,
        gavel::worker::ConcurrencyPermits::new(1, gavel::queue::backend::Prefetch::default()),
        gavel::memory::MemoryBudget::new(512 << 20),
    )
}

async fn put(store: &Store, criteria: &Criteria) {
    store.criteria().put(criteria, Utc::now()).await.unwrap();
}

fn failure(ending: Ending) -> (FailureClass, String) {
    match ending {
        Ending::Failed(failure) => (failure.class, failure.message),
        other @ (Ending::Scored { .. }
        | Ending::Evaluated { .. }
        | Ending::Waiting { .. }
        | Ending::Requeued
        | Ending::NotStarted) => panic!("expected a failure, got {other:?}"),
    }
}

#[tokio::test]
async fn missing_data_of_a_job_fails_it_with_a_reason() {
    for bench in Bench::all().await {
        let unknown = "f".repeat(64);
        let (class, reason) = bench
            .failure(|job| job.criteria_hash = unknown.clone())
            .await;
        assert_eq!(class, FailureClass::BadInput);
        assert!(reason.contains(&unknown), "{reason}");

        let odd = "e".repeat(64);
        let mut broken = bench.criteria.clone();
        broken.hash.0.clone_from(&odd);
        broken.content = json!({ "scoring": 1 });
        put(bench.store(), &broken).await;
        let (class, reason) = bench.failure(|job| job.criteria_hash = odd.clone()).await;
        assert_eq!(class, FailureClass::BadInput);
        assert!(reason.contains("expected a map"), "{reason}");

        let gone = Uuid::now_v7();
        let (class, reason) = bench.failure(|job| job.subject_id = Some(gone)).await;
        assert_eq!(class, FailureClass::BadInput);
        assert!(reason.contains("no longer stored"), "{reason}");

        let (class, _) = bench.failure(|job| job.subject_id = None).await;
        assert_eq!(class, FailureClass::Internal);

        let (class, reason) = bench.failure(|job| job.judge = None).await;
        assert_eq!(class, FailureClass::BadInput);
        assert!(reason.contains("names no judge"), "{reason}");

        let (class, reason) = bench
            .failure(|job| job.judge = Some("moon".to_owned()))
            .await;
        assert_eq!(class, FailureClass::Misconfigured);
        assert!(reason.contains("moon"), "{reason}");

        let mut silent = session();
        silent["conversation"] = json!([]);
        let silent = bench.session(silent).await;
        let (class, reason) = bench.failure(|job| job.subject_id = Some(silent)).await;
        assert_eq!(class, FailureClass::BadInput);
        assert!(reason.contains("/conversation"), "{reason}");
    }
}

#[tokio::test]
async fn unavailable_store_delays_a_run_and_uses_no_retry() {
    for bench in Bench::all().await {
        let job = bench.job(|_| ()).await;
        // The criteria are cached now, so the session can't be read.
        let other = bench.job(|job| job.judge = None).await;
        bench.pipeline.process(&other).await;
        let fresh = pipeline(bench.store(), bench.worker);
        bench.store().close().await;
        for pipeline in [&bench.pipeline, &fresh] {
            let record = pipeline.process(&job).await;
            let Ending::Waiting { wait, due_at } = record.ending else {
                panic!("expected a wait");
            };
            assert_eq!(wait.reason, WaitReason::Storage);
            assert_eq!(wait.until, Some(due_at));
            assert_eq!((record.retries, record.usage.tokens_in), (0, 0));
        }
    }
}

#[tokio::test]
async fn unreadable_session_fails_its_job_as_internal() {
    for bench in Bench::all().await {
        let job = bench.job(|_| ()).await;
        let break_it = "update alert_sessions set conversation = '{\"no\": \"list\"}'";
        support::execute(&bench.test.url, break_it).await.unwrap();
        let (class, reason) = failure(bench.pipeline.process(&job).await.ending);
        assert_eq!(class, FailureClass::Internal);
        assert!(reason.contains("conversation"), "{reason}");
    }
}

#[tokio::test]
async fn panicked_run_fails_and_released_run_is_requeued() {
    for bench in Bench::all().await {
        let job = bench.job(|_| ()).await;
        let back = bench.pipeline.given_back(&job);
        assert!(matches!(back.ending, Ending::Requeued));
        let record = bench.pipeline.panicked(&job);
        let ticket = bench.store().jobs().record(record).await.unwrap();
        assert_eq!(ticket.committed().await.unwrap(), Recorded::Applied);
        let ended = bench.store().jobs().get(job.job_id).await.unwrap().unwrap();
        assert_eq!(ended.failure.unwrap().class, FailureClass::Internal);
    }
}
