//! Connections: how many there are, and how long one may be silent. Whoever has no request under way gives way to whoever comes, and so does
//! whoever sends its body slowly: slow and forgotten connections keep nobody out. What a handler takes is its own affair.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{ConnectInfo, Request};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use http_body::{Frame, SizeHint};
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

use crate::config::HttpSettings;

/// So many connections are taken beyond those that may have a request under way: a probe among them is answered, anything else refused.
const FOR_PROBES: usize = 32;
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
/// An answer is handed on in pieces of so many bytes at most, each when the client has taken most of those before it. What is handed on
/// counts as sent.
const PIECE_BYTES: usize = 64 << 10;

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
    in_need: AtomicUsize,
    /// Wakes the slowest client that holds a leave, and neither sends its body nor takes its answer, to close it.
    gives_leave: Notify,
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
            in_need: AtomicUsize::new(0),
            gives_leave: Notify::new(),
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
                let _need = Need::new(self);
                sleep(REST).await;
                None
            }
        }
    }

    /// A place; where all are taken, that of whoever has been silent for the longest time. Requests take fewer than there are.
    async fn place(&self) -> Result<Place, AcquireError> {
        let _need = (self.places.available_permits() == 0).then(|| Need::new(self));
        self.places.clone().acquire_owned().await
    }

    /// Leave to have a request under way. Where there is none, whoever has been slow for the longest time gives way.
    async fn leave(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(leave) = self.requests.clone().try_acquire_owned() {
            return Some(leave);
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
                    Activity {
                        handled, awaited, ..
                    } if handled > awaited => pending().await,
                    Activity { sent: 1.., .. } => (STALLED_AFTER, SLOW_AFTER),
                    // How long a body may take at most is its reader's to say.
                    Activity { awaited: 1.., .. } => (STALLED_AFTER, IDLE_AFTER),
                    Activity { .. } => (until_request, IDLE_AFTER),
                };
                let gives_way = async {
                    sleep(gives_way_after).await;
                    self.needed(!now.is_idle()).await;
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
struct Need<'a>(&'a AtomicUsize);

impl<'a> Need<'a> {
    fn new(room: &'a Room) -> Self {
        room.in_need.fetch_add(1, Ordering::SeqCst);
        room.gives_way.notify_one();
        Self(&room.in_need)
    }
}

impl Drop for Need<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Activity {
    /// Requests that handlers have.
    handled: usize,
    /// Those of them whose handlers wait for the client's body.
    awaited: usize,
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

/// A request's body, which counts as awaited from where its reader must wait until [`PIECE_BYTES`] more are there, or its end: a byte now and
/// then is no progress.
struct AwaitedBody {
    body: Body,
    activity: Arc<watch::Sender<Activity>>,
    awaited: Option<Counted>,
    /// How many bytes came since it is awaited.
    came: usize,
}

impl http_body::Body for AwaitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => {
                if self.awaited.is_none() {
                    let awaited = Counted::new(&self.activity, |activity| &mut activity.awaited);
                    self.awaited = Some(awaited);
                }
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.came += frame.data_ref().map_or(0, Bytes::len);
                if self.came >= PIECE_BYTES || self.body.is_end_stream() {
                    (self.awaited, self.came) = (None, 0);
                }
            }
            Poll::Ready(Some(Err(_)) | None) => self.awaited = None,
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body in pieces of [`PIECE_BYTES`] at most. How long it is stands in the answer's head already.
fn in_pieces(body: Body) -> Body {
    let longest = body.size_hint().upper();
    let is_small = longest.is_some_and(|bytes| bytes <= PIECE_BYTES as u64);
    if is_small || body.is_end_stream() {
        return body;
    }
    let pieces = body.into_data_stream().map_ok(|mut data: Bytes| {
        let pieces = std::iter::from_fn(move || {
            let piece = data.split_to(data.len().min(PIECE_BYTES));
            (!piece.is_empty()).then_some(piece)
        });
        stream::iter(pieces).map(Ok::<Bytes, axum::Error>)
    });
    Body::from_stream(pieces.try_flatten())
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
        let (room, router) = (asked_in.clone(), router.clone());
        let mut request: Request = request.map(|body| {
            Body::new(AwaitedBody {
                body: Body::new(TimeoutBody::new(room.body, body)),
                activity: asked.clone(),
                awaited: None,
                came: 0,
            })
        });
        request.extensions_mut().insert(ConnectInfo(peer));
        async move {
            let is_probe = is_probe(request.uri().path());
            let leave = match is_probe {
                true => room.requests.clone().try_acquire_owned().ok(),
                false => room.leave().await,
            };
            if leave.is_none() && !is_probe {
                request.extensions_mut().insert(OverFull(room.max));
            }
            let response = match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let sending = Counted::new(&handling.activity, |activity| &mut activity.sent);
            drop(handling);
            Ok::<_, Infallible>(response.map(|body| {
                Body::new(in_pieces(body).map_frame(move |frame| {
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
        tokio::select! {
            _ = &mut ended => panic!("they have just come"),
            _ = room.place() => panic!("there was no room"),
            () = sleep(IDLE_AFTER / 2) => {}
        }
        tokio::select! {
            _ = &mut ended => panic!("nobody waits any more"),
            () = sleep(IDLE_AFTER) => {}
        }
        tokio::select! {
            (after, first, _) = ended => assert_eq!((after, first), (IDLE_AFTER * 3 / 2, 1)),
            _ = room.place() => panic!("nobody gave way"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_nothing_of_an_answer_gives_leave_to_those_who_ask_then() {
        let room = room();
        let activity = [Activity::default(); 2].map(|at| Arc::new(watch::Sender::new(at)));
        let _slow = Counted::new(&activity[0], |activity| &mut activity.sent);
        let mut leaves = vec![room.leave().await.unwrap(), room.leave().await.unwrap()];
        assert!(room.leave().await.is_none(), "nobody is slow");
        let mut slow = Box::pin(ends_after(&room, &activity[0]));
        let mut idle = Box::pin(ends_after(&room, &activity[1]));
        tokio::select! {
            _ = &mut slow => panic!("that request was refused long ago"),
            _ = &mut idle => panic!("it keeps no leave"),
            () = sleep(SLOW_AFTER - IDLE_AFTER / 2) => {}
        }
        tokio::select! {
            _ = &mut slow => panic!("nobody asked"),
            () = sleep(IDLE_AFTER) => {}
        }
        let gives_leave = async {
            let ended = slow.await;
            leaves.pop();
            ended
        };
        let (leave, ended) = tokio::join!(room.leave(), gives_leave);
        assert!(leave.is_some());
        assert_eq!(ended, SLOW_AFTER + IDLE_AFTER / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_a_body_slowly_gives_leave_and_a_handler_at_work_does_not() {
        let room = room();
        let _leaves = [room.leave().await.unwrap(), room.leave().await.unwrap()];
        let activity = [Activity::default(); 2].map(|at| Arc::new(watch::Sender::new(at)));
        let handled: fn(&mut Activity) -> &mut usize = |activity| &mut activity.handled;
        let _both = [0, 1].map(|n| Counted::new(&activity[n], handled));
        let _beside = Counted::new(&activity[1], handled);
        let _awaited = [0, 1].map(|n| Counted::new(&activity[n], |it| &mut it.awaited));
        let mut slow = Box::pin(ends_after(&room, &activity[0]));
        let mut works = Box::pin(ends_after(&room, &activity[1]));
        tokio::select! {
            _ = &mut slow => panic!("nobody asked"),
            () = sleep(3 * IDLE_AFTER) => {}
        }
        tokio::select! {
            ended = &mut slow => assert_eq!(ended, 3 * IDLE_AFTER),
            _ = &mut works => panic!("one of its handlers doesn't wait for it"),
            _ = room.leave() => panic!("nobody gave way"),
        }
    }

    #[tokio::test]
    async fn bodies_that_come_by_the_byte_keep_nobody_out() {
        let router = Router::new().fallback(|request: Request| async {
            let full = request.extensions().get::<OverFull>().is_some();
            let read = axum::body::to_bytes(request.into_body(), 100).await;
            format!("{full} {}", read.is_ok())
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = super::super::body::tests::limits();
        let stop = CancellationToken::new();
        let head = |length: usize| {
            format!(
                "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
            )
        };
        let by_the_byte = async || loop {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head(1_000).as_bytes()).await.unwrap();
            while stream.write_all(b"x").await.is_ok() {
                sleep(IDLE_AFTER / 4).await;
            }
        };
        let asking = async {
            sleep(2 * IDLE_AFTER).await;
            for _ in 0..3 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(head(0).as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.ends_with("false true"), "{answer}");
            }
        };
        let slow = futures::future::join_all((0..2 * http.max_connections).map(|_| by_the_byte()));
        tokio::select! {
            () = answer(listener, router, &http, stop.clone()) => {}
            _ = slow => {}
            () = asking => {}
        }
    }

    #[tokio::test]
    async fn a_large_body_is_cut_into_pieces_and_a_small_one_stays_as_it_is() {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PIECE_BYTES + 1).collect();
        let pieces: Vec<Bytes> = in_pieces(Body::from(bytes.clone()))
            .into_data_stream()
            .try_collect()
            .await
            .unwrap();
        let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, 1]);
        let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
        assert!(whole == bytes);
        let small = in_pieces(Body::from("small"));
        assert_eq!(small.size_hint().exact(), Some(5));
        assert!(in_pieces(Body::empty()).is_end_stream());
    }

    #[tokio::test]
    async fn a_large_answer_is_under_way_until_its_slow_reader_has_taken_it() {
        const LARGE: usize = 32 << 20;
        let router = Router::new().fallback(|| async { vec![b'x'; LARGE] });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = super::super::body::tests::limits();
        let stop = CancellationToken::new();
        let reading = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let asked = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
            stream.write_all(asked).await.unwrap();
            let mut read = vec![stream.read_u8().await.unwrap()];
            stop.cancel();
            sleep(2 * CLOSING).await;
            stream.read_to_end(&mut read).await.unwrap();
            read
        };
        let (read, ()) = tokio::join!(reading, answer(listener, router, &http, stop.clone()));
        let end = read.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, body) = read.split_at(end.unwrap() + 4);
        let head = String::from_utf8_lossy(head);
        assert!(head.contains(&format!("content-length: {LARGE}")), "{head}");
        assert_eq!(body.len(), LARGE);
    }
}
