//! Tracks the activity of a connection through its bodies: whether the client sends or reads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody as _};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http_body::{Frame, SizeHint};
use tokio::sync::watch;

/// Maximum size of a response piece. A piece is passed on once the client has read most of the earlier ones. A piece
/// that is passed on counts as sent.
pub(super) const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// No active request.
    #[default]
    Idle,
    Handled,
    /// Waiting for the client's body.
    Awaited,
    Sent,
}

/// Marks a response as being sent until dropped.
pub(super) struct Sending(Arc<watch::Sender<Activity>>);

impl Sending {
    pub(super) fn new(activity: Arc<watch::Sender<Activity>>) -> Self {
        activity.send_replace(Activity::Sent);
        Self(activity)
    }

    /// Restarts the timeout after progress.
    pub(super) fn record_progress(&self) {
        self.0.send_replace(Activity::Sent);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.send_replace(Activity::Idle);
    }
}

/// A request body. It counts as awaited while its reader waits for [`PIECE_BYTES`] more bytes or the end, because
/// single bytes are no progress.
pub(super) struct AwaitedBody {
    body: Body,
    activity: Arc<watch::Sender<Activity>>,
    /// Number of bytes received since then.
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

    fn mark(&self, before: Activity, now: Activity) {
        // A response may start before its request is read.
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
            Poll::Pending => self.mark(Activity::Handled, Activity::Awaited),
            Poll::Ready(Some(Ok(frame))) => {
                self.came += frame.data_ref().map_or(0, Bytes::len);
                if self.came >= PIECE_BYTES || self.body.is_end_stream() {
                    self.came = 0;
                    self.mark(Activity::Awaited, Activity::Handled);
                }
            }
            Poll::Ready(Some(Err(_)) | None) => self.mark(Activity::Awaited, Activity::Handled),
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

/// Splits a body into pieces of at most [`PIECE_BYTES`]. Its length is already in the response head.
pub(super) fn split_body(body: Body) -> Body {
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
