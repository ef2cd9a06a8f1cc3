//! Days, weeks and months, by UTC.

use std::fmt;
use std::str::FromStr;

use chrono::{Datelike as _, Days, Months, NaiveDate};
use serde::Serialize;

use crate::job::UnknownText;

/// How long a period is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// A day.
    Day,
    /// From Monday on.
    Week,
    /// From the first on.
    Month,
}

impl Period {
    const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The first day of the period that a day lies in.
    pub fn begin(self, day: NaiveDate) -> NaiveDate {
        let begin = match self {
            Self::Day => Some(day),
            Self::Week => {
                let since_monday = u64::from(day.weekday().num_days_from_monday());
                day.checked_sub_days(Days::new(since_monday))
            }
            Self::Month => day.with_day(1),
        };
        begin.unwrap_or(day)
    }

    /// The first day of the period so many before the one that a day lies in.
    pub fn back(self, day: NaiveDate, periods: u32) -> NaiveDate {
        let begin = self.begin(day);
        let back = match self {
            Self::Day => begin.checked_sub_days(Days::new(periods.into())),
            Self::Week => begin.checked_sub_days(Days::new(u64::from(periods) * 7)),
            Self::Month => begin.checked_sub_months(Months::new(periods)),
        };
        back.unwrap_or(begin)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Period {
    type Err = UnknownText;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|period| period.as_str() == text);
        found.ok_or_else(|| UnknownText {
            text: text.to_owned(),
            known: Self::ALL.map(Self::as_str).join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_lies_in_its_period_and_periods_are_counted_back() {
        let day = |text: &str| -> NaiveDate { text.parse().unwrap() };
        let sunday = day("2026-03-01");
        for (every, begin, two_back) in [
            (Period::Day, "2026-03-01", "2026-02-27"),
            (Period::Week, "2026-02-23", "2026-02-09"),
            (Period::Month, "2026-03-01", "2026-01-01"),
        ] {
            assert_eq!(every.begin(sunday), day(begin), "{every}");
            assert_eq!(every.back(sunday, 2), day(two_back), "{every}");
        }
        assert_eq!(Period::Week.begin(day("2026-02-23")), day("2026-02-23"));
        assert_eq!(Period::Month.back(day("2026-03-31"), 1), day("2026-02-01"));
    }

    #[test]
    fn a_period_reads_back_and_another_word_lists_the_known() {
        for period in Period::ALL {
            assert_eq!(period.as_str().parse(), Ok(period));
        }
        let error = "hour".parse::<Period>().unwrap_err().to_string();
        assert!(error.contains("day, week, month"), "{error}");
    }
}
