//! A session as lists and pages show it in brief: its score as a badge, and why it can't be scored.

use std::collections::{BTreeSet, HashMap};

use askama::Template;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::page::PageError;
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Moment};
use crate::api::{Params, sessions};
use crate::wire::{SessionItem, SessionScoreSummary, SessionStatus};

/// Characters of what a session is called.
const NAME: usize = 80;

/// Why a session in this status can't be scored; empty if it can, which is the API's to say.
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

/// A score as a badge: number and word, since no colour stands alone.
#[derive(Debug, Clone, Template)]
#[template(path = "badge.html")]
pub(super) struct Badge {
    /// The total and its word; `None`: not scored.
    pub(super) total: Option<(u8, &'static str)>,
    pub(super) colour: &'static str,
    /// Where it leads.
    pub(super) to: String,
    /// Whether a simulated judge made it.
    pub(super) simulated: bool,
    /// Whether it stands alone on its page.
    pub(super) big: bool,
}

impl Badge {
    /// The badge of a session's current score. It leads where the alert and the final analysis stand, too, as one of a score does.
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

/// What people know a session by: its alert, else its id elsewhere, and whose work it is.
pub(super) fn called(item: &SessionItem) -> String {
    let about = item.alert_type.as_deref().or(item.external_id.as_deref());
    let about = about.unwrap_or("session");
    match &item.agent {
        Some(agent) => words::clip(&format!("{about} · {agent}"), NAME),
        None => words::clip(about, NAME),
    }
}

/// Sessions by their ids; those that are gone are left out.
pub(super) async fn looked_up(
    state: &PageState,
    user: &SessionUser,
    ids: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, SessionItem>, PageError> {
    let ids: BTreeSet<String> = ids.map(|id| id.to_string()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let (count, ids) = (ids.len(), Vec::from_iter(ids).join(","));
    let params = Params::from_pairs(&[("ids", ids.as_str()), ("limit", &count.to_string())]);
    let found = sessions::list(state.api(user)?, params).await?.items;
    Ok(found
        .into_iter()
        .map(|item| (item.session_id, item))
        .collect())
}

/// The same, as a table names them.
pub(super) async fn named(
    state: &PageState,
    user: &SessionUser,
    ids: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, (String, Moment)>, PageError> {
    let found = looked_up(state, user, ids).await?.into_iter();
    let now = state.about.clock.now();
    Ok(found
        .map(|(id, item)| (id, (called(&item), listed(&item, now))))
        .collect())
}

/// A session's name and time among those that were looked up.
pub(super) fn name_of(names: &HashMap<Uuid, (String, Moment)>, id: &Uuid) -> String {
    names.get(id).map_or_else(
        || format!("session {id}"),
        |(name, at)| format!("{name}, {}", at.plain),
    )
}

/// When a session finished, else was first seen.
pub(super) fn listed(item: &SessionItem, now: DateTime<Utc>) -> Moment {
    words::moment(item.completed_at.unwrap_or(item.created_at), now)
}

/// A session as the list has it; `None` where there is none.
pub(super) async fn item(
    state: &PageState,
    user: &SessionUser,
    id: &str,
) -> Result<Option<SessionItem>, PageError> {
    let found = sessions::list(state.api(user)?, Params::from_pairs(&[("ids", id)])).await?;
    Ok(found.items.into_iter().next())
}
