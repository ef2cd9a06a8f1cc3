//! Types of `/api/v1/analytics`: score statistics and judge latency.

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Rating;
use crate::text_enum;

text_enum! {
    pub enum TableFormat {
        Csv = "csv",
        /// Parquet: typed columns, for pandas or DuckDB.
        Parquet = "parquet",
    }
}

text_enum! {
    pub enum Period {
        Day = "day",
        /// Starts on Monday.
        Week = "week",
        /// Starts on the first.
        Month = "month",
    }
}

impl Period {
    /// Returns the first day of the period that contains `day`.
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

    /// Returns the first day of the period `periods` before the one that contains `day`.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Bucket {
    pub from: u8,
    /// Highest total, inclusive.
    pub to: u8,
    pub scores: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RatingShare {
    pub rating: Rating,
    pub scores: u64,
    /// Share of all scores, 0-1. Null without scores.
    pub share: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Coverage {
    /// All sessions in the period, in any state.
    pub sessions: u64,
    /// Sessions with an included current score.
    pub scored: u64,
    /// Sessions without a score, or with a score by other criteria or by a simulated judge.
    pub unscored: u64,
    /// `scored` / `sessions`, 0-1. Null without sessions.
    pub share: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Distribution {
    /// Hash of the scores' criteria. Null: any.
    pub criteria_hash: Option<String>,
    pub scores: u64,
    /// Mean total. All statistics are null without scores.
    pub mean: Option<f64>,
    pub median: Option<f64>,
    /// Sample standard deviation. Null for fewer than two scores.
    pub sd: Option<f64>,
    /// First quartile, interpolated between totals.
    pub quartile_1: Option<f64>,
    pub quartile_3: Option<f64>,
    pub min: Option<u8>,
    pub max: Option<u8>,
    /// Buckets from 0 to 100, including empty ones.
    pub histogram: Vec<Bucket>,
    /// Per rating, worst first.
    pub ratings: Vec<RatingShare>,
    pub coverage: Coverage,
    pub simulated: bool,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrendItem {
    /// First day of the period in UTC. `from` and `to` may cut the first and the last period.
    pub period: NaiveDate,
    pub criteria_hash: String,
    /// Whether new requests use these criteria.
    pub is_current: bool,
    pub scores: u64,
    /// Mean total, 0-100. Mean and median are null without scores.
    pub mean: Option<f64>,
    pub median: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Trend {
    pub every: Period,
    /// Start, inclusive.
    pub from: DateTime<Utc>,
    /// End, exclusive. Null: now.
    pub to: Option<DateTime<Utc>>,
    /// Sorted by period, then by criteria. Periods without scores are omitted.
    pub items: Vec<TrendItem>,
    pub scores: u64,
    pub simulated: bool,
    pub warnings: Vec<String>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spelling {
    /// As written by judges.
    pub name: String,
    pub times: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameLinks {
    /// Sessions with this name in their current score, for all criteria and times.
    pub sessions: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameItem {
    /// Most frequent spelling.
    pub name: String,
    pub sessions: i64,
    /// Share of the included sessions, 0-1.
    pub share: Option<f64>,
    /// Up to 20 spellings, most frequent first.
    pub spellings: Vec<Spelling>,
    /// Links to related resources. Null if no such list exists.
    pub links: Option<NameLinks>,
}

/// Names in current scores, by number of sessions, highest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameList {
    pub items: Vec<NameItem>,
    /// Number of included sessions, with one current score each.
    pub scores: u64,
    pub simulated: bool,
    pub warnings: Vec<String>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

/// Scores of sessions with a common agent, alert type or tag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreGroup {
    pub name: String,
    pub scores: u64,
    /// Mean total, 0-100.
    pub mean: f64,
    pub min: u8,
    pub max: u8,
}

/// Current scores by agent, alert type and tag. Each list has at most 50 groups, those with most scores first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreGroups {
    /// Hash of the scores' criteria. Null: any.
    pub criteria_hash: Option<String>,
    pub agents: Vec<ScoreGroup>,
    pub alert_types: Vec<ScoreGroup>,
    /// By tag. A session counts once per tag.
    pub tags: Vec<ScoreGroup>,
    pub scores: u64,
    pub simulated: bool,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreTool {
    /// Spelling in the score. With several spellings, the first.
    pub name: String,
    /// Number of other sessions with the tool missing in their current score, regardless of spelling. Counted up to 1,000.
    pub other_sessions: i64,
    /// Whether more than 1,000 sessions match.
    pub more: bool,
    pub links: NameLinks,
}

/// Distinct missing tools of a score, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreTools {
    pub score_id: Uuid,
    pub items: Vec<ScoreTool>,
    /// Whether a simulated judge produced the score. If so, only simulated scores are counted.
    pub simulated: bool,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

/// Latency of a judge. Includes only calls with a valid reply. Each percentile is rounded up, by at most 20 %.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LatencyItem {
    /// A provider entry, or `entry:model`.
    pub judge: String,
    /// Calls with a valid reply.
    pub calls: i64,
    /// Median latency, milliseconds.
    pub p50_ms: u64,
    /// 90th percentile, milliseconds.
    pub p90_ms: u64,
    /// 99th percentile, milliseconds.
    pub p99_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LatencyList {
    /// First day, UTC.
    pub from: NaiveDate,
    /// Last day, inclusive.
    pub to: NaiveDate,
    /// One row per judge, by name.
    pub items: Vec<LatencyItem>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_period_start_and_earlier_periods() {
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
