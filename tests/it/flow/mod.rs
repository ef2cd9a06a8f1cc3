//! The entire program in one process: POST to score, with a scripted judge.
//!
//! Each rule is tested on SQLite, and on Postgres with Redis if configured.

mod asking;
mod backlog_stops;
mod backlogs;
mod batches;
mod breaker;
mod cancelling;
mod caps;
mod draining;
mod evaluate;
mod events;
mod exports;
mod fallback;
mod holds;
mod hostile;
mod importing;
mod judge_errors;
mod on_demand;
mod pacing;
mod provider_batch_stops;
mod provider_batches;
mod pruning;
mod qas;
mod refused_end;
mod replies;
mod rescoring;
mod reviews;
mod score_query;
mod sql_metrics;
mod statements;
mod webhooks;
mod window;

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::client::id_of;
use crate::support::wait::stays;
use crate::support::world::World;

/// Enqueues a case of this kind; returns its ended job.
async fn ended_case(world: &World, kind: &str, payload: Value) -> Value {
    let body = json!({ "kind": kind, "payload": payload });
    let answer = world.api.post_json("/api/v1/jobs", body).await;
    world.api.ended(id_of(&answer.expect(202)["job_id"])).await
}

/// Enqueues a case while its judge is down; returns its job's id and its incomplete result.
async fn incomplete_case(world: &World, kind: &str, payload: Value) -> (Uuid, Value) {
    let job = ended_case(world, kind, payload).await;
    let ended = (&job["state"], &job["error"]["class"]);
    assert_eq!(ended, (&json!("failed"), &json!("transient")), "{job:#}");
    assert_eq!(job["result"]["status"], "incomplete", "{job:#}");
    (id_of(&job["job_id"]), job["result"].clone())
}

/// Asserts that the judge gets no further calls, and that this job stays queued for this reason.
async fn stays_queued(world: &World, calls: usize, job: Uuid, reason: &str) {
    stays(Duration::from_millis(1_200), "nothing is asked", || async {
        world.judge.count() == calls
    })
    .await;
    let held = world.api.job(job).await;
    assert_eq!(held["state"], "queued", "{held:#}");
    assert_eq!(held["wait"]["reason"], reason, "{held:#}");
}

/// Turns each `async fn name(home: Home)` of a module into one test per set-up.
macro_rules! on_every_setup {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::support::home::Home::embedded()).await;
            })+
        }

        mod shared {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                match $crate::support::home::Home::shared().await {
                    Some(home) => super::$name(home).await,
                    None => eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers"),
                }
            })+
        }
    };
}
use on_every_setup;
