//! Charts and texts made from the API's analytics. Used by the overview and the insights page.

use chrono::{DateTime, Days, Months, NaiveDate, Utc};

use super::chart::{Bar, Chart, ChartLine, bars, lines};
use super::words;
use crate::api::analytics::distribution::HistogramQuery;
use crate::wire::{Bucket, Distribution, Period, Trend, TrendItem};

/// Minimum number of scores for a chart.
pub(super) const ENOUGH: u64 = 20;

/// Buckets of five points, so that each bucket is within one rating and has its colour.
pub(super) fn by_rating() -> HistogramQuery {
    HistogramQuery { points: Some(5) }
}
const DAY: &str = "%-d %b";
/// Maximum number of criteria versions with a line, so that the lines stay distinguishable.
const LINES: usize = 4;

pub(super) fn histogram(found: &Distribution) -> Option<Chart> {
    if found.scores < ENOUGH {
        return None;
    }
    let of = |bucket: &Bucket| Bar {
        label: format!("{}-{}", bucket.from, bucket.to),
        value: float(bucket.scores),
        shown: words::grouped(bucket.scores),
        class: format!("rating-{}", words::rating(bucket.from).1),
    };
    let all: Vec<Bar> = found.histogram.iter().map(of).collect();
    let summary = format!(
        "{}{}: mean {:.1}, median {:.1}.",
        words::counted(found.scores, "score"),
        if found.simulated {
            " of a simulated judge"
        } else {
            ""
        },
        found.mean.unwrap_or_default(),
        found.median.unwrap_or_default(),
    );
    let shown = |n: f64| format!("{n:.0}");
    Some(bars(
        "Totals of scores",
        summary,
        ("Total", "Sessions"),
        &all,
        shown,
    ))
}

/// Lines of mean totals, one per criteria version, over all periods from the first to the last including empty ones.
pub(super) fn means(trend: &Trend) -> Option<Chart> {
    if trend.scores < ENOUGH {
        return None;
    }
    let (periods, form) = periods(&trend.items, trend.every);
    let mut of: Vec<(&TrendItem, ChartLine)> = Vec::new();
    for point in &trend.items {
        let at = periods.iter().position(|day| *day == point.period);
        let (Some(mean), Some(at)) = (point.mean, at) else {
            continue;
        };
        let hash = point.criteria_hash.as_str();
        match of.iter_mut().find(|(of, _)| of.criteria_hash == hash) {
            Some((_, line)) => line.points.push((at, mean)),
            None => {
                let mark = if point.is_current { ", current" } else { "" };
                let line = ChartLine {
                    name: format!("{}{mark}", words::short(hash)),
                    points: vec![(at, mean)],
                };
                of.push((point, line));
            }
        }
    }
    let versions = of.len();
    // The current version first, then by newest session.
    of.sort_by_key(|(point, line)| {
        let newest = line.points.last().map(|(at, _)| *at);
        (!point.is_current, std::cmp::Reverse(newest))
    });
    of.truncate(LINES);
    let summary = summary(trend, of.first().map(|(point, _)| *point), versions);
    let of: Vec<ChartLine> = of.into_iter().map(|(_, line)| line).collect();
    let labels: Vec<String> = periods
        .iter()
        .map(|day| day.format(form).to_string())
        .collect();
    Some(lines(
        "Mean total over time",
        summary,
        &labels,
        &of,
        100.0,
        // Axis ticks are integers; the table has one decimal like the text.
        |n| match n.fract() == 0.0 {
            true => format!("{n:.0}"),
            false => format!("{n:.1}"),
        },
    ))
}

/// Description of the trend of one criteria version. Means of different versions aren't compared.
fn summary(trend: &Trend, version: Option<&TrendItem>, versions: usize) -> String {
    let Some(version) = version else {
        return String::new();
    };
    let mut of = trend
        .items
        .iter()
        .filter(|point| point.criteria_hash == version.criteria_hash);
    let first = of.next();
    let in_words = |point: &TrendItem| {
        let mean = point.mean.unwrap_or_default();
        format!("{mean:.1} ({})", words::counted(point.scores, "score"))
    };
    let means = match (first, of.next_back()) {
        (Some(first), Some(last)) => {
            format!("{} at first, {} at last", in_words(first), in_words(last))
        }
        (only, _) => only.map_or_else(String::new, in_words),
    };
    let others = match versions {
        0 | 1 => String::new(),
        n if n > LINES => match version.is_current {
            true => format!(
                " {LINES} of {n} versions are shown: the current one and the versions with the newest sessions."
            ),
            false => {
                format!(
                    " {LINES} of {n} versions are shown: the versions with the newest sessions."
                )
            }
        },
        n => format!(" {n} versions are shown."),
    };
    format!(
        "Mean total under {} {}: {means}.{others}",
        if version.is_current {
            "the current criteria"
        } else {
            "criteria"
        },
        words::short(&version.criteria_hash),
    )
}

/// All periods from the first to the last, and the date format of their labels.
fn periods(items: &[TrendItem], every: Period) -> (Vec<NaiveDate>, &'static str) {
    let (Some(first), Some(last)) = (
        items.iter().map(|point| point.period).min(),
        items.iter().map(|point| point.period).max(),
    ) else {
        return (Vec::new(), DAY);
    };
    let (step, form): (fn(NaiveDate) -> Option<NaiveDate>, _) = match every {
        Period::Day => (|day| day.succ_opt(), DAY),
        Period::Week => (|day| day.checked_add_days(Days::new(7)), DAY),
        Period::Month => (|day| day.checked_add_months(Months::new(1)), "%b %Y"),
    };
    let next = |day: &NaiveDate| step(*day).filter(|day| *day <= last);
    (std::iter::successors(Some(first), next).collect(), form)
}

pub(super) fn each_day(days: impl IntoIterator<Item = NaiveDate>) -> Vec<NaiveDate> {
    let days: Vec<NaiveDate> = days.into_iter().collect();
    match (days.iter().min(), days.iter().max()) {
        (Some(first), Some(last)) => first.iter_days().take_while(|day| day <= last).collect(),
        (None, _) | (_, None) => Vec::new(),
    }
}

/// `2 Nov`.
pub(super) fn short_day(day: NaiveDate) -> String {
    day.format(DAY).to_string()
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), words::percent)
}

#[expect(clippy::cast_precision_loss, reason = "a height on a screen")]
fn float(n: u64) -> f64 {
    n as f64
}

/// Start of the day `days` ago.
pub(super) fn days_ago(now: DateTime<Utc>, days: i64) -> DateTime<Utc> {
    let then = now.checked_sub_signed(chrono::Duration::days(days));
    then.unwrap_or(now)
        .date_naive()
        .and_time(chrono::NaiveTime::MIN)
        .and_utc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn distribution(histogram: serde_json::Value) -> Distribution {
        let body = json!({
            "scores": 40, "simulated": false, "criteria_hash": null, "mean": 70.0, "median": 72.0, "histogram": histogram, "ratings": [],
            "coverage": {"sessions": 40, "scored": 40, "unscored": 0, "share": 1.0}, "warnings": [],
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn histogram_bars_have_one_rating() {
        let bucket = |from: u8, to: u8| json!({"from": from, "to": to, "scores": 20});
        let page = |chart: Chart| askama::Template::render(&chart).unwrap();
        let found = distribution(json!([bucket(40, 44), bucket(45, 49), bucket(75, 79)]));
        let page = page(histogram(&found).unwrap());
        let colours: Vec<&str> = page
            .split("class=\"bar ")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(colours, ["rating-failed", "rating-weak", "rating-good"]);
        for from in (0..=95).step_by(5) {
            let to = if from == 95 { 100 } else { from + 4 };
            assert_eq!(words::rating(from), words::rating(to), "{from}-{to}");
        }
    }

    fn trend(items: &[(&str, &str, f64)]) -> Trend {
        every("day", items)
    }

    fn every(every: &str, items: &[(&str, &str, f64)]) -> Trend {
        let items: Vec<_> = items
            .iter()
            .map(|(period, hash, mean)| {
                json!({"period": period, "criteria_hash": hash, "is_current": hash.starts_with('c'), "scores": 10, "mean": mean})
            })
            .collect();
        let trend = json!({"scores": 40, "every": every, "items": items, "from": "2026-01-01T00:00:00Z", "simulated": false, "warnings": []});
        serde_json::from_value(trend).unwrap()
    }

    #[test]
    fn trend_includes_empty_periods() {
        let days = trend(&[("2026-11-10", "a", 1.0), ("2026-11-13", "a", 2.0)]);
        let labels = |of: &Trend| -> Vec<String> {
            let (periods, form) = periods(&of.items, of.every);
            periods
                .iter()
                .map(|day| day.format(form).to_string())
                .collect()
        };
        let found = labels(&days);
        assert_eq!(found, ["10 Nov", "11 Nov", "12 Nov", "13 Nov"]);
        let months = every(
            "month",
            &[("2026-01-01", "a", 1.0), ("2026-04-01", "a", 2.0)],
        );
        assert_eq!(
            labels(&months),
            ["Jan 2026", "Feb 2026", "Mar 2026", "Apr 2026"]
        );
        // A single month is labelled as a month; days on the first of a month are labelled as days.
        let month = every("month", &[("2026-11-01", "a", 1.0)]);
        assert_eq!(labels(&month), ["Nov 2026"]);
        let days = trend(&[("2026-10-01", "a", 1.0), ("2026-11-01", "a", 2.0)]);
        assert_eq!(labels(&days).len(), 32);
        let weeks = every(
            "week",
            &[("2026-11-02", "a", 1.0), ("2026-11-16", "a", 2.0)],
        );
        assert_eq!(labels(&weeks), ["2 Nov", "9 Nov", "16 Nov"]);
        assert!(labels(&trend(&[])).is_empty());
    }

    #[test]
    fn trend_describes_one_version_preferring_the_current_one() {
        let page = |of: &[(&str, &str, f64)]| {
            let chart = means(&trend(of)).unwrap();
            askama::Template::render(&chart).unwrap()
        };
        let page_of_two = page(&[
            ("2026-11-10", "aaaaaaaaaa", 60.0),
            ("2026-11-11", "bbbbbbbbbb", 30.0),
            ("2026-11-12", "bbbbbbbbbb", 50.0),
        ]);
        let summary = "Mean total under criteria bbbbbbbb: 30.0 (10 scores) at first, 50.0 (10 scores) at last. 2 versions are shown.";
        assert!(page_of_two.contains(summary), "{page_of_two}");
        assert!(!page_of_two.contains("current"), "{page_of_two}");
        // The current version is first even if others have newer sessions.
        let many: Vec<String> = (0..6).map(|n| format!("{n}").repeat(10)).collect();
        let mut many: Vec<_> = many
            .iter()
            .map(|hash| ("2026-11-12", hash.as_str(), 50.0))
            .collect();
        let page_of_many = page(&many);
        let summary = "4 of 6 versions are shown: the versions with the newest sessions.";
        assert!(page_of_many.contains(summary), "{page_of_many}");
        many.insert(0, ("2026-11-10", "cccccccccc", 40.0));
        let page_of_many = page(&many);
        for part in [
            "Mean total under the current criteria cccccccc: 40.0 (10 scores).",
            "4 of 7 versions are shown: the current one and the versions with the newest sessions.",
            ">cccccccc, current</text>",
            "of-3",
        ] {
            assert!(page_of_many.contains(part), "{part}: {page_of_many}");
        }
        assert!(!page_of_many.contains("of-4"), "{page_of_many}");
    }
}
