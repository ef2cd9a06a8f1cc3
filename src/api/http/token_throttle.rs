//! Delays the answer to a wrong token. A right one is never delayed, because behind a proxy all clients have one address.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::problem::ApiError;

/// How long the answer to a wrong token takes.
const DELAY: Duration = Duration::from_secs(1);
/// The most answers that are delayed at once. Further wrong tokens are refused immediately.
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
    /// Returns what was found for the token that an address sent; `None` is a wrong one.
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
            tracing::warn!(peer, wrong, "a token that is none of those configured");
        }
        let _delayed = self
            .delayed
            .try_acquire()
            .map_err(|_| ApiError::TooManyAttempts)?;
        sleep(DELAY).await;
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
    async fn wrong_tokens_are_delayed_in_bounds_and_right_ones_not_at_all() {
        let throttle = TokenThrottle::default();
        let right = async {
            sleep(DELAY / 2).await;
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
        assert_eq!(begun.elapsed(), DELAY, "the others have been answered");
    }
}
