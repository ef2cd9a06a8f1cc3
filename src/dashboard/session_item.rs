//! Summary of a session: its score badge, its name, and why it can't be scored.

use std::collections::{BTreeSet, HashMap};

use askama::Template;
use axum::Json;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::page::PageError;
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::Query;
use crate::api::sessions::list_sessions;
use crate::wire::{
    PageQuery, SessionFilter, SessionItem, SessionScoreSummary, SessionSort, SessionStatus,
    Sessions,
};

/// Maximum length of a session's name, characters.
const MAX_NAME_CHARS: usize = 80;

/// Why a session with this status can't be scored. Empty if the API reports it as scorable.
pub(super) fn why_not(scorable: bool, status: SessionStatus) -> String {
    if scorable {
        return String::new();
    }
    let word = status.in_words();
    if status.is_terminal() {
        format!("The session is {word}: only completed ones are scored here.")
    } else {
        format!("The session is {word}: only sessions that have ended are scored.")
    }
}

/// A score as a badge with number and label, so that colour isn't needed.
#[derive(Debug, Clone, Template)]
#[template(path = "badge.html")]
pub(super) struct Badge {
    /// Total and rating. `None` if not scored.
    pub(super) total: Option<(u8, &'static str)>,
    pub(super) colour: &'static str,
    pub(super) to: String,
    pub(super) simulated: bool,
    /// Whether to use the large variant.
    pub(super) big: bool,
}

impl Badge {
    /// Badge of a session's current score. Links to a page that also shows the alert and the final analysis, like badges of scores.
    pub(super) fn new(session: Uuid, score: Option<&SessionScoreSummary>) -> Self {
        let rating = score.map(|score| (score.total_score, words::rating(score.total_score)));
        Self {
            total: rating.map(|(total, (word, _))| (total, word)),
            colour: rating.map_or("none", |(_, (_, colour))| colour),
            to: format!("/sessions/{session}/score"),
            simulated: score.is_some_and(|score| score.simulated),
            big: false,
        }
    }
}

/// Name of a session: alert type or external id, and the agent.
pub(super) fn called(item: &SessionItem) -> String {
    let about = item.alert_type.as_deref().or(item.external_id.as_deref());
    let about = about.unwrap_or("session");
    match &item.agent {
        Some(agent) => words::clip(&format!("{about} · {agent}"), MAX_NAME_CHARS),
        None => words::clip(about, MAX_NAME_CHARS),
    }
}

/// Lists sessions by id, at least one.
pub(super) async fn by_ids(
    state: &PageState,
    user: &SessionUser,
    ids: Vec<Uuid>,
    page: PageQuery,
) -> Result<Sessions, PageError> {
    let filter = SessionFilter {
        ids,
        ..SessionFilter::default()
    };
    let query = Query((filter, SessionSort::default(), page));
    let Json(found) = list_sessions(state.api(user)?, query).await?;
    Ok(found)
}

/// Loads sessions by id. Deleted ones are omitted.
pub(super) async fn looked_up(
    state: &PageState,
    user: &SessionUser,
    ids: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, SessionItem>, PageError> {
    let ids: BTreeSet<Uuid> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let page = PageQuery {
        limit: u32::try_from(ids.len()).ok(),
        cursor: None,
    };
    let found = by_ids(state, user, ids.into_iter().collect(), page).await?;
    Ok(found
        .items
        .into_iter()
        .map(|item| (item.session_id, item))
        .collect())
}

/// Like [`looked_up`], but returns names and times by id.
pub(super) async fn named(
    state: &PageState,
    user: &SessionUser,
    ids: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, (String, Timestamp)>, PageError> {
    let found = looked_up(state, user, ids).await?.into_iter();
    let now = state.about.clock.now();
    Ok(found
        .map(|(id, item)| (id, (called(&item), listed(&item, now))))
        .collect())
}

/// Returns a session's name and time from the result of [`named`].
pub(super) fn name_of(names: &HashMap<Uuid, (String, Timestamp)>, id: &Uuid) -> String {
    names.get(id).map_or_else(
        || format!("session {id}"),
        |(name, at)| format!("{name}, {}", at.plain),
    )
}

/// Time of completion, otherwise of creation.
pub(super) fn listed(item: &SessionItem, now: DateTime<Utc>) -> Timestamp {
    words::timestamp(item.completed_at.unwrap_or(item.created_at), now)
}

/// Reads a session's list entry. `None` if it doesn't exist.
pub(super) async fn item(
    state: &PageState,
    user: &SessionUser,
    id: Uuid,
) -> Result<Option<SessionItem>, PageError> {
    let found = by_ids(state, user, vec![id], PageQuery::default()).await?;
    Ok(found.items.into_iter().next())
}
