//! Connection limits and timeouts. At a limit, a connection without an active request, or one with a slow client, is
//! closed for a new one, so that slow and idle clients can't block others. Handlers limit their time themselves.
//!
//! HTTP/1.1 only, which every proxy supports: a connection has at most one active request, so that it is either slow or not.

mod activity;

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{ServiceExt as _, service_fn};
use tower_http::timeout::TimeoutBody;

use self::activity::{Activity, AwaitedBody, Sending, split_body};
use crate::config::HttpSettings;

/// Returns the number of connections accepted in addition to connections with a request permit. Probes among them are served, other
/// requests rejected. Lower if the descriptor limit allows only few requests.
fn probe_connections(max_requests: usize) -> usize {
    max_requests.min(32)
}

/// Timeout of a response without progress. Responses may be slow to produce: a statement runs up to one minute and is retried once.
const STALLED_AFTER: Duration = Duration::from_secs(180);
/// A client that reads nothing for this long can be evicted. Event streams send something every 15 s.
const SLOW_AFTER: Duration = Duration::from_secs(20);
/// A client without a request for this long can be evicted. New or just served clients are about to send one.
const IDLE_AFTER: Duration = Duration::from_secs(1);
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of eviction requests during that time, because a notified client may have made progress.
const PERMIT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout for the rest of a response on shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay of accepting after a failure, such as no free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum buffered bytes of a request head. Larger than the guard's limit, so that the guard can reject with an explanation.
const MAX_HEAD_BYTES: usize = 64 << 10;

pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
}

/// Marks a request that is rejected because this number of requests is active.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtCapacity(pub(super) usize);

/// Serves `listener` until `stop`. Returns when the active requests have ended.
pub(crate) async fn answer(
    listener: TcpListener,
    router: Router,
    http: &HttpSettings,
    stop: CancellationToken,
) {
    let limits = Arc::new(ConnectionLimits::new(http));
    let connections = TaskTracker::new();
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => break,
            taken = limits.accept(&listener) => taken,
        };
        if let Some((stream, peer, place)) = taken {
            let serving = serve(
                limits.clone(),
                stream,
                place,
                stop.clone(),
                (router.clone(), peer),
            );
            connections.spawn(serving);
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

#[derive(Debug)]
struct ConnectionLimits {
    max: usize,
    places: Arc<Semaphore>,
    /// Permits for active requests. Probes don't need one.
    requests: Arc<Semaphore>,
    /// Wakes the longest idle connection to close it.
    evict_idle: Notify,
    /// Number of new connections that need a place.
    pending_connections: Arc<AtomicUsize>,
    /// Wakes the slowest client with a permit without progress, to close it.
    evict_slow: Notify,
    /// Number of such slow clients.
    slow: Arc<AtomicUsize>,
    /// Number of requests that wait for one of them.
    waiting: Arc<AtomicUsize>,
    /// Timeout of the first request head.
    header: Duration,
    /// Timeout between two requests.
    idle: Duration,
    /// Timeout between two chunks of a body.
    body: Duration,
}

type ConnectionPermit = OwnedSemaphorePermit;

impl ConnectionLimits {
    fn new(http: &HttpSettings) -> Self {
        Self {
            max: http.max_connections,
            places: Arc::new(Semaphore::new(
                http.max_connections + probe_connections(http.max_connections),
            )),
            requests: Arc::new(Semaphore::new(http.max_connections)),
            evict_idle: Notify::new(),
            pending_connections: Arc::default(),
            evict_slow: Notify::new(),
            slow: Arc::default(),
            waiting: Arc::default(),
            header: Duration::from_secs(http.header_timeout_s),
            idle: Duration::from_secs(http.idle_timeout_s),
            body: Duration::from_secs(http.body_timeout_s),
        }
    }

    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr, ConnectionPermit)> {
        match listener.accept().await {
            Ok((stream, peer)) => Some((stream, peer, self.connection_permit().await.ok()?)),
            Err(error) => {
                tracing::warn!(%error, "connection rejected");
                let _need = EvictionRequest::new(self);
                sleep(ACCEPT_RETRY_DELAY).await;
                None
            }
        }
    }

    /// Returns a permit for a connection. At the limit, it evicts the longest idle connection. More connections than requests are allowed.
    async fn connection_permit(&self) -> Result<ConnectionPermit, AcquireError> {
        let _need = (self.places.available_permits() == 0).then(|| EvictionRequest::new(self));
        self.places.clone().acquire_owned().await
    }

    /// Returns a request permit. Without a free one, it evicts the slowest client. Returns `None` immediately without
    /// slow clients, because the remaining connections are for probes.
    async fn request_permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.requests.clone().try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = CountGuard::new(&self.waiting);
        if self.waiting.load(Ordering::SeqCst) > self.slow.load(Ordering::SeqCst) {
            return None;
        }
        let asking = async {
            loop {
                self.evict_slow.notify_one();
                sleep(PERMIT_RETRY_INTERVAL).await;
            }
        };
        let permit = tokio::select! {
            biased;
            permit = self.requests.clone().acquire_owned() => permit.ok(),
            () = sleep(PERMIT_TIMEOUT) => None,
            never = asking => never,
        };
        // Consume an unused signal, otherwise the next slow client would be closed without need.
        let _ = self.evict_slow.notified().now_or_never();
        permit
    }

    /// Returns when a silent connection must be closed. Ignores outdated signals.
    async fn eviction_needed(&self, holds_permit: bool) {
        loop {
            let is_needed = tokio::select! {
                () = self.evict_idle.notified() => self.pending_connections.load(Ordering::SeqCst) > 0,
                () = self.evict_slow.notified(), if holds_permit => self.requests.available_permits() == 0,
            };
            if is_needed {
                return;
            }
        }
    }

    /// Returns when a connection has timed out or is evicted.
    async fn wait_until_closed(&self, mut activity: watch::Receiver<Activity>) {
        let mut until_request = self.header;
        loop {
            let now = *activity.borrow_and_update();
            let ends = async {
                let (longest, gives_way_after) = match now {
                    Activity::Handled => pending().await,
                    Activity::Sent => (STALLED_AFTER, SLOW_AFTER),
                    // The body's reader limits its total time.
                    Activity::Awaited => (STALLED_AFTER, IDLE_AFTER),
                    Activity::Idle => (until_request, IDLE_AFTER),
                };
                let evict_idle = async {
                    let _sends = (now == Activity::Awaited).then(|| CountGuard::new(&self.slow));
                    sleep(gives_way_after).await;
                    let _takes = (now == Activity::Sent).then(|| CountGuard::new(&self.slow));
                    self.eviction_needed(now != Activity::Idle).await;
                };
                tokio::select! {
                    () = sleep(longest) => {}
                    () = evict_idle => {}
                }
            };
            tokio::select! {
                biased;
                _ = activity.changed() => until_request = self.idle,
                () = ends => return,
            }
        }
    }
}

/// Requests the eviction of an idle connection until dropped.
struct EvictionRequest {
    _one: CountGuard,
}

impl EvictionRequest {
    fn new(limits: &ConnectionLimits) -> Self {
        let one = CountGuard::new(&limits.pending_connections);
        limits.evict_idle.notify_one();
        Self { _one: one }
    }
}

/// Increments a counter until dropped.
struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(all.clone())
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Handles one request. The permit is held until the response is sent.
async fn handle(
    limits: &ConnectionLimits,
    mut request: Request,
    router: Router,
    activity: Arc<watch::Sender<Activity>>,
) -> Response {
    let is_probe = is_probe(request.uri().path());
    let permit = match is_probe {
        true => limits.requests.clone().try_acquire_owned().ok(),
        false => limits.request_permit().await,
    };
    let is_refused = permit.is_none() && !is_probe;
    if is_refused {
        request.extensions_mut().insert(AtCapacity(limits.max));
    }
    let mut response = match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if is_refused {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    let sending = Sending::new(activity);
    response.map(|body| {
        Body::new(split_body(body).map_frame(move |frame| {
            let _ = &permit;
            sending.record_progress();
            frame
        }))
    })
}

/// Serves one connection until it ends.
async fn serve(
    limits: Arc<ConnectionLimits>,
    stream: TcpStream,
    _place: ConnectionPermit,
    stop: CancellationToken,
    (router, peer): (Router, SocketAddr),
) {
    let activity = Arc::new(watch::Sender::new(Activity::default()));
    let (asked, asked_in) = (activity.clone(), limits.clone());
    let service = service_fn(move |request: axum::http::Request<_>| {
        asked.send_replace(Activity::Handled);
        let (limits, router, activity) = (asked_in.clone(), router.clone(), asked.clone());
        let body_timeout = limits.body;
        let mut request: Request = request.map(|body| {
            let body = Body::new(TimeoutBody::new(body_timeout, body));
            Body::new(AwaitedBody::new(body, activity.clone()))
        });
        request.extensions_mut().insert(ConnectInfo(peer));
        async move { Ok::<_, Infallible>(handle(&limits, request, router, activity).await) }
    });
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let service = TowerToHyperService::new(service);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        // Errors of the client are ignored.
        _ = serving.as_mut() => return,
        () = limits.wait_until_closed(activity.subscribe()) => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let mut under_way = activity.subscribe();
    let ended = async {
        let is_idle = |at: &Activity| *at == Activity::Idle;
        under_way.wait_for(is_idle).await.is_ok()
    };
    tokio::select! {
        biased;
        _ = serving.as_mut() => {}
        _ = ended => {
            // The rest of the last response may still be sending.
            timeout(CLOSE_TIMEOUT, serving).await.ok();
        }
    }
}

#[cfg(test)]
mod tests;
