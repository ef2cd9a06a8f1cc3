//! Days, weeks and months, by UTC.

use chrono::{Datelike as _, Days, Months, NaiveDate};

use crate::wire::Period;

impl Period {
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
}
