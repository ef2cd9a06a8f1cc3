//! Judges and what stops them, as `/api/v1/judges` lists them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Kind, WaitReason};

/// A lane, or all of them, closed until somebody opens it or `until` passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hold {
    /// `paused` by an operator, `exhausted` or `misconfigured` by a worker that met it, `budget` by a cap that is reached.
    pub reason: WaitReason,
    /// The operator's or the provider's words.
    pub message: String,
    pub set_by: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// When it opens by itself; null: somebody must resume it.
    pub until: Option<DateTime<Utc>>,
}

/// What one worker's gate knows of a judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Gate {
    pub worker_id: Uuid,
    /// `closed` (calls go out), `open` or `half_open`.
    pub breaker: String,
    /// Why it lets nothing through now; null if it does.
    pub reason: Option<WaitReason>,
    /// When it lets calls through again, if known.
    pub until: Option<DateTime<Utc>>,
    /// Transient failures in a row.
    pub failures_in_row: i32,
    /// Calls in flight.
    pub in_flight: i32,
    /// The last error's text; it stays while the judge answers again.
    pub last_error: Option<String>,
    pub last_error_at: Option<DateTime<Utc>>,
    /// How fast it may be asked.
    pub pace: Option<JudgePace>,
    /// When the worker said so.
    pub updated_at: DateTime<Utc>,
}

/// One judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Judge {
    /// Its name: a provider entry, or `entry:model`.
    pub name: String,
    /// Whether it could be asked.
    pub configured: bool,
    /// What to do if it isn't.
    pub remedy: Option<String>,
    /// Whether its replies are made up.
    pub simulated: bool,
    /// The kinds whose current criteria name it.
    pub kinds: Vec<Kind>,
    /// The hold that stops its lane, if any.
    pub hold: Option<Hold>,
    /// What live workers know of it.
    pub gates: Vec<Gate>,
    pub spent: Spent,
    /// The cap of its entry, if it has one.
    pub cap: Option<Cap>,
}

/// Every judge, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Judges {
    pub items: Vec<Judge>,
    /// The hold that stops every lane, if any.
    pub queue_hold: Option<Hold>,
    /// What all judges cost.
    pub spent: Spent,
    /// The cap over all judges, if there is one.
    pub cap: Option<Cap>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// Why something is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PauseRequest {
    /// For those who wonder why nothing moves; at most 500 characters.
    #[schema(max_length = 500)]
    pub message: Option<String>,
    /// When it resumes by itself; left out: when somebody resumes it.
    pub until: Option<DateTime<Utc>>,
}

/// What is paused now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Paused {
    /// The hold that is set.
    pub hold: Hold,
}

/// What came of resuming a judge or the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Resumed {
    /// Whether there was a hold; false: nothing was paused.
    pub released: bool,
}

/// How fast a judge may be asked, as one worker process sees it. Where `together` is true the limits hold for all workers;
/// what a minute used is each worker's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JudgePace {
    pub requests: Meter,
    /// Tokens, of prompts and answers together.
    pub tokens: Meter,
    /// Tokens of prompts, where the server limits them apart.
    pub input_tokens: Meter,
    /// Tokens of answers, where the server limits them apart.
    pub output_tokens: Meter,
    /// Until when it is slower than that because the judge said 429; null: it isn't.
    pub shrunk_until: Option<DateTime<Utc>>,
    /// Until when nothing is asked because a reply said that nothing is left of a limit; null: something is.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether the limits hold for all workers together.
    pub together: bool,
    /// Redis is away, and each worker keeps to its part of the limits: among how many they are divided. Null: they aren't.
    pub part_of: Option<u32>,
}

/// One quantity that is limited by the minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Meter {
    /// The limit that holds now, a minute; null for none.
    pub limit: Option<u64>,
    /// The limit as configured; null for none.
    pub configured: Option<u64>,
    /// The limit as the server's replies say; null where they say none, or none that can be a minute's.
    pub learned: Option<u64>,
    /// What went out within the last minute.
    pub used_last_minute: u64,
}

/// What was spent, as far as prices are known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spent {
    /// USD of today's calls, by UTC; null where there are some and none has a price.
    pub today_usd: Option<f64>,
    /// USD of this month's calls, today's included; null where there are some and none has a price.
    pub month_usd: Option<f64>,
    /// Today's calls whose price is unknown: what they cost comes on top.
    pub today_unpriced_calls: i64,
    /// This month's calls whose price is unknown: what they cost comes on top.
    pub unpriced_calls: i64,
}

/// A cap, and what was spent of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Cap {
    /// The provider entry whose judges it stops; null: all of them.
    pub entry: Option<String>,
    /// USD that may be spent in a day of UTC; null: no such cap.
    pub daily_cap_usd: Option<f64>,
    /// USD that may be spent in a month of UTC; null: no such cap.
    pub monthly_cap_usd: Option<f64>,
    /// What all judges that it is of spent together.
    pub spent: Spent,
}
