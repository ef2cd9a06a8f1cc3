//! How fast a worker may ask a judge, as clients see it: limits now, as configured and as learned, and what a minute used.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::store::{MeterRow, PaceRow};

/// How fast a judge may be asked, as one worker process sees it. Where `together` is true the limits hold for all workers;
/// what a minute used is each worker's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct PaceView {
    /// Requests.
    pub(super) requests: MeterView,
    /// Tokens, of prompts and answers together.
    pub(super) tokens: MeterView,
    /// Tokens of prompts, where the server limits them apart.
    pub(super) input_tokens: MeterView,
    /// Tokens of answers, where the server limits them apart.
    pub(super) output_tokens: MeterView,
    /// Until when it is slower than that because the judge said 429; null: it isn't.
    pub(super) shrunk_until: Option<DateTime<Utc>>,
    /// Until when nothing is asked because a reply said that nothing is left of a limit; null: something is.
    pub(super) held_until: Option<DateTime<Utc>>,
    /// Whether the limits hold for all workers together.
    pub(super) together: bool,
    /// Redis is away, and each worker keeps to its part of the limits: among how many they are divided. Null: they aren't.
    pub(super) part_of: Option<u32>,
}

/// One quantity that is limited by the minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct MeterView {
    /// The limit that holds now, a minute; null for none.
    pub(super) limit: Option<u64>,
    /// The limit as configured; null for none.
    pub(super) configured: Option<u64>,
    /// The limit as the server's replies say; null where they say none, or none that can be a minute's.
    pub(super) learned: Option<u64>,
    /// What went out within the last minute.
    pub(super) used_last_minute: u64,
}

impl From<MeterRow> for MeterView {
    fn from(row: MeterRow) -> Self {
        Self {
            limit: row.limit,
            configured: row.configured,
            learned: row.learned,
            used_last_minute: row.used,
        }
    }
}

impl From<PaceRow> for PaceView {
    fn from(row: PaceRow) -> Self {
        Self {
            requests: row.requests.into(),
            tokens: row.tokens.into(),
            input_tokens: row.input_tokens.into(),
            output_tokens: row.output_tokens.into(),
            shrunk_until: row.shrunk_until,
            held_until: row.held_until,
            together: row.together,
            part_of: row.part_of,
        }
    }
}
