//! Source polled by apalis: a channel of deliveries that ends with the shutdown.
//!
//! It yields no errors, because apalis would stop the worker on an error and drop the running handlers.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apalis_core::backend::finalize::Ephemeral;
use apalis_core::backend::{Backend, BackendConfig};
use apalis_core::task::Task;
use apalis_core::task::task_id::RandomId;
use apalis_core::worker::context::WorkerContext;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::layer::util::Identity;

use super::slots::Delivery;

/// Deliveries that no handler has started. At shutdown, the fetcher takes back the rest.
pub(super) type Unstarted<Item> = Arc<Mutex<mpsc::Receiver<Delivery<Item>>>>;

pub(super) struct Source<Item> {
    unstarted: Unstarted<Item>,
    stop: CancellationToken,
    fetched: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<Item> Source<Item> {
    /// Starts no more deliveries once `stop` is cancelled, and ends when the fetcher has ended as well.
    pub(super) fn new(
        unstarted: Unstarted<Item>,
        stop: CancellationToken,
        fetched: CancellationToken,
    ) -> Self {
        Self {
            unstarted,
            stop,
            fetched: Box::pin(fetched.cancelled_owned()),
        }
    }
}

impl<Item: Send + 'static> Backend for Source<Item> {
    type Task = Task<Delivery<Item>>;
    type Error = Infallible;

    fn poll_ready(
        &mut self,
        _cx: &mut Context<'_>,
        _worker: &WorkerContext,
    ) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        _worker: &WorkerContext,
    ) -> Poll<Option<Result<Self::Task, Self::Error>>> {
        if self.stop.is_cancelled() {
            return self.fetched.as_mut().poll(cx).map(|()| None);
        }
        let mut unstarted = self.unstarted.lock();
        unstarted
            .poll_recv(cx)
            .map(|delivery| delivery.map(|delivery| Ok(Task::new(delivery))))
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Result<(), Self::Error>> {
        self.stop.cancel();
        if self.fetched.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if let Err(error) = worker.stop() {
            tracing::debug!(%error, "the worker was stopped already");
        }
        Poll::Ready(Ok(()))
    }
}

impl<Item: Send + 'static> BackendConfig for Source<Item> {
    type Args = Delivery<Item>;
    type Id = RandomId;
    type Kind = Ephemeral;
    type Config = ();
    type Layer = Identity;

    fn config(&self) -> &Self::Config {
        &()
    }

    fn middleware(&mut self, _worker: &mut WorkerContext) -> Self::Layer {
        Identity::new()
    }
}
