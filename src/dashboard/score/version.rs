//! Score history of a session.

use axum::Json;
use uuid::Uuid;

use super::super::links::query;
use super::super::page::PageError;
use super::super::session_item::Badge;
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words::{self, Timestamp};
use crate::api::{Path, scores};
use crate::wire::ScoreVersion;

pub(in super::super) struct Version {
    pub(in super::super) badge: Badge,
    pub(in super::super) scored: Timestamp,
    pub(in super::super) answer: ScoreVersion,
    pub(in super::super) compare: Option<String>,
}

impl Version {
    pub(in super::super) async fn load_all(
        state: &PageState,
        user: &SessionUser,
        session_id: Uuid,
    ) -> Result<Vec<Self>, PageError> {
        let Json(all) = scores::scores_of_session(state.api(user)?, Path(session_id)).await?;
        let now = state.about.clock.now();
        let current = all.items.iter().find(|score| score.superseded_at.is_none());
        let current = current.map(|score| score.score.score_id.to_string());
        let line = |answer: ScoreVersion| {
            let id = answer.score.score_id.to_string();
            let newer = current
                .as_deref()
                .filter(|_| answer.superseded_at.is_some());
            let pair = |newer| query(&[("a", id.as_str()), ("b", newer)]);
            Self {
                badge: Badge::from(&answer.score),
                scored: words::timestamp(answer.score.scored_at, now),
                compare: newer.map(|newer| format!("/compare{}", pair(newer))),
                answer,
            }
        };
        Ok(all.items.into_iter().map(line).collect())
    }
}
