//! Waiting for a condition with a deadline: the only place of the tests that sleeps.

use std::time::Duration;

use tokio::time::Instant;

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(15);

/// Asks until the answer is `Some`; fails the test when that takes longer than `deadline`.
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

/// Looks for `span` whether a condition stays true; fails the test at the first time that it isn't.
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
