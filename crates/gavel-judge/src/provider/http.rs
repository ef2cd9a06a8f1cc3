//! One HTTP exchange: no redirects, a capped body, one deadline for the whole of it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use reqwest::header::HeaderMap;
use tokio::time::timeout;

use crate::error::ErrorClass;
use gavel_outbound::{Route, Unread};

/// A reply larger than this isn't one.
const LARGEST_BODY: usize = 4 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call waits before it tries again to get a descriptor.
const DESCRIPTOR_PAUSE: Duration = Duration::from_secs(1);
/// Enough for a worker of 1,000 slots to find its connections again.
const IDLE_CONNECTIONS: usize = 1024;

/// A client, or why there is none: told at the first call, since a judge that nobody asks needs none.
#[derive(Clone)]
pub(super) struct Client(Result<reqwest::Client, Arc<str>>);

/// A whole answer.
pub(super) struct Exchange {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Exchange {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why there is no whole answer.
pub(super) struct HttpFailure {
    pub(super) class: ErrorClass,
    pub(super) status: Option<u16>,
    pub(super) message: String,
    /// Whether it didn't come in time.
    pub(super) late: bool,
    /// Whether this process had no descriptor for a connection, so that nothing was sent.
    pub(super) unsent: bool,
}

impl HttpFailure {
    pub(super) fn new(class: ErrorClass, status: Option<u16>, message: String) -> Self {
        Self {
            class,
            status,
            message,
            late: false,
            unsent: false,
        }
    }
}

impl Client {
    pub(super) fn new(route: Route) -> Self {
        let client = gavel_outbound::client(route, |builder| {
            builder
                .connect_timeout(CONNECT_TIMEOUT)
                .pool_max_idle_per_host(IDLE_CONNECTIONS)
                .tcp_keepalive(Duration::from_secs(30))
                // One HTTP/2 connection would hold 1,000 calls to the server's limit of streams, and lose them all at once.
                .http1_only()
        });
        Self(client.map_err(Arc::from))
    }

    pub(super) fn inner(&self) -> Result<&reqwest::Client, HttpFailure> {
        self.0.as_ref().map_err(|reason| {
            let message = format!("the HTTP client could not be built: {reason}");
            HttpFailure::new(ErrorClass::Misconfigured, None, message)
        })
    }

    /// Sends a request and reads the whole answer within `limit`.
    pub(super) fn exchange(
        &self,
        request: reqwest::Request,
        limit: Duration,
    ) -> impl Future<Output = Result<Exchange, HttpFailure>> {
        once_sent(request, move |request| {
            within(limit, async {
                read_whole(self.execute(request).await?).await
            })
        })
    }

    /// Sends a request and reads the head of its answer; the body is left to be read.
    pub(super) async fn execute(
        &self,
        request: reqwest::Request,
    ) -> Result<reqwest::Response, HttpFailure> {
        let response = self.inner()?.execute(request).await;
        response.map_err(|error| broken(None, "could not be reached", &error))
    }
}

/// Sends a request, as soon as the process has a descriptor for it: the lack of one is no fault of the judge's.
async fn once_sent<T, F>(
    mut request: reqwest::Request,
    send: impl Fn(reqwest::Request) -> F,
) -> Result<T, HttpFailure>
where
    F: Future<Output = Result<T, HttpFailure>>,
{
    loop {
        let again = request.try_clone();
        match (send(request).await, again) {
            (Err(failure), Some(again)) if failure.unsent => {
                tracing::warn!(
                    error = failure.message,
                    "a judge call waits for a descriptor"
                );
                tokio::time::sleep(DESCRIPTOR_PAUSE).await;
                request = again;
            }
            (result, _) => return result,
        }
    }
}

/// Gives an answer up after `limit`. An `async fn` would hold `answer` twice: as its argument, and in what it awaits.
pub(super) fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, HttpFailure>>,
) -> impl Future<Output = Result<T, HttpFailure>> {
    timeout(limit, answer).map(move |ended| {
        ended.unwrap_or_else(|_| {
            let message = format!("did not answer within {} s", limit.as_secs_f64());
            Err(HttpFailure {
                late: true,
                ..HttpFailure::new(ErrorClass::Transient, None, message)
            })
        })
    })
}

/// The rest of an answer: a whole one, but for its size.
pub(super) async fn read_whole(response: reqwest::Response) -> Result<Exchange, HttpFailure> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    match gavel_outbound::read_whole(response, LARGEST_BODY).await {
        Ok(body) => Ok(Exchange {
            status,
            headers,
            body,
        }),
        Err(Unread::Broken(error)) => Err(broken(Some(status), "broke off its answer", &error)),
        // No model writes so much: it is something in between that answers.
        Err(Unread::TooLarge) => {
            let (class, message) = (ErrorClass::Transient, "answered with more than 4 MiB");
            Err(HttpFailure::new(class, Some(status), message.to_owned()))
        }
    }
}

pub(super) fn broken(status: Option<u16>, what: &str, error: &reqwest::Error) -> HttpFailure {
    let distrust = gavel_outbound::distrust(error);
    // Neither a certificate nor a request that can't even be built is a fault of the network.
    let class = match &distrust {
        None if !error.is_builder() => ErrorClass::Transient,
        None | Some(_) => ErrorClass::Misconfigured,
    };
    let why = distrust.unwrap_or_else(|| gavel_outbound::innermost(error));
    HttpFailure {
        unsent: gavel_outbound::lacks_descriptors(error),
        ..HttpFailure::new(class, status, format!("{what}: {why}"))
    }
}
