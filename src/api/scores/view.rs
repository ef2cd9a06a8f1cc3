//! A session's score as clients see it.

use crate::score::session::Rating;
use crate::store::SessionScoreRow;
use crate::wire::{JudgeRef, Score, ScoreVersion};

/// A stored score, seen from the criteria that are current now.
pub(crate) fn score(row: SessionScoreRow, current_criteria: &str) -> Score {
    let score = row.score;
    Score {
        score_id: row.score_id,
        session_id: row.session_id,
        is_current_criteria: row.criteria_hash == current_criteria,
        criteria_hash: row.criteria_hash,
        total_score: score.total_score,
        score_breakdown: score.score_breakdown,
        score_reasoning: score.score_reasoning,
        missing_tools: score.missing_tools,
        alternative_approaches: score.alternative_approaches,
        scored_triggered_by: row.triggered_by.user,
        authenticated_as: row.triggered_by.authenticated_as,
        scored_at: row.scored_at,
        rating: Rating::from_total(score.total_score),
        judge: JudgeRef {
            provider: score.judge_provider,
            model: score.judge_model,
        },
        simulated: score.simulated,
        flags: score.flags,
        usage: row.usage,
        job_id: row.job_id.0,
    }
}

/// The same with what has become of it.
pub(crate) fn version(row: SessionScoreRow, current_criteria: &str) -> ScoreVersion {
    ScoreVersion {
        purpose: row.purpose,
        superseded_at: row.superseded_at,
        score: score(row, current_criteria),
    }
}

/// Changes when the score does, or its criteria stop being current. Weak, since answers may be compressed.
pub(crate) fn etag(score: &Score) -> String {
    let criteria = if score.is_current_criteria {
        "current"
    } else {
        "outdated"
    };
    format!("W/\"{}-{criteria}\"", score.score_id)
}
