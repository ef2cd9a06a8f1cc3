use std::time::Duration;

use tokio::time::Instant;

/// Maximum closure requested by a provider, because its clock may be wrong by years.
pub(super) const MAX_CLOSURE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Pause of a lane after 429s. It only computes the time; callers wait.
#[derive(Debug)]
pub(super) struct Throttle {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// Minimum of the next pause with a `Retry-After`.
    min_retry_after: Duration,
    until: Option<Instant>,
}

/// Maximum of a pause that was increased because the server's `Retry-After` was too short.
const MAX_RAISED_PAUSE: Duration = Duration::from_secs(8);

impl Throttle {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
            min_retry_after: Duration::ZERO,
            until: None,
        }
    }

    /// Starts a pause. Calls in flight together count once, because otherwise a burst would double it repeatedly.
    pub(super) fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        let paused = self.until.is_some_and(|until| until > now);
        let pause = match retry_after {
            Some(asked) => {
                let asked = asked.clamp(Duration::from_secs(1), MAX_CLOSURE);
                let pause = asked.max(self.min_retry_after);
                if !paused {
                    self.min_retry_after = (pause * 2).min(MAX_RAISED_PAUSE);
                }
                if paused { asked } else { pause }
            }
            None if paused => return,
            None => {
                let pause = self.next;
                self.next = (pause * 2).min(self.longest);
                pause
            }
        };
        let until = now + pause;
        self.until = Some(self.until.map_or(until, |known| known.max(until)));
    }

    pub(super) fn adopt(&mut self, until: Instant) {
        self.until = self.until.max(Some(until));
    }

    pub(super) fn succeeded(&mut self) {
        self.next = self.first;
        self.min_retry_after = Duration::ZERO;
    }

    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}
