//! Finds the judges whose spending cap is exceeded. No I/O.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, NaiveTime, Utc};

use crate::judge::{Cap, Caps};
use crate::store::JudgeSpent;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exceeded {
    pub(super) message: String,
    /// End of the cap's day or month.
    pub(super) until: DateTime<Utc>,
}

/// Returns the judges over a cap, each with the cap that lasts longest.
pub(super) fn exceeded(
    caps: &Caps,
    spent: &[JudgeSpent],
    now: DateTime<Utc>,
) -> BTreeMap<String, Exceeded> {
    let of_all = sums(spent.iter());
    let total = over(caps.total, of_all, "all judges", now);
    let mut stopped = BTreeMap::new();
    for entry in &caps.entries {
        let of_entry = spent
            .iter()
            .filter(|judge| entry_of(&judge.judge) == entry.entry);
        let own = over(entry.cap, sums(of_entry), &entry.entry, now);
        let longest = own.into_iter().chain(total.clone()).max_by_key(|r| r.until);
        if let Some(exceeded) = longest {
            let judges = entry.judges.iter().cloned();
            stopped.extend(judges.map(|judge| (judge, exceeded.clone())));
        }
    }
    stopped
}

fn entry_of(judge: &str) -> &str {
    judge.split_once(':').map_or(judge, |(entry, _)| entry)
}

fn sums<'a>(spent: impl Iterator<Item = &'a JudgeSpent>) -> (f64, f64) {
    spent.fold((0.0, 0.0), |(today, month), judge| {
        (today + judge.today_usd, month + judge.month_usd)
    })
}

fn over(cap: Cap, (today, month): (f64, f64), of: &str, now: DateTime<Utc>) -> Option<Exceeded> {
    let exceeded = |cap: Option<f64>, spent: f64, period: &str, end: Option<NaiveDate>| {
        let usd = cap.filter(|cap| spent >= *cap)?;
        Some(Exceeded {
            message: format!("the {period} cap of {of}, {usd} USD, is reached"),
            until: end.map_or(DateTime::<Utc>::MAX_UTC, midnight),
        })
    };
    let date = now.date_naive();
    let next_month = date
        .with_day(1)
        .and_then(|first| first.checked_add_months(Months::new(1)));
    let by_month = exceeded(cap.monthly_usd, month, "monthly", next_month);
    let by_day = || {
        let tomorrow = date.checked_add_days(Days::new(1));
        exceeded(cap.daily_usd, today, "daily", tomorrow)
    };
    by_month.or_else(by_day)
}

fn midnight(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::EntryCap;

    fn caps(total: Cap, a: Cap) -> Caps {
        let entry = |name: &str, cap| EntryCap {
            entry: name.to_owned(),
            judges: vec![name.to_owned(), format!("{name}:m")],
            cap,
        };
        Caps {
            total,
            entries: vec![entry("a", a), entry("b", Cap::default())],
        }
    }

    fn spent(judge: &str, today_usd: f64, month_usd: f64) -> JudgeSpent {
        JudgeSpent {
            judge: judge.to_owned(),
            today_usd,
            month_usd,
            today_unpriced_calls: 0,
            unpriced_calls: 0,
        }
    }

    fn stopped(caps: &Caps, spent: &[JudgeSpent], now: &str) -> Vec<(String, String)> {
        let exceeded = exceeded(caps, spent, now.parse().unwrap());
        let line = |(judge, exceeded): (String, Exceeded)| (judge, exceeded.until.to_rfc3339());
        exceeded.into_iter().map(line).collect()
    }

    const NONE: Cap = Cap {
        daily_usd: None,
        monthly_usd: None,
    };
    const NOW: &str = "2026-12-31T23:59:59Z";

    fn both(judge: &str, until: &str) -> Vec<(String, String)> {
        let until = format!("{until}T00:00:00+00:00");
        let names = [judge.to_owned(), format!("{judge}:m")];
        names.map(|name| (name, until.clone())).to_vec()
    }

    #[test]
    fn reached_cap_stops_judges_of_entry_until_period_ends() {
        let daily = caps(NONE, Cap::new(10.0, 0.0));
        let nearly = [
            spent("a", 4.0, 90.0),
            spent("a:m", 5.999, 6.0),
            spent("b", 50.0, 50.0),
        ];
        assert_eq!(stopped(&daily, &nearly, NOW), []);
        let reaching = [spent("a", 4.0, 90.0), spent("a:m", 6.0, 6.0)];
        assert_eq!(stopped(&daily, &reaching, NOW), both("a", "2027-01-01"));
        assert_eq!(stopped(&daily, &[], NOW), []);

        let monthly = caps(NONE, Cap::new(10.0, 96.0));
        let at = "2026-02-03T04:05:06Z";
        assert_eq!(stopped(&monthly, &reaching, at), both("a", "2026-03-01"));
        assert_eq!(stopped(&monthly, &reaching[1..], at), []);
    }

    #[test]
    fn total_cap_stops_all_judges_and_longest_stop_wins() {
        let total = caps(Cap::new(60.0, 0.0), Cap::new(0.0, 90.0));
        let spent = [spent("a", 30.0, 90.0), spent("b", 30.0, 30.0)];
        let at = "2026-02-03T04:05:06Z";
        let mut expected = both("a", "2026-03-01");
        expected.extend(both("b", "2026-02-04"));
        assert_eq!(stopped(&total, &spent, at), expected);
        let exceeded = exceeded(&total, &spent, at.parse().unwrap());
        assert_eq!(
            exceeded["a"].message,
            "the monthly cap of a, 90 USD, is reached"
        );
        assert_eq!(
            exceeded["b"].message,
            "the daily cap of all judges, 60 USD, is reached"
        );
    }
}
