//! One HTTP exchange: no redirects, a limited body, one timeout for all of it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;

use crate::error::ErrorClass;
use crate::timer::sleep_awake;
use gavel_outbound::{Route, Unread};

const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before a call without a file descriptor is retried.
const DESCRIPTOR_DELAY: Duration = Duration::from_secs(1);
/// Enough for a worker of 1,000 slots to reuse its connections.
const IDLE_CONNECTIONS: usize = 1024;

/// A client, or the error of its construction, which the first call reports, because a judge without calls needs no client.
#[derive(Clone)]
pub(super) struct Client(Result<reqwest::Client, Arc<str>>);

pub(super) struct Exchange {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

pub(super) struct HttpFailure {
    pub(super) class: ErrorClass,
    pub(super) status: Option<u16>,
    pub(super) message: String,
    pub(super) late: bool,
    /// Whether the process had no file descriptor for a connection. The request wasn't sent then.
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
                // An HTTP/2 connection would limit 1,000 calls to the server's number of streams, and lose them together.
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

    /// Sends a request and reads the response within `limit`. Retries while the process has no file descriptor, because that is no error of
    /// the judge.
    pub(super) async fn exchange(
        &self,
        mut request: reqwest::Request,
        limit: Duration,
    ) -> Result<Exchange, HttpFailure> {
        loop {
            let again = request.try_clone();
            let response = async { read_body(self.execute(request).await?).await };
            match (within(limit, response.boxed()).await, again) {
                (Err(failure), Some(again)) if failure.unsent => {
                    let error = failure.message;
                    tracing::warn!(error, "a judge call waits for a descriptor");
                    tokio::time::sleep(DESCRIPTOR_DELAY).await;
                    request = again;
                }
                (result, _) => return result,
            }
        }
    }

    /// Sends a request and reads the head of the response; the caller reads the body.
    pub(super) async fn execute(
        &self,
        request: reqwest::Request,
    ) -> Result<reqwest::Response, HttpFailure> {
        let response = self.inner()?.execute(request).await;
        response.map_err(|error| broken(None, "could not be reached", &error))
    }
}

/// Adds a timeout, without the time in which this process was suspended. Boxed so that the caller's future stays small.
pub(super) async fn within<T>(
    limit: Duration,
    answer: BoxFuture<'_, Result<T, HttpFailure>>,
) -> Result<T, HttpFailure> {
    tokio::select! {
        biased;
        result = answer => result,
        () = sleep_awake(limit) => {
            let message = format!("did not answer within {} s", limit.as_secs_f64());
            let failure = HttpFailure::new(ErrorClass::Transient, None, message);
            Err(HttpFailure { late: true, ..failure })
        }
    }
}

pub(super) async fn read_body(response: reqwest::Response) -> Result<Exchange, HttpFailure> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    match gavel_outbound::read_whole(response, MAX_BODY_BYTES).await {
        Ok(body) => Ok(Exchange {
            status,
            headers,
            body,
        }),
        Err(Unread::Broken(error)) => Err(broken(Some(status), "broke off its answer", &error)),
        // No model writes that much, so the response is from something in between.
        Err(Unread::TooLarge) => {
            let (class, message) = (ErrorClass::Transient, "answered with more than 4 MiB");
            Err(HttpFailure::new(class, Some(status), message.to_owned()))
        }
    }
}

pub(super) fn broken(status: Option<u16>, what: &str, error: &reqwest::Error) -> HttpFailure {
    let distrust = gavel_outbound::distrust(error);
    // A certificate or an invalid request isn't an error of the network.
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::io::AsyncReadExt as _;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Blocks the only thread of the runtime, as SIGSTOP does, until the timeout has passed and the answer has arrived.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "blocks the runtime")]
    async fn timeout_during_suspension_reads_the_answer_that_arrived() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut server = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut client, _) = listener.accept().await.unwrap();
        let (bytes, mut received) = mpsc::channel(1);
        let (body, answer) = oneshot::channel();
        // Two tasks as in an HTTP client: the response reaches the caller two polls after the socket is readable.
        tokio::spawn(async move { bytes.send(client.read_u8().await.unwrap()).await });
        tokio::spawn(async move { body.send(received.recv().await.unwrap()) });
        tokio::spawn(async move {
            server.write_all(b"a").unwrap();
            std::thread::sleep(Duration::from_secs(1));
        });
        let read = async { Ok(answer.await.unwrap()) };
        let result = within(Duration::from_millis(200), read.boxed()).await;
        assert_eq!(result.map_err(|failure| failure.message), Ok(b'a'));
    }
}
