//! A timer that doesn't count the time in which this process was suspended.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// A timer that fires this late shows that the process was suspended or starved.
const SUSPENDED: Duration = Duration::from_millis(500);

/// Sleeps for `duration`. If the process was suspended when that ended, sleeps again for the time it was late, at most `duration`,
/// because responses that arrived in the meantime are still unread and nobody else is to blame.
pub async fn sleep_awake(duration: Duration) {
    let end = Instant::now() + duration;
    sleep_until(end).await;
    let late = end.elapsed();
    if late > SUSPENDED {
        sleep(late.min(duration)).await;
    }
}
