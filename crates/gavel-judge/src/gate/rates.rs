//! What a server says of its limits, in one form for all families, and how much of it is believed.
//!
//! Headers rarely say over which span a limit counts: the same name stands for requests per minute at one server and per
//! day at the next. Only what can be a minute's figure paces a lane. A longer span's limit that is taken for a minute's is
//! too lax, and harmless: the 429s that remain are obeyed. A shorter span's would be too strict, and is not believed.

use std::time::Duration;

/// A limit that is back in full later than this counts over more than a minute.
const LONGEST_MINUTE: Duration = Duration::from_secs(61);
/// A limit that is back in full later than this doesn't count by the second, nor by ten of them.
const BEYOND_SECONDS: Duration = Duration::from_secs(10);
/// A shorter reset says nothing: clocks and roundings are no better.
const TOO_SHORT_TO_TELL: Duration = Duration::from_secs(1);
/// More than any provider grants in a minute; beyond it something is wrong with the figure.
const MOST: u64 = 1_000_000_000_000;

/// Over what span a limit counts, as far as the family's documentation says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Span {
    /// It doesn't: minutes at one server, days at the next.
    #[default]
    Unsaid,
    Minute,
}

/// One limit as a reply's headers have it; what they don't have is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitReport {
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// When it is back in full.
    pub resets_in: Option<Duration>,
    /// Over what it counts.
    pub span: Span,
}

/// What one reply's headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateReport {
    pub requests: LimitReport,
    /// Tokens, of prompts and replies together.
    pub tokens: LimitReport,
    /// Tokens of prompts.
    pub input_tokens: LimitReport,
    /// Tokens of replies.
    pub output_tokens: LimitReport,
}

impl LimitReport {
    /// The limit, if it can be one per minute.
    ///
    /// Where the family doesn't say so, the reset must: a limit of which something is used and that is back in full in
    /// 10-61 s, or one that fills up evenly (a reset of n seconds for n sixtieths used).
    pub fn per_minute(&self) -> Option<u64> {
        let limit = self.limit.filter(|limit| (1..=MOST).contains(limit))?;
        if self.span == Span::Minute {
            return Some(limit);
        }
        let reset = self.resets_in?;
        let used = limit
            .checked_sub(self.remaining?)
            .filter(|used| *used > 0)?;
        let fills_in = reset.as_secs_f64() * limit as f64 / used as f64;
        let in_a_minute = (54.0..=66.0).contains(&fills_in) && reset > TOO_SHORT_TO_TELL;
        (reset <= LONGEST_MINUTE && (reset > BEYOND_SECONDS || in_a_minute)).then_some(limit)
    }

    /// Whether it counts over more than a minute for sure.
    pub fn is_longer_than_a_minute(&self) -> bool {
        self.span == Span::Unsaid && self.resets_in.is_some_and(|reset| reset > LONGEST_MINUTE)
    }

    /// For how long nothing is left; `None` where something is, or where the figures make no sense.
    pub fn nothing_left_for(&self) -> Option<Duration> {
        let means_something = self.remaining == Some(0) && self.limit != Some(0);
        self.resets_in
            .filter(|reset| means_something && !reset.is_zero())
    }
}

impl RateReport {
    /// The limits, in the order of the fields.
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
    fn only_what_can_be_a_minutes_figure_is_believed() {
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
    fn nothing_is_left_only_where_there_is_a_limit_and_a_reset() {
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
