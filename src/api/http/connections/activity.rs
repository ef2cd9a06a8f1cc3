//! What a connection is at, as its bodies tell: whether a client sends, and whether it takes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody as _};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http_body::{Frame, SizeHint};
use tokio::sync::watch;

/// An answer is handed on in pieces of so many bytes at most, each when the client has taken most of those before it. What is handed on
/// counts as sent.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// What a connection is at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// No request is under way.
    #[default]
    Idle,
    /// A handler has a request.
    Handled,
    /// It waits for the client's body.
    Awaited,
    /// An answer is on its way to the client.
    Sent,
}

/// An answer on its way, until this goes.
pub(super) struct Sending(Arc<watch::Sender<Activity>>);

impl Sending {
    pub(super) fn new(activity: Arc<watch::Sender<Activity>>) -> Self {
        activity.send_replace(Activity::Sent);
        Self(activity)
    }

    /// Something is taken: a silence begins anew.
    pub(super) fn goes_on(&self) {
        self.0.send_replace(Activity::Sent);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.send_replace(Activity::Idle);
    }
}

/// A request's body, which counts as awaited from where its reader must wait until [`PIECE_BYTES`] more are there, or its end: a byte now and
/// then is no progress.
pub(super) struct AwaitedBody {
    body: Body,
    activity: Arc<watch::Sender<Activity>>,
    /// How many bytes came since it is awaited.
    came: usize,
}

impl AwaitedBody {
    pub(super) fn new(body: Body, activity: Arc<watch::Sender<Activity>>) -> Self {
        Self {
            body,
            activity,
            came: 0,
        }
    }

    fn tell(&self, before: Activity, now: Activity) {
        // An answer may be on its way before its request is read.
        self.activity.send_if_modified(|activity| {
            let is_before = *activity == before;
            if is_before {
                *activity = now;
            }
            is_before
        });
    }
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
            Poll::Pending => self.tell(Activity::Handled, Activity::Awaited),
            Poll::Ready(Some(Ok(frame))) => {
                self.came += frame.data_ref().map_or(0, Bytes::len);
                if self.came >= PIECE_BYTES || self.body.is_end_stream() {
                    self.came = 0;
                    self.tell(Activity::Awaited, Activity::Handled);
                }
            }
            Poll::Ready(Some(Err(_)) | None) => self.tell(Activity::Awaited, Activity::Handled),
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
pub(super) fn in_pieces(body: Body) -> Body {
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
