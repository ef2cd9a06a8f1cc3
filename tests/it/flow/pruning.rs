//! What is past its time goes, by the worker that is there.

use chrono::TimeDelta;
use gavel::job::{Failure, FailureClass, JobId, Kind, NewJob, Usage};
use gavel::judge::CallLog as _;
use gavel::store::{Aged, Ending, Fence, Record};
use serde_json::json;
use uuid::Uuid;

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::Home;
use crate::support::judge_server::Say;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    a_worker_prunes_judge_calls_that_are_older_than_they_are_kept,
    a_worker_deletes_jobs_that_ended_before_they_are_kept,
    a_worker_that_would_delete_most_judge_calls_waits_for_an_operator,
);

async fn a_worker_prunes_judge_calls_that_are_older_than_they_are_kept(mut home: Home) {
    home.set("GAVEL_RETENTION_JUDGE_CALLS_DAYS", "30");
    let mut world = World::idle(home, Say::Score(70)).await;
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

async fn a_worker_deletes_jobs_that_ended_before_they_are_kept(mut home: Home) {
    home.set("GAVEL_RETENTION_JOBS_DAYS", "30");
    let mut world = World::idle(home, Say::Score(70)).await;
    let store = world.app().store().clone();
    let mut ended = Vec::new();
    for age in [31, 29].map(TimeDelta::days) {
        let options = crate::support::in_bulk("tester");
        let new = NewJob::new(Kind::Session, json!({}), options, chrono::Utc::now() - age);
        let (id, worker_id) = (new.job_id, Uuid::now_v7());
        store.jobs().accept(new).await.unwrap();
        let (jobs, ids) = (store.jobs(), [id]);
        let claimed = jobs.claim(&ids, worker_id, chrono::Utc::now()).await;
        let claim_no = claimed.unwrap()[0].claim_no;
        let failure = Failure {
            class: FailureClass::Rejected,
            message: "the judge said 418".to_owned(),
        };
        let record = Record {
            fence: Fence {
                job_id: id,
                claim_no,
                worker_id,
            },
            ending: Ending::Failed(failure),
            retries: 0,
            usage: Usage::default(),
            at: chrono::Utc::now() - age,
        };
        let ticket = store.jobs().record(record).await.unwrap();
        ticket.committed().await.unwrap();
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

async fn a_worker_that_would_delete_most_judge_calls_waits_for_an_operator(mut home: Home) {
    home.set("GAVEL_RETENTION_JUDGE_CALLS_DAYS", "30");
    let mut world = World::idle(home, Say::Score(70)).await;
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
