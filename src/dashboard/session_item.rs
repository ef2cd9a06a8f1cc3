//! A session as lists and pages show it in brief: its score as a badge, and why it can't be scored.

use askama::Template;

use super::page::Fault;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::{Params, sessions};
use crate::wire::{SessionItem, SessionScoreSummary, SessionStatus};

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
    /// The badge of a current score.
    pub(super) fn of(score: Option<&SessionScoreSummary>) -> Self {
        let rating = score.map(|score| (score.total_score, words::rating(score.total_score)));
        Self {
            total: rating.map(|(total, (word, _))| (total, word)),
            colour: rating.map_or("none", |(_, (_, colour))| colour),
            to: score.map_or_else(String::new, |score| format!("/scores/{}", score.score_id)),
            simulated: score.is_some_and(|score| score.simulated),
            big: false,
        }
    }
}

/// A session as the list has it; `None` where there is none.
pub(super) async fn item(
    state: &PageState,
    user: &SessionUser,
    id: &str,
) -> Result<Option<SessionItem>, Fault> {
    let found = sessions::list(state.api(user)?, Params::of(&[("ids", id)])).await?;
    Ok(found.items.into_iter().next())
}
