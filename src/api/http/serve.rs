//! Puts the router on a listener, until told to stop.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections;
use crate::api::{ApiParts, Pages, router};

/// How an API leaves.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// Says that it leaves: `/readyz` is 503, long waits and streams end.
    pub draining: CancellationToken,
    /// How long it goes on answering after that. Balancers see `/readyz` meanwhile and send nothing more; clients that
    /// keep their connection are told to close it.
    pub answers_on: Duration,
}

/// Answers HTTP until it has left; then takes no more connections and returns when the open requests have ended, those with
/// an `Idempotency-Key` also where their client is gone. An error: settings that don't hold together.
pub async fn serve(
    listener: TcpListener,
    state: ApiParts,
    pages: Pages,
    leaving: Leaving,
) -> Result<(), String> {
    let (keyed, http) = (state.keyed.clone(), state.http.clone());
    let Leaving {
        draining,
        answers_on,
    } = leaving;
    let router =
        router(state, pages)?.layer(from_fn_with_state(draining.clone(), last_on_its_connection));
    let stop = CancellationToken::new();
    let stopping = async {
        draining.cancelled().await;
        tokio::time::sleep(answers_on).await;
        stop.cancel();
    };
    let answering = connections::answer(listener, router, &http, stop.clone());
    tokio::join!(answering, stopping);
    keyed.close();
    keyed.wait().await;
    Ok(())
}

/// Lets a client go in good order: a connection that is closed while a request is on its way breaks that request.
async fn last_on_its_connection(
    State(draining): State<CancellationToken>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if draining.is_cancelled() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}
