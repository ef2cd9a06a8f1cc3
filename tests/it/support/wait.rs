//! Waits for a condition with a deadline. No other part of the tests sleeps.

use std::time::Duration;

use tokio::time::Instant;

/// Poll interval of a condition.
const PERIOD: Duration = Duration::from_millis(15);

/// Polls until the result is `Some`; fails the test after `deadline`.
#[track_caller]
pub(crate) fn eventually<T, F, Fut>(
    deadline: Duration,
    what: &str,
    mut check: F,
) -> impl Future<Output = T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let caller = std::panic::Location::caller();
    async move {
        let begun = Instant::now();
        loop {
            if let Some(found) = check().await {
                return found;
            }
            assert!(
                begun.elapsed() < deadline,
                "{caller}: not within {deadline:?}: {what}"
            );
            tokio::time::sleep(PERIOD).await;
        }
    }
}

/// Polls a condition for `span`; fails the test as soon as it is false.
#[track_caller]
pub(crate) fn stays<F, Fut>(span: Duration, what: &str, mut check: F) -> impl Future<Output = ()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let caller = std::panic::Location::caller();
    async move {
        let begun = Instant::now();
        while begun.elapsed() < span {
            let elapsed = begun.elapsed();
            assert!(
                check().await,
                "{caller}: not any more after {elapsed:?}: {what}"
            );
            tokio::time::sleep(PERIOD).await;
        }
    }
}
