//! Retention: a worker deletes expired rows.

use chrono::{DateTime, TimeDelta, Utc};
use gavel::job::{BatchPlace, Failure, FailureClass, JobId, Kind, NewJob, Usage};
use gavel::judge::CallLog as _;
use gavel::store::{Aged, Ending, Fence, Record, Store};
use serde_json::json;
use uuid::Uuid;

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    worker_prunes_expired_judge_calls,
    worker_deletes_expired_jobs,
    worker_waits_for_an_operator_to_delete_most_judge_calls,
    interrupted_manual_deletion_is_finished_despite_a_veto,
);

async fn worker_prunes_expired_judge_calls(mut home: Home) {
    home.set("GAVEL_RETENTION_JUDGE_CALLS_DAYS", "30");
    let mut world = World::idle(home, Reply::Score(70)).await;
    let store = world.app().store().clone();
    let [old, young] = [31, 29].map(|days| (JobId::new(), TimeDelta::days(days)));
    for (job, age) in [old, young] {
        let mut call = crate::support::call(job);
        call.at -= age;
        store.log(call);
        assert_eq!(store.calls().of_job(job).await.unwrap().len(), 1);
    }
    world.work();
    eventually(PATIENCE, "the old call is gone", || async {
        store
            .calls()
            .of_job(old.0)
            .await
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
    assert_eq!(store.calls().of_job(young.0).await.unwrap().len(), 1);
    world.end().await;
}

fn new_job(at: DateTime<Utc>) -> NewJob {
    let options = crate::support::in_bulk("tester");
    NewJob::new(Kind::Session, json!({}), options, at)
}

async fn end(store: &Store, job_id: JobId, at: DateTime<Utc>) {
    let worker_id = Uuid::now_v7();
    let claimed = store.jobs().claim(&[job_id], worker_id, Utc::now()).await;
    let claim_no = claimed.unwrap()[0].claim_no;
    let record = Record {
        fence: Fence {
            job_id,
            claim_no,
            worker_id,
        },
        ending: Ending::Failed(Failure {
            class: FailureClass::Rejected,
            message: "the judge said 418".to_owned(),
        }),
        retries: 0,
        usage: Usage::default(),
        at,
    };
    let ticket = store.jobs().record(record).await.unwrap();
    ticket.committed().await.unwrap();
}

async fn ended_batch(store: &Store, items: i64, at: DateTime<Utc>) -> (Uuid, Vec<JobId>) {
    let new = crate::support::new_batch(Kind::Session, at);
    let batch_id = new.batch_id;
    store.batches().begin(&new).await.unwrap();
    let items: Vec<NewJob> = (0..items)
        .map(|item_no| NewJob {
            batch: Some(BatchPlace { batch_id, item_no }),
            ..new_job(at)
        })
        .collect();
    store.batches().add_items(batch_id, &items).await.unwrap();
    store.batches().start(batch_id).await.unwrap();
    let items: Vec<JobId> = items.iter().map(|item| item.job_id).collect();
    for item in &items {
        end(store, *item, at).await;
    }
    let completed = store.batches().complete(batch_id, at).await;
    completed.unwrap().unwrap();
    (batch_id, items)
}

async fn interrupted_manual_deletion_is_finished_despite_a_veto(mut home: Home) {
    home.set("GAVEL_RETENTION_JOBS_DAYS", "30");
    let mut world = World::idle(home, Reply::Score(70)).await;
    let store = world.app().store().clone();
    let old = Utc::now() - TimeDelta::days(31);
    let (interrupted, hidden) = ended_batch(&store, 2, Utc::now()).await;
    let begun = "update scoring_batches set abandoned = true";
    let url = world.home.database_url();
    crate::support::execute(&url, begun).await.unwrap();
    assert!(store.batches().get(interrupted).await.unwrap().is_none());
    let (kept, items) = ended_batch(&store, 30, old).await;
    world.work();
    eventually(PATIENCE, "the hidden batch is gone", || async {
        let job = store.jobs().get(hidden[0]).await.unwrap();
        job.is_none().then_some(())
    })
    .await;
    let refused = store.retention().refused().await.unwrap();
    assert_eq!(refused[0].aged, Aged::Batches, "{refused:?}");
    assert!(store.batches().get(kept).await.unwrap().is_some());
    assert!(store.jobs().get(items[0]).await.unwrap().is_some());
    world.end().await;
}

async fn worker_deletes_expired_jobs(mut home: Home) {
    home.set("GAVEL_RETENTION_JOBS_DAYS", "30");
    let mut world = World::idle(home, Reply::Score(70)).await;
    let store = world.app().store().clone();
    let mut ended = Vec::new();
    for age in [31, 29].map(TimeDelta::days) {
        let at = Utc::now() - age;
        let new = new_job(at);
        let id = new.job_id;
        store.jobs().accept(new).await.unwrap();
        end(&store, id, at).await;
        ended.push(id);
    }
    world.work();
    eventually(PATIENCE, "the old job is gone", || async {
        store
            .jobs()
            .get(ended[0])
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    assert!(store.jobs().get(ended[1]).await.unwrap().is_some());
    world.end().await;
}

async fn worker_waits_for_an_operator_to_delete_most_judge_calls(mut home: Home) {
    home.set("GAVEL_RETENTION_JUDGE_CALLS_DAYS", "30");
    let mut world = World::idle(home, Reply::Score(70)).await;
    let store = world.app().store().clone();
    for age in [31; 30].into_iter().chain([29; 29]) {
        let mut call = crate::support::call(JobId::new());
        call.at -= TimeDelta::days(age);
        store.log(call);
    }
    assert!(store.calls().of_job(JobId::new()).await.unwrap().is_empty());
    world.work();
    let reason = eventually(PATIENCE, "retention has stopped", || async {
        let ready = world.api.get("/readyz?verbose").await.expect(200);
        let checks = ready["checks"].as_array().unwrap().clone();
        checks
            .into_iter()
            .find(|check| check["name"] == "retention")
    })
    .await;
    let reason = reason["detail"].as_str().unwrap();
    let expired = store.retention().refused().await.unwrap()[0];
    assert_eq!((expired.rows, expired.stored), (30, 59));
    for part in [
        "30 of 59 judge calls are older than",
        "`gavel prune --calls --older-than 20",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    let page = world.api.get("/system").await.expect(200);
    let page = page.as_str().unwrap();
    assert!(page.contains("30 of 59 judge calls"), "{page}");
    let stored = store.retention().expired(Aged::Calls, expired.before);
    assert_eq!(stored.await.unwrap(), expired, "nothing is deleted");
    world.end().await;
}
