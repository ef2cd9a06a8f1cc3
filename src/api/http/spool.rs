//! Large bodies: streamed to an anonymous file, with length and digest. Never entirely in memory.

use std::fs::File;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use futures::{Stream, StreamExt as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::body::{in_time, read_error};
use super::problem::ApiError;
use crate::api::ApiState;
use crate::config::HttpSettings;
use crate::memory::blocking;

pub(crate) const LARGE_READ_TIMEOUT: Duration = Duration::from_secs(900);
/// Number of bytes of an oversized body that are read and discarded, so that its sender can read the response.
const DISCARD_BYTES: usize = 32 << 20;

/// A body in a file, which is deleted with its last clone. All clones share one position.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Spooled {
    #[serde(skip)]
    pub(crate) file: Arc<File>,
    /// SHA-256 of the content.
    pub(crate) digest: [u8; 32],
}

impl FromRequest<ApiState> for Spooled {
    type Rejection = ApiError;

    /// Uses the body that the idempotency layer has read, or reads it.
    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        match parts.extensions.remove::<Self>() {
            Some(spooled) => Ok(spooled),
            None => Self::read(body.into_data_stream(), &parts.headers, &state.http).await,
        }
    }
}

impl Spooled {
    /// Reads a body of at most `max_batch_bytes` after inflation.
    ///
    /// # Errors
    /// If it is larger, breaks off, or takes longer than 15 minutes.
    pub(crate) async fn read<E: std::error::Error + 'static>(
        chunks: impl Stream<Item = Result<Bytes, E>>,
        headers: &HeaderMap,
        limits: &HttpSettings,
    ) -> Result<Self, ApiError> {
        let spooled = spool(chunks, headers, limits.max_batch_bytes);
        in_time(LARGE_READ_TIMEOUT, spooled).await?
    }
}

async fn spool<E: std::error::Error + 'static>(
    chunks: impl Stream<Item = Result<Bytes, E>>,
    headers: &HeaderMap,
    max: usize,
) -> Result<Spooled, ApiError> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > max) && headers.contains_key(header::EXPECT) {
        return Err(ApiError::BatchTooLarge(max));
    }
    let file = blocking(tempfile::tempfile).await.map_err(file_error)?;
    let mut file = tokio::fs::File::from_std(file);
    let (mut seen, mut digest) = (0_usize, Sha256::new());
    let mut chunks = pin!(chunks);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| read_error(&error))?;
        seen = seen.saturating_add(chunk.len());
        if seen <= max {
            digest.update(&chunk);
            file.write_all(&chunk).await.map_err(file_error)?;
        } else if seen > max.saturating_add(DISCARD_BYTES) {
            break;
        }
    }
    if seen > max {
        return Err(ApiError::BatchTooLarge(max));
    }
    file.flush().await.map_err(file_error)?;
    Ok(Spooled {
        file: Arc::new(file.into_std().await),
        digest: digest.finalize().into(),
    })
}

fn file_error(error: io::Error) -> ApiError {
    ApiError::Internal(format!("keeping a large body in a temporary file: {error}"))
}
