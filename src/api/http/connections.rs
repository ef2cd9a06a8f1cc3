//! Connections: how many there are, and how long one may be silent. Whoever has no request under way gives way to whoever comes, and so does
//! whoever sends its body slowly: slow and forgotten connections keep nobody out. What a handler takes is its own affair.
//!
//! HTTP/1.1 alone, which every proxy speaks: a connection has one request, so that it is slow or it isn't.

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

use self::activity::{Activity, AwaitedBody, Sending, in_pieces};
use crate::config::HttpSettings;

/// So many connections are taken beyond those that may have a request under way: a probe among them is answered, anything else refused.
/// Fewer where the system's descriptors allow only few requests.
fn for_probes(max_requests: usize) -> usize {
    max_requests.min(32)
}

/// How long nothing of an answer may be taken. What makes it may be that slow: a statement takes a minute, and is tried once more.
const STALLED_AFTER: Duration = Duration::from_secs(180);
/// After so long a client that takes nothing gives way to others. A stream of events says something every 15 s.
const SLOW_AFTER: Duration = Duration::from_secs(20);
/// After so long a client without any request gives way to others: one that has just come, or just been answered, is about to ask.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// How long a request waits for somebody to give way to it.
const WAITS_FOR_LEAVE: Duration = Duration::from_secs(2);
/// How often it asks for that meanwhile: whoever was asked may have gone on.
const ASKS_EVERY: Duration = Duration::from_millis(50);
/// How long the rest of an answer may take when the service stops.
const CLOSING: Duration = Duration::from_secs(1);
/// How long nothing is taken when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);
/// What one connection holds of a head at most. The guard refuses heads that are shorter than this, and says so.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Whether somebody asks how the process is.
pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
}

/// So many requests are under way that this one is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverFull(pub(super) usize);

/// Answers on `listener` until `stop`; returns when the requests that are under way have ended.
pub(crate) async fn answer(
    listener: TcpListener,
    router: Router,
    http: &HttpSettings,
    stop: CancellationToken,
) {
    let room = Arc::new(Room::new(http));
    let connections = TaskTracker::new();
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => break,
            taken = room.take(&listener) => taken,
        };
        if let Some((stream, peer, place)) = taken {
            let serving = serve(
                room.clone(),
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

/// The places for connections, and how long one of them may be silent.
#[derive(Debug)]
struct Room {
    max: usize,
    places: Arc<Semaphore>,
    /// Leave to have a request under way, which probes don't need.
    requests: Arc<Semaphore>,
    /// Wakes the connection that has been silent for the longest time, to close it.
    gives_way: Notify,
    /// How many new connections need a place.
    in_need: Arc<AtomicUsize>,
    /// Wakes the slowest client that holds a leave, and neither sends its body nor takes its answer, to close it.
    gives_leave: Notify,
    /// How many of those there are.
    slow: Arc<AtomicUsize>,
    /// How many requests wait for one of them.
    waiting: Arc<AtomicUsize>,
    /// Until the first request is there.
    header: Duration,
    /// Between two requests.
    idle: Duration,
    /// Between two pieces of a body.
    body: Duration,
}

type ConnectionPermit = OwnedSemaphorePermit;

impl Room {
    fn new(http: &HttpSettings) -> Self {
        Self {
            max: http.max_connections,
            places: Arc::new(Semaphore::new(
                http.max_connections + for_probes(http.max_connections),
            )),
            requests: Arc::new(Semaphore::new(http.max_connections)),
            gives_way: Notify::new(),
            in_need: Arc::default(),
            gives_leave: Notify::new(),
            slow: Arc::default(),
            waiting: Arc::default(),
            header: Duration::from_secs(http.header_timeout_s),
            idle: Duration::from_secs(http.idle_timeout_s),
            body: Duration::from_secs(http.body_timeout_s),
        }
    }

    async fn take(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr, ConnectionPermit)> {
        match listener.accept().await {
            Ok((stream, peer)) => Some((stream, peer, self.place().await.ok()?)),
            Err(error) => {
                tracing::warn!(%error, "a connection was not taken");
                let _need = Need::new(self);
                sleep(REST).await;
                None
            }
        }
    }

    /// A place; where all are taken, that of whoever has been silent for the longest time. Requests take fewer than there are.
    async fn place(&self) -> Result<ConnectionPermit, AcquireError> {
        let _need = (self.places.available_permits() == 0).then(|| Need::new(self));
        self.places.clone().acquire_owned().await
    }

    /// Leave to have a request under way. Where there is none, whoever has been slow for the longest time gives way. Nobody waits where
    /// nobody is slow: the places that are left are for probes.
    async fn leave(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(leave) = self.requests.clone().try_acquire_owned() {
            return Some(leave);
        }
        let _waiting = One::new(&self.waiting);
        if self.waiting.load(Ordering::SeqCst) > self.slow.load(Ordering::SeqCst) {
            return None;
        }
        let asking = async {
            loop {
                self.gives_leave.notify_one();
                sleep(ASKS_EVERY).await;
            }
        };
        let leave = tokio::select! {
            biased;
            leave = self.requests.clone().acquire_owned() => leave.ok(),
            () = sleep(WAITS_FOR_LEAVE) => None,
            never = asking => never,
        };
        // Where nobody took the signal: the next slow client must not be closed for a need that is over.
        let _ = self.gives_leave.notified().now_or_never();
        leave
    }

    /// Waits until a silent connection is the one to give way. It may have been told so for a need that is over.
    async fn needed(&self, keeps_leave: bool) {
        loop {
            let is_needed = tokio::select! {
                () = self.gives_way.notified() => self.in_need.load(Ordering::SeqCst) > 0,
                () = self.gives_leave.notified(), if keeps_leave => self.requests.available_permits() == 0,
            };
            if is_needed {
                return;
            }
        }
    }

    /// Waits until a connection has been silent for too long, or is the one to give way.
    async fn silent(&self, mut activity: watch::Receiver<Activity>) {
        let mut until_request = self.header;
        loop {
            let now = *activity.borrow_and_update();
            let ends = async {
                let (longest, gives_way_after) = match now {
                    Activity::Handled => pending().await,
                    Activity::Sent => (STALLED_AFTER, SLOW_AFTER),
                    // How long a body may take at most is its reader's to say.
                    Activity::Awaited => (STALLED_AFTER, IDLE_AFTER),
                    Activity::Idle => (until_request, IDLE_AFTER),
                };
                let gives_way = async {
                    let _sends = (now == Activity::Awaited).then(|| One::new(&self.slow));
                    sleep(gives_way_after).await;
                    let _takes = (now == Activity::Sent).then(|| One::new(&self.slow));
                    self.needed(now != Activity::Idle).await;
                };
                tokio::select! {
                    () = sleep(longest) => {}
                    () = gives_way => {}
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

/// Somebody waits for a silent connection to end, until this goes.
struct Need {
    _one: One,
}

impl Need {
    fn new(room: &Room) -> Self {
        let one = One::new(&room.in_need);
        room.gives_way.notify_one();
        Self { _one: one }
    }
}

/// One of those that are counted, until this goes.
struct One(Arc<AtomicUsize>);

impl One {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(all.clone())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One request, which goes on until its answer is sent.
async fn handle(
    room: &Room,
    mut request: Request,
    router: Router,
    activity: Arc<watch::Sender<Activity>>,
) -> Response {
    let is_probe = is_probe(request.uri().path());
    let leave = match is_probe {
        true => room.requests.clone().try_acquire_owned().ok(),
        false => room.leave().await,
    };
    let is_refused = leave.is_none() && !is_probe;
    if is_refused {
        request.extensions_mut().insert(OverFull(room.max));
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
        Body::new(in_pieces(body).map_frame(move |frame| {
            // Kept until the answer is sent.
            let _ = &leave;
            sending.goes_on();
            frame
        }))
    })
}

/// One connection, to its end.
async fn serve(
    room: Arc<Room>,
    stream: TcpStream,
    _place: ConnectionPermit,
    stop: CancellationToken,
    (router, peer): (Router, SocketAddr),
) {
    let activity = Arc::new(watch::Sender::new(Activity::default()));
    let (asked, asked_in) = (activity.clone(), room.clone());
    let service = service_fn(move |request: axum::http::Request<_>| {
        asked.send_replace(Activity::Handled);
        let (room, router, activity) = (asked_in.clone(), router.clone(), asked.clone());
        let body_timeout = room.body;
        let mut request: Request = request.map(|body| {
            let body = Body::new(TimeoutBody::new(body_timeout, body));
            Body::new(AwaitedBody::new(body, activity.clone()))
        });
        request.extensions_mut().insert(ConnectInfo(peer));
        async move { Ok::<_, Infallible>(handle(&room, request, router, activity).await) }
    });
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let service = TowerToHyperService::new(service);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        // However it ends, it is the client's affair.
        _ = serving.as_mut() => return,
        () = room.silent(activity.subscribe()) => return,
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
            // The rest of the last answer may be on its way.
            timeout(CLOSING, serving).await.ok();
        }
    }
}

#[cfg(test)]
mod tests;
