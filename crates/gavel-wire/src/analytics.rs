//! What current scores come to, and how quickly judges answer, as `/api/v1/analytics` tells of it.

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Rating;
use crate::text_enum;

text_enum! {
    /// What a table is written as.
    pub enum TableFormat {
        /// Text, a line a row.
        Csv = "csv",
        /// Columns with their types, for pandas, DuckDB and their kin.
        Parquet = "parquet",
    }
}

text_enum! {
    /// How long a period is.
    pub enum Period {
        Day = "day",
        /// From Monday on.
        Week = "week",
        /// From the first on.
        Month = "month",
    }
}

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

/// Scores whose totals lie next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Bucket {
    /// The lowest total.
    pub from: u8,
    /// The highest total, included.
    pub to: u8,
    /// How many scores.
    pub scores: u64,
}

/// Scores with the same rating.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RatingShare {
    pub rating: Rating,
    /// How many scores.
    pub scores: u64,
    /// Of all scores, 0-1; null without any.
    pub share: Option<f64>,
}

/// How many of the sessions are counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Coverage {
    /// Sessions in this time, scored or not, wherever they stand.
    pub sessions: u64,
    /// Those whose current score is counted here.
    pub scored: u64,
    /// The others: without a score, or with one of other criteria or of a simulated judge.
    pub unscored: u64,
    /// Scored of all, 0-1; null without sessions.
    pub share: Option<f64>,
}

/// How current scores are spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Distribution {
    /// The criteria of the scores; null: any.
    pub criteria_hash: Option<String>,
    /// How many scores.
    pub scores: u64,
    /// Their mean; null without scores, as the following.
    pub mean: Option<f64>,
    pub median: Option<f64>,
    /// Their standard deviation, of a sample; null for fewer than two.
    pub sd: Option<f64>,
    /// A quarter of them lies below; between two totals by interpolation.
    pub quartile_1: Option<f64>,
    /// A quarter of them lies above.
    pub quartile_3: Option<f64>,
    pub min: Option<u8>,
    pub max: Option<u8>,
    /// From 0 to 100, the empty buckets too.
    pub histogram: Vec<Bucket>,
    /// By rating, the worst first.
    pub ratings: Vec<RatingShare>,
    /// How many of the sessions are counted.
    pub coverage: Coverage,
    /// Whether the scores are those of a simulated judge.
    pub simulated: bool,
    /// What makes the figures say less than they seem to.
    pub warnings: Vec<String>,
}

/// The scores of a period under the same criteria.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrendItem {
    /// The period's first day, of UTC. The first and the last period may be cut by `from` and `to`.
    pub period: NaiveDate,
    /// Of the criteria that the scores were made with: 64 hex digits.
    pub criteria_hash: String,
    /// Whether these are the criteria that sessions are scored with now.
    pub is_current: bool,
    /// How many scores.
    pub scores: u64,
    /// The mean total, 0-100; null without scores, as the median.
    pub mean: Option<f64>,
    pub median: Option<f64>,
}

/// How current scores move over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Trend {
    /// How long a period is.
    pub every: Period,
    /// From when on.
    pub from: DateTime<Utc>,
    /// Until when; null: up to now.
    pub to: Option<DateTime<Utc>>,
    /// By period, then by criteria; a period without scores has none.
    pub items: Vec<TrendItem>,
    /// How many scores in all.
    pub scores: u64,
    /// Whether the scores are those of a simulated judge.
    pub simulated: bool,
    /// What makes the figures say less than they seem to.
    pub warnings: Vec<String>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// How a name was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spelling {
    /// As judges wrote it.
    pub name: String,
    /// How often.
    pub times: i64,
}

/// Where to go from a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameLinks {
    /// The sessions whose current score has it, of all criteria and times.
    pub sessions: String,
}

/// A name, and how many sessions it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameItem {
    /// Its most frequent spelling.
    pub name: String,
    /// Sessions, each counted once.
    pub sessions: i64,
    /// Of the sessions that are counted, 0-1.
    pub share: Option<f64>,
    /// Its spellings, the most frequent first; at most 20.
    pub spellings: Vec<Spelling>,
    /// Where to go from here; null where there is no such list.
    pub links: Option<NameLinks>,
}

/// Names in current scores, those of most sessions first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameList {
    pub items: Vec<NameItem>,
    /// How many sessions are counted: one current score each.
    pub scores: u64,
    /// Whether the scores are those of a simulated judge.
    pub simulated: bool,
    /// What makes the figures say less than they seem to.
    pub warnings: Vec<String>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// The scores of sessions that have an agent, an alert type or a tag in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreGroup {
    /// What they have in common.
    pub name: String,
    /// How many scores.
    pub scores: u64,
    /// The mean total, 0-100.
    pub mean: f64,
    pub min: u8,
    pub max: u8,
}

/// Current scores by agent, alert type and tag; in each list those with most scores first, at most 50.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreGroups {
    /// The criteria of the scores; null: any.
    pub criteria_hash: Option<String>,
    /// By the sessions' agent.
    pub agents: Vec<ScoreGroup>,
    /// By their alert type.
    pub alert_types: Vec<ScoreGroup>,
    /// By tag: a session counts for each of its tags.
    pub tags: Vec<ScoreGroup>,
    /// How many scores.
    pub scores: u64,
    /// Whether the scores are those of a simulated judge.
    pub simulated: bool,
    /// What makes the figures say less than they seem to.
    pub warnings: Vec<String>,
}

/// A tool that a score calls missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreTool {
    /// As the score has it; of several spellings the first.
    pub name: String,
    /// Other sessions whose current score calls it missing, however it is spelled there; counted up to 1,000.
    pub other_sessions: i64,
    /// Whether there are more than that.
    pub more: bool,
    /// Where to go from here.
    pub links: NameLinks,
}

/// The tools that a score calls missing, in its order, each once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreTools {
    pub score_id: Uuid,
    pub items: Vec<ScoreTool>,
    /// Whether the score is that of a simulated judge: then only simulated ones are counted.
    pub simulated: bool,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// How quickly a judge answered: figures of calls with a good reply, each rounded up by a fifth at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LatencyItem {
    /// A provider entry, or `entry:model`.
    pub judge: String,
    /// Calls with a good reply.
    pub calls: i64,
    /// Half of them took at most so long, milliseconds.
    pub p50_ms: u64,
    /// 90 of 100 took at most so long, milliseconds.
    pub p90_ms: u64,
    /// 99 of 100 took at most so long, milliseconds.
    pub p99_ms: u64,
}

/// How quickly judges answered on some days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LatencyList {
    /// The first day, of UTC.
    pub from: NaiveDate,
    /// The last day, included.
    pub to: NaiveDate,
    /// A line for each judge that answered, by name.
    pub items: Vec<LatencyItem>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
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
