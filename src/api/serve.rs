//! Puts the router on a listener, until told to stop.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ApiParts, Pages, router};

/// Why serving ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings don't hold together: a bad token line, a public bind without tokens.
    #[error("{0}")]
    Settings(String),
    /// The listener broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Answers HTTP until `stop`; then takes no more connections and returns when the open requests have ended, those with
/// an `Idempotency-Key` also where their client is gone.
pub async fn serve(
    listener: TcpListener,
    state: ApiParts,
    pages: Pages,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let keyed = state.keyed.clone();
    let router = router(state, pages).map_err(ServeError::Settings)?;
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .await?;
    keyed.close();
    keyed.wait().await;
    Ok(())
}
