//! Serves the router on a listener until shutdown.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections;
use crate::api::{ApiParts, Pages, router};

/// Shutdown of an API.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// Starts the shutdown: `/readyz` returns 503, long waits and streams end.
    pub draining: CancellationToken,
    /// Time of serving after that. Load balancers see `/readyz` and stop sending; clients with open connections are asked to close them.
    pub answers_on: Duration,
}

/// Serves HTTP until shutdown. Then accepts no connections and returns when the active requests have ended, including
/// those with an `Idempotency-Key` of disconnected clients. Returns an error for conflicting settings.
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
        router(state, pages)?.layer(from_fn_with_state(draining.clone(), close_connections));
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

/// Asks clients to close their connection, because closing it from here could break a request in transit.
async fn close_connections(
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
