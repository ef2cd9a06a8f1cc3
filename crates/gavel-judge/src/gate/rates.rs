//! Rate limits reported by a server, in one form for all providers, with checks of their plausibility.
//!
//! Headers rarely state their interval: the same name means requests per minute at one server and per day at another. Only limits that can
//! be per minute pace a lane. A limit per day used as one per minute is too lax, but remaining 429s are still obeyed. A limit per second
//! would be too strict, so it is ignored.

use std::time::Duration;

/// A limit that needs longer to reset in full covers more than a minute.
const MAX_MINUTE_RESET: Duration = Duration::from_secs(61);
/// A limit that needs longer to reset in full covers more than 10 s.
const MAX_SECONDS_RESET: Duration = Duration::from_secs(10);
/// Shorter resets carry no information, because clocks and rounding are no more precise.
const MIN_RESET: Duration = Duration::from_secs(1);
/// Limits above this are implausible: no provider grants as much per minute.
const MAX_LIMIT: u64 = 1_000_000_000_000;

/// Documented interval of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Span {
    /// Undocumented: minutes at one server, days at another.
    #[default]
    Unsaid,
    Minute,
}

/// One limit from reply headers. `None` for absent values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitReport {
    pub limit: Option<u64>,
    pub remaining: Option<u64>,
    /// Time until it is fully available.
    pub resets_in: Option<Duration>,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateReport {
    pub requests: LimitReport,
    /// Total of prompts and replies.
    pub tokens: LimitReport,
    pub input_tokens: LimitReport,
    pub output_tokens: LimitReport,
}

impl LimitReport {
    /// Returns the limit if it can be one per minute.
    ///
    /// If the provider documents no interval, the reset decides. A partly used limit must reset in full in 10-61 s, or refill evenly (a
    /// reset of n seconds for n sixtieths used).
    pub fn per_minute(&self) -> Option<u64> {
        let limit = self.limit.filter(|limit| (1..=MAX_LIMIT).contains(limit))?;
        if self.span == Span::Minute {
            return Some(limit);
        }
        let reset = self.resets_in?;
        let used = limit
            .checked_sub(self.remaining?)
            .filter(|used| *used > 0)?;
        let fills_in = reset.as_secs_f64() * limit as f64 / used as f64;
        let in_a_minute = (54.0..=66.0).contains(&fills_in) && reset > MIN_RESET;
        (reset <= MAX_MINUTE_RESET && (reset > MAX_SECONDS_RESET || in_a_minute)).then_some(limit)
    }

    /// Returns whether the limit certainly covers more than a minute.
    pub fn is_longer_than_a_minute(&self) -> bool {
        self.span == Span::Unsaid && self.resets_in.is_some_and(|reset| reset > MAX_MINUTE_RESET)
    }

    /// Returns the time until an exhausted limit resets. `None` if capacity is left or the values are inconsistent.
    pub fn nothing_left_for(&self) -> Option<Duration> {
        let means_something = self.remaining == Some(0) && self.limit != Some(0);
        self.resets_in
            .filter(|reset| means_something && !reset.is_zero())
    }
}

impl RateReport {
    pub fn all(&self) -> [&LimitReport; 4] {
        [
            &self.requests,
            &self.tokens,
            &self.input_tokens,
            &self.output_tokens,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(limit: u64, remaining: u64, reset_ms: u64) -> LimitReport {
        LimitReport {
            limit: Some(limit),
            remaining: Some(remaining),
            resets_in: Some(Duration::from_millis(reset_ms)),
            span: Span::Unsaid,
        }
    }

    #[test]
    fn accepts_only_plausible_limits_per_minute() {
        let table = [
            ("fills up evenly in a minute", report(60, 55, 5_000), true),
            ("a window of a minute", report(60, 10, 42_000), true),
            ("200 a day, one used", report(200, 199, 432_000), false),
            ("ten a second", report(10, 9, 100), false),
            ("100 a second, by chance", report(100, 99, 600), false),
            ("a window of ten seconds", report(100, 50, 7_000), false),
            ("nothing used yet", report(60, 60, 30_000), false),
            ("no limit at all", report(0, 0, 30_000), false),
            ("more left than there is", report(60, 70, 30_000), false),
            ("beyond all reason", report(u64::MAX, 5, 30_000), false),
        ];
        for (what, report, believed) in table {
            let expected = report.limit.filter(|_| believed);
            assert_eq!(report.per_minute(), expected, "{what}");
        }
        let said = LimitReport {
            span: Span::Minute,
            ..report(50, 50, 0)
        };
        assert_eq!(said.per_minute(), Some(50));
    }

    #[test]
    fn exhausted_needs_a_limit_and_a_reset() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(report(60, 0, 1_000).nothing_left_for(), second);
        assert_eq!(report(60, 1, 1_000).nothing_left_for(), None);
        assert_eq!(report(0, 0, 1_000).nothing_left_for(), None);
        assert_eq!(report(60, 0, 0).nothing_left_for(), None);
        let unnamed = LimitReport {
            limit: None,
            ..report(60, 0, 1_000)
        };
        assert_eq!(unnamed.nothing_left_for(), second);
    }
}
