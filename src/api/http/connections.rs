//! Connections: how many there are, and how long one may be silent. Whoever has no request under way gives way to whoever comes, so
//! that slow and forgotten connections keep nobody out. What a handler takes is its own affair.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{ServiceExt as _, service_fn};
use tower_http::timeout::TimeoutBody;

use super::guard::is_probe;
use crate::config::HttpSettings;

/// So many connections are taken beyond those that may have a request under way: a probe among them is answered, anything else refused.
const FOR_PROBES: usize = 32;
/// How long nothing of an answer may be taken. What makes it may be that slow: a statement takes a minute, and is tried once more.
const STALLED_AFTER: Duration = Duration::from_secs(180);
/// After so long a client that takes nothing gives way to others. A stream of events says something every 15 s.
const SLOW_AFTER: Duration = Duration::from_secs(20);
/// How long the rest of an answer may take when the service stops.
const CLOSING: Duration = Duration::from_secs(1);
/// How long nothing is taken when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);
/// What one connection holds of a head at most. The guard refuses heads that are shorter than this, and says so.
const MAX_HEAD_BYTES: usize = 64 << 10;

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
    /// Silent connections wait for it, the one that has been silent for the longest time first: it ends.
    gives_way: Notify,
    /// Until the first request is there.
    header: Duration,
    /// Between two requests.
    idle: Duration,
    /// Between two pieces of a body.
    body: Duration,
}

type Place = OwnedSemaphorePermit;

impl Room {
    fn new(http: &HttpSettings) -> Self {
        Self {
            max: http.max_connections,
            places: Arc::new(Semaphore::new(http.max_connections + FOR_PROBES)),
            requests: Arc::new(Semaphore::new(http.max_connections)),
            gives_way: Notify::new(),
            header: Duration::from_secs(http.header_timeout_s),
            idle: Duration::from_secs(http.idle_timeout_s),
            body: Duration::from_secs(http.body_timeout_s),
        }
    }

    async fn take(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Place)> {
        match listener.accept().await {
            Ok((stream, peer)) => Some((stream, peer, self.place().await.ok()?)),
            Err(error) => {
                tracing::warn!(%error, "a connection was not taken");
                self.gives_way.notify_one();
                sleep(REST).await;
                None
            }
        }
    }

    /// A place; where all are taken, that of whoever has been silent for the longest time. Requests take fewer than there are.
    async fn place(&self) -> Result<Place, AcquireError> {
        if self.places.available_permits() == 0 {
            self.gives_way.notify_one();
        }
        self.places.clone().acquire_owned().await
    }

    /// Waits until a connection has been silent for too long, or is the one to give way.
    async fn silent(&self, mut activity: watch::Receiver<Activity>) {
        let mut until_request = self.header;
        loop {
            let now = *activity.borrow_and_update();
            let ends = async {
                let (longest, gives_way_after) = match now {
                    Activity { handled: 1.., .. } => pending().await,
                    Activity { sent: 1.., .. } => (STALLED_AFTER, SLOW_AFTER),
                    Activity { .. } => (until_request, Duration::ZERO),
                };
                let gives_way = async {
                    sleep(gives_way_after).await;
                    self.gives_way.notified().await;
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

/// What a connection is at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Activity {
    /// Requests that handlers have.
    handled: usize,
    /// Answers that are on their way to the client.
    sent: usize,
}

impl Activity {
    fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

/// A request or an answer that is counted until this goes.
struct Counted {
    activity: Arc<watch::Sender<Activity>>,
    which: fn(&mut Activity) -> &mut usize,
}

impl Counted {
    fn new(
        activity: &Arc<watch::Sender<Activity>>,
        which: fn(&mut Activity) -> &mut usize,
    ) -> Self {
        activity.send_modify(|activity| *which(activity) += 1);
        Self {
            activity: activity.clone(),
            which,
        }
    }

    /// Something goes on: a silence begins anew.
    fn goes_on(&self) {
        self.activity.send_modify(|_| {});
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.activity
            .send_modify(|activity| *(self.which)(activity) -= 1);
    }
}

/// One connection, to its end.
async fn serve(
    room: Arc<Room>,
    stream: TcpStream,
    _place: Place,
    stop: CancellationToken,
    (router, peer): (Router, SocketAddr),
) {
    let activity = Arc::new(watch::Sender::new(Activity::default()));
    let (asked, asked_in) = (activity.clone(), room.clone());
    let service = service_fn(move |request: axum::http::Request<_>| {
        let handling = Counted::new(&asked, |activity| &mut activity.handled);
        let (room, router) = (&asked_in, router.clone());
        let mut request: Request = request.map(|body| Body::new(TimeoutBody::new(room.body, body)));
        request.extensions_mut().insert(ConnectInfo(peer));
        let leave = room.requests.clone().try_acquire_owned();
        if leave.is_err() && !is_probe(request.uri().path()) {
            request.extensions_mut().insert(OverFull(room.max));
        }
        async move {
            let response = match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let sending = Counted::new(&handling.activity, |activity| &mut activity.sent);
            drop(handling);
            Ok::<_, Infallible>(response.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    // Kept until the answer is sent.
                    let _ = &leave;
                    sending.goes_on();
                    frame
                }))
            }))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(MAX_HEAD_BYTES);
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
    let ended = async { under_way.wait_for(Activity::is_idle).await.is_ok() };
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
mod tests {
    use super::*;

    fn room() -> Arc<Room> {
        let http = HttpSettings {
            max_connections: 2,
            ..super::super::body::tests::limits()
        };
        Arc::new(Room::new(&http))
    }

    /// How long after now a connection ends that nothing happens on.
    async fn ends_after(room: &Room, activity: &watch::Sender<Activity>) -> Duration {
        let begun = tokio::time::Instant::now();
        room.silent(activity.subscribe()).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_by_what_it_is_at() {
        let room = room();
        let activity = Arc::new(watch::Sender::new(Activity::default()));
        assert_eq!(ends_after(&room, &activity).await, room.header);
        let handled = async {
            let handling = Counted::new(&activity, |activity| &mut activity.handled);
            sleep(10 * STALLED_AFTER).await;
            drop(handling);
            10 * STALLED_AFTER
        };
        let (handled, ended) = tokio::join!(handled, ends_after(&room, &activity));
        assert_eq!(ended, handled + room.idle, "a handler takes what it takes");
        let sending = Counted::new(&activity, |activity| &mut activity.sent);
        assert_eq!(ends_after(&room, &activity).await, STALLED_AFTER);
        let (goes_on, ended) = tokio::join!(
            async {
                sleep(STALLED_AFTER / 2).await;
                sending.goes_on();
                STALLED_AFTER / 2
            },
            ends_after(&room, &activity)
        );
        assert_eq!(ended, goes_on + STALLED_AFTER);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_was_silent_for_the_longest_time_gives_way() {
        let room = room();
        let activity = [Activity::default(); 3].map(|at| Arc::new(watch::Sender::new(at)));
        let _busy = Counted::new(&activity[0], |activity| &mut activity.handled);
        let silent = activity.iter().map(|at| Box::pin(ends_after(&room, at)));
        let mut ended = futures::future::select_all(silent);
        for _ in 0..room.max + FOR_PROBES {
            room.place().await.unwrap().forget();
        }
        let all_wait = sleep(Duration::from_millis(10));
        tokio::select! {
            _ = &mut ended => panic!("there was room"),
            () = all_wait => {}
        }
        tokio::select! {
            (_, first, _) = ended => assert_eq!(first, 1),
            _ = room.place() => panic!("nobody gave way"),
        }
    }
}
