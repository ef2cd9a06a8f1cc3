//! Runs the parts of a process: the API, the worker with its health port, imports.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::open::{kept, process_name, webhook_options};
use super::{App, AppError, Mode, Stop, metrics};
use crate::api;
use crate::dashboard;
use crate::events::follow;
use crate::history::imports::Whose;
use crate::worker::{self, ProviderBatchOptions, WorkerOptions, WorkerParts};

/// Worker deaths with a suspect job active after which the job fails as `poison`. A job becomes a suspect after two worker deaths.
const MAX_SUSPECT_DEATHS: i32 = 3;
/// Maximum bulk ids per lane in the queue; the rest of a backlog stays in the database until the next check, a second later. All workers
/// together finish fewer jobs in that time.
const BULK_WINDOW: usize = 10_000;

impl App {
    /// Serves HTTP on `listener` until `stop.soft` plus the drain delay. Open requests finish until `stop.hard`.
    pub async fn serve(&self, listener: TcpListener, stop: Stop) -> Result<(), AppError> {
        let bind = listener
            .local_addr()
            .map_err(|error| AppError::Broken(error.to_string()))?;
        let state = self.api_state(bind, stop.soft.clone());
        let pages = dashboard::pages(dashboard::About {
            clock: self.clock.clone(),
            settings: self.settings.shown.clone(),
        });
        let leaving = api::Leaving {
            draining: stop.soft.clone(),
            answers_on: self.answers_on(),
        };
        let ended = CancellationToken::new();
        let following = async {
            if let Some(stream) = self.stream.clone() {
                follow(stream, self.feed.clone(), ended.clone()).await;
            }
        };
        let serving = async {
            let served = tokio::select! {
                served = api::serve(listener, state, pages, leaving) => served.map_err(AppError::Config),
                () = stop.hard.cancelled() => Ok(()),
            };
            ended.cancel();
            served
        };
        let (served, ()) = tokio::join!(Box::pin(serving), Box::pin(following));
        served
    }

    /// Returns the time for which a stopping API still answers. Zero for `up`, because it has no load balancer.
    pub fn answers_on(&self) -> Duration {
        match self.mode {
            Mode::Embedded { .. } => Duration::ZERO,
            Mode::Shared => Duration::from_secs(self.settings.http.drain_delay_s),
        }
    }

    /// Runs jobs until `stop.soft`, then drains until `stop.hard` or the drain timeout.
    pub async fn work(&self, stop: Stop) -> Result<(), AppError> {
        let parts = WorkerParts {
            store: self.store.clone(),
            queue: self.queue.clone(),
            judges: self.judges.clone(),
            gate: self.gate.clone(),
            clock: self.clock.clone(),
            events: self.events.clone(),
            memory: self.memory.clone(),
            judge_names: self.askable_judges(),
            published_judges: self.providers.askable(),
        };
        let worker = &self.settings.worker;
        let worker_id = Uuid::now_v7();
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker_id);
        let options = WorkerOptions {
            worker_id,
            name: process_name(),
            concurrency: worker.concurrency,
            drain_timeout: Duration::from_secs(worker.drain_timeout_s),
            max_attempts: MAX_SUSPECT_DEATHS,
            max_wait: Duration::from_secs(worker.max_wait_s),
            bulk_window: BULK_WINDOW,
            provider_batches: ProviderBatchOptions {
                chunk: worker.economy_part,
                poll: Duration::from_secs_f64(worker.economy_poll_s),
            },
            kept: kept(&self.settings.retention),
            caps: self.caps.clone(),
            webhooks: webhook_options(&self.settings),
        };
        worker::run(parts, options, stop.soft, stop.hard)
            .await
            .map_err(|error| AppError::Broken(error.to_string()))
    }

    /// Serves probes and metrics on the worker's port while `working` runs, so until the last result is recorded.
    pub async fn with_worker_health<T>(
        &self,
        listener: Option<TcpListener>,
        draining: CancellationToken,
        working: impl Future<Output = T>,
    ) -> T {
        let Some(listener) = listener else {
            return working.await;
        };
        let worker = self.worker.clone();
        let parts = api::WorkerHealthParts {
            store: self.store.clone(),
            health: self.health(draining),
            metrics: metrics::renderer(&self.store),
            worker: Arc::new(move || *worker.lock().unwrap_or_else(PoisonError::into_inner)),
            stale_after: Duration::from_secs_f64(self.settings.worker.lease_s),
            http: self.settings.http.clone(),
            auth: self.settings.auth.clone(),
            tokens: self.tokens.clone(),
        };
        let ended = CancellationToken::new();
        let answering = async {
            let answered = api::serve_worker_health(listener, parts, ended.clone()).await;
            if let Err(error) = answered {
                tracing::error!(%error, "the worker's health port failed; the worker continues");
            }
        };
        let working = async {
            let done = working.await;
            ended.cancel();
            done
        };
        tokio::join!(working, answering).0
    }

    pub async fn import(&self, whose: Whose, stop: Stop) -> Result<(), AppError> {
        tokio::select! {
            () = self.imports.clone().run(whose, stop.soft) => {}
            // Active imports become stale, and another process takes them over.
            () = stop.hard.cancelled() => {}
        }
        Ok(())
    }
}
