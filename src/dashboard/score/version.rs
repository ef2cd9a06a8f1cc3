//! Every score that a session had, a line for each.

use uuid::Uuid;

use super::super::form::query;
use super::super::page::Fault;
use super::super::sessions::Badge;
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words::Moment;
use super::view::ScoreDetail;
use crate::wire::{ScoreVersion, Scores};

/// A line of a session's history of scores.
pub(in super::super) struct Version {
    pub(in super::super) badge: Badge,
    pub(in super::super) scored: Moment,
    pub(in super::super) criteria: String,
    pub(in super::super) judge: String,
    pub(in super::super) by: String,
    pub(in super::super) current: bool,
    pub(in super::super) compare: Option<String>,
}

impl Version {
    /// Every score of a session, newest first.
    pub(in super::super) async fn of(
        state: &PageState,
        user: &SessionUser,
        session_id: Uuid,
    ) -> Result<Vec<Self>, Fault> {
        let path = format!("/api/v1/scoring/sessions/{session_id}/scores");
        let all: Scores = state.client.get(&user.caller, &path).await?;
        let now = state.about.clock.now();
        let current = all.items.iter().find(|score| score.superseded_at.is_none());
        let current = current.map(|score| score.score.score_id.to_string());
        let line = |version: ScoreVersion| {
            let score = ScoreDetail::of(version, now);
            let id = score.score_id.to_string();
            let is_current = score.superseded.is_none();
            Self {
                badge: score.badge,
                compare: current.as_ref().filter(|_| !is_current).map(|newer| {
                    format!(
                        "/compare{}",
                        query(&[("a", id.as_str()), ("b", newer.as_str())])
                    )
                }),
                scored: score.scored,
                criteria: score.criteria_hash,
                judge: score.judge,
                by: score.by,
                current: is_current,
            }
        };
        Ok(all.items.into_iter().map(line).collect())
    }
}
