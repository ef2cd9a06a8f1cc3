//! What a 429 does to the pace: halved at once, and back in twenty steps.

use std::time::Duration;

use tokio::time::Instant;

/// One step back.
const STEP: Duration = Duration::from_secs(15);
/// A step is the so-manieth part of the whole: from half to all takes 2 min 30 s.
const STEPS: f64 = 20.0;
/// A lane whose limit nobody knows is slowed to no less than this a minute: slower than a call a second is what a pause is for.
const LEAST_UNKNOWN: f64 = 60.0;
/// A known limit is never cut to less than this part of it.
const LEAST_PART: f64 = 16.0;

/// The shrunk pace of one judge.
#[derive(Debug, Default)]
pub(super) struct Shrink {
    cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy)]
struct Cut {
    at: Instant,
    /// Requests a minute right after the cut.
    from: f64,
    /// What it grows back to.
    to: f64,
}

impl Cut {
    fn rate(&self, now: Instant) -> f64 {
        let steps = now.saturating_duration_since(self.at).as_secs() / STEP.as_secs();
        self.from + self.to / STEPS * steps as f64
    }
}

impl Shrink {
    /// Requests a minute, while they are fewer than they would be otherwise.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        self.cut
            .filter(|cut| cut.rate(now) < cut.to)
            .map(|cut| cut.rate(now))
    }

    /// How long until nothing is left of it.
    pub(super) fn ends_in(&self, now: Instant) -> Option<Duration> {
        self.rate(now)?;
        let cut = self.cut?;
        let steps = ((cut.to - cut.from) / (cut.to / STEPS)).ceil();
        let ends = cut.at + STEP.mul_f64(steps.max(1.0));
        Some(ends.saturating_duration_since(now))
    }

    /// A call that left at `sent` met a 429. Those that were out together count once. `limit`: what holds otherwise;
    /// `lately`: what went out within the last minute.
    pub(super) fn throttled(
        &mut self,
        sent: Instant,
        limit: Option<u64>,
        lately: u64,
        now: Instant,
    ) {
        if self.cut.is_some_and(|cut| sent <= cut.at) {
            return;
        }
        let before = self.cut.filter(|cut| cut.rate(now) < cut.to);
        let to = match (limit, before) {
            (Some(limit), _) => limit as f64,
            (None, Some(cut)) => cut.to,
            (None, None) => (lately as f64).max(LEAST_UNKNOWN * 2.0),
        };
        let least = match limit {
            Some(limit) => (limit as f64 / LEAST_PART).max(1.0),
            None => LEAST_UNKNOWN,
        };
        let now_at = before.map_or(to, |cut| cut.rate(now).min(to));
        self.cut = Some(Cut {
            at: now,
            from: (now_at / 2.0).max(least).min(to),
            to,
        });
    }
}
