//! The pause that a lane makes after 429s. It never waits.

use std::time::Duration;

use tokio::time::Instant;

/// A provider's clock may be wrong by years; a lane isn't closed for longer than this on its word.
pub(super) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The pause that 429s ask for.
#[derive(Debug)]
pub(super) struct Throttle {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// The least that the next pause lasts which a server names.
    named: Duration,
    until: Option<Instant>,
}

/// The longest pause that comes of a named one which was too short.
const LONGEST_NAMED: Duration = Duration::from_secs(8);

impl Throttle {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
            named: Duration::ZERO,
            until: None,
        }
    }

    /// A 429, where they prevail. Calls that were in flight together count once, or a burst would double the pause to its
    /// longest.
    pub(super) fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        let paused = self.until.is_some_and(|until| until > now);
        let pause = match retry_after {
            Some(asked) => {
                let asked = asked.clamp(Duration::from_secs(1), LONGEST);
                let pause = asked.max(self.named);
                if !paused {
                    self.named = (pause * 2).min(LONGEST_NAMED);
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

    /// Another worker's calls met as much.
    pub(super) fn adopt(&mut self, until: Instant) {
        self.until = self.until.max(Some(until));
    }

    pub(super) fn succeeded(&mut self) {
        self.next = self.first;
        self.named = Duration::ZERO;
    }

    /// When the pause ends that lasts now.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}
