//! The whole program in one process: POST to score, with a judge that answers as the test says.
//!
//! Every rule is tested on SQLite with the in-process queue, and on Postgres with Redis where there are servers.

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

/// Makes each `async fn name(home: Home)` of a module into a test per set-up.
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
