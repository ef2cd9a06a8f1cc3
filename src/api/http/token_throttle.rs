//! Delays the response to a wrong token. Valid tokens are never delayed, because behind a proxy all clients share one address.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::problem::ApiError;

const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of delayed responses. Beyond it, wrong tokens are rejected immediately.
const MAX_DELAYED: usize = 32;

#[derive(Debug)]
pub(super) struct TokenThrottle {
    wrong: AtomicU64,
    delayed: Semaphore,
}

impl Default for TokenThrottle {
    fn default() -> Self {
        Self {
            wrong: AtomicU64::new(0),
            delayed: Semaphore::new(MAX_DELAYED),
        }
    }
}

impl TokenThrottle {
    /// Returns the result of a token lookup, delayed if it is `None` (a wrong token).
    pub(super) async fn check<T>(
        &self,
        peer: Option<IpAddr>,
        found: Option<T>,
    ) -> Result<T, ApiError> {
        if let Some(found) = found {
            return Ok(found);
        }
        let wrong = self.wrong.fetch_add(1, Ordering::Relaxed) + 1;
        if wrong.is_power_of_two() {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, wrong, "unknown token");
        }
        let _delayed = self
            .delayed
            .try_acquire()
            .map_err(|_| ApiError::TooManyAttempts)?;
        sleep(WRONG_TOKEN_DELAY).await;
        Err(ApiError::Unauthorized(
            "the token is not one of those configured; of a line name:scopes:token only the last part is sent",
        ))
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_only_wrong_tokens_within_limits() {
        let throttle = TokenThrottle::default();
        let right = async {
            sleep(WRONG_TOKEN_DELAY / 2).await;
            let begun = Instant::now();
            assert!(throttle.check(None, Some(())).await.is_ok());
            begun.elapsed()
        };
        let wrong = join_all((0..MAX_DELAYED + 3).map(|_| throttle.check(None, None::<()>)));
        let (wrong, right) = tokio::join!(wrong, right);
        let delayed =
            |result: &&Result<(), ApiError>| matches!(result, Err(ApiError::Unauthorized(_)));
        assert_eq!(wrong.iter().filter(delayed).count(), MAX_DELAYED);
        assert_eq!(right, Duration::ZERO);
        let begun = Instant::now();
        assert!(throttle.check(None, None::<()>).await.is_err());
        assert_eq!(
            begun.elapsed(),
            WRONG_TOKEN_DELAY,
            "the others have been answered"
        );
    }
}
