//! Texts of a session on pages of bounded size. The conversation is paginated, and each message is truncated to its share. Long texts have
//! separate pages, split into parts.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use serde::Deserialize;
use uuid::Uuid;

use super::frame::Frame;
use super::markdown::{self, Cut};
use super::page::{Page, PageError, html};
use super::session::read;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::{Path, problem};
use crate::wire::{Message, Session};

pub(super) const TABLE_PAGE_SIZE: usize = 100;
/// Limit of a page's messages, bytes of HTML. With its head the page stays below 150 KB.
const MAX_PAGE_BYTES: usize = 64 << 10;
/// Limit of one message on the session page, bytes of HTML.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Limit of the alert on the session page, bytes of HTML.
const MAX_ALERT_BYTES: usize = 8 << 10;
/// Limit of the final analysis on the session page, bytes of HTML.
const MAX_ANALYSIS_BYTES: usize = 12 << 10;
/// Limit of one part of a long text, bytes of HTML.
const MAX_PART_BYTES: usize = 96 << 10;
/// Limit of a name above a message, characters.
const MAX_NAME_CHARS: usize = 80;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/sessions/{id}/alert", get(alert))
        .route("/sessions/{id}/analysis", get(analysis))
        .route("/sessions/{id}/messages/{no}", get(message))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Start {
    from: String,
}

impl Start {
    /// The offset. 0 if it isn't a number.
    pub(super) fn place(&self) -> usize {
        self.from.parse().unwrap_or(0)
    }
}

/// A page within a list, with the offsets of the pages before and after it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageRange {
    pub(super) first: usize,
    pub(super) behind: usize,
    pub(super) all: usize,
    pub(super) before: Option<usize>,
    pub(super) next: Option<usize>,
}

impl PageRange {
    pub(super) fn at(from: usize, size: usize, all: usize) -> Self {
        let first = if from < all { from } else { 0 };
        let behind = all.min(first + size);
        Self {
            first,
            behind,
            all,
            before: (first > 0).then(|| first.saturating_sub(size)),
            next: (behind < all).then_some(behind),
        }
    }

    /// `51-100 of 240`. Empty if one page shows all.
    pub(super) fn range_label(&self) -> String {
        if self.before.is_none() && self.next.is_none() {
            return String::new();
        }
        format!("{}-{} of {}", self.first + 1, self.behind, self.all)
    }
}

#[derive(Template)]
#[template(path = "message.html")]
pub(super) struct ShownMessage {
    no: usize,
    who: String,
    tool: bool,
    at: String,
    html: String,
    /// Address of the full message, if it is truncated.
    rest: Option<String>,
    rest_says: &'static str,
    /// Whether `live.js` may replace the truncated text in place.
    in_place: bool,
    bytes: String,
}

impl ShownMessage {
    fn new(session: Uuid, no: usize, message: &Message, most: usize) -> Self {
        let tool = is_of_tool(message);
        let cut = if tool {
            markdown::plain(&message.content, most)
        } else {
            markdown::within(&message.content, most)
        };
        let rest = || format!("/sessions/{session}/messages/{no}");
        Self {
            rest: (!cut.is_complete()).then(rest),
            rest_says: "Show all of it",
            in_place: true,
            ..Self::around(no, message, cut.html)
        }
    }

    fn around(no: usize, message: &Message, html: String) -> Self {
        let names = [&message.tool_name, &message.agent, &message.stage];
        let who = names
            .into_iter()
            .flatten()
            .fold(message.role.clone(), |who, name| format!("{who} · {name}"));
        Self {
            no,
            who: words::clip(&who, MAX_NAME_CHARS),
            tool: is_of_tool(message),
            at: words::clip(
                &message
                    .at
                    .as_deref()
                    .map_or_else(String::new, words::written),
                MAX_NAME_CHARS,
            ),
            html,
            rest: None,
            rest_says: "",
            in_place: false,
            bytes: words::bytes(message.content.len()),
        }
    }
}

fn is_of_tool(message: &Message) -> bool {
    message.role == "tool" || message.tool_name.is_some()
}

/// Renders the messages of a page. Unused space of short messages is shared among the following ones.
pub(super) fn shown_messages(session: &Session, window: &PageRange) -> Vec<ShownMessage> {
    let mut left = MAX_PAGE_BYTES;
    (window.first..window.behind)
        .filter_map(|at| {
            let message = session.conversation.get(at)?;
            let share = MAX_MESSAGE_BYTES.min(left / (window.behind - at));
            let said = ShownMessage::new(session.session_id, at + 1, message, share);
            left = left.saturating_sub(said.html.len());
            Some(said)
        })
        .collect()
}

pub(super) fn alert_text(session: &Session) -> String {
    session.alert_data.as_str().map_or_else(
        || serde_json::to_string_pretty(&session.alert_data).unwrap_or_default(),
        ToOwned::to_owned,
    )
}

pub(super) fn alert_in_short(session: &Session) -> Cut {
    markdown::plain(&alert_text(session), MAX_ALERT_BYTES)
}

/// Truncated final analysis for the session page.
pub(super) fn analysis_in_short(session: &Session) -> Option<Cut> {
    let text = session.final_analysis.as_deref()?;
    Some(markdown::within(text, MAX_ANALYSIS_BYTES))
}

/// The alert and the final analysis of a session, shown next to each of its scores.
#[derive(Template)]
#[template(path = "session_case.html")]
pub(super) struct Case {
    session_id: Uuid,
    alert: Cut,
    analysis: Option<Cut>,
    has_ended: bool,
}

impl From<&Session> for Case {
    fn from(session: &Session) -> Self {
        Self {
            session_id: session.session_id,
            alert: alert_in_short(session),
            analysis: analysis_in_short(session),
            has_ended: session.status.is_terminal(),
        }
    }
}

#[derive(Template)]
#[template(path = "session_text.html")]
struct TextPage {
    frame: Frame,
    session_id: Uuid,
    title: String,
    range_label: String,
    html: String,
    first: Option<String>,
    next: Option<String>,
}

/// Returns the part that starts at byte `from`, its actual start, and the start of the next part.
fn part(text: &str, from: usize) -> (Cut, usize, Option<usize>) {
    let from = text.floor_char_boundary(from);
    let from = if from < text.len() { from } else { 0 };
    let cut = markdown::plain(text.get(from..).unwrap_or_default(), MAX_PART_BYTES);
    let behind = from + cut.taken;
    let next = (!cut.is_complete()).then_some(behind);
    (cut, from, next)
}

async fn text_page(
    state: &PageState,
    user: SessionUser,
    (session_id, title, to): (Uuid, String, String),
    (text, from): (&str, usize),
) -> Page {
    let (cut, from, next) = part(text, from);
    let behind = from + cut.taken;
    html(&TextPage {
        range_label: format!(
            "Bytes {} to {} of {}.",
            words::count_of(from),
            words::count_of(behind),
            words::count_of(text.len())
        ),
        first: (from > 0).then(|| to.clone()),
        next: next.map(|next| format!("{to}?from={next}")),
        frame: Frame::load(state, user, "Sessions", title.clone()).await,
        html: cut.html,
        session_id,
        title,
    })
}

async fn alert(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
    Query(start): Query<Start>,
) -> Page {
    let session = read(&state, &user, id).await?;
    let to = format!("/sessions/{}/alert", session.session_id);
    let text = alert_text(&session);
    let head = (session.session_id, "The alert".to_owned(), to);
    text_page(&state, user, head, (&text, start.place())).await
}

async fn analysis(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
    Query(start): Query<Start>,
) -> Page {
    let session = read(&state, &user, id).await?;
    let to = format!("/sessions/{}/analysis", session.session_id);
    let text = session.final_analysis.as_deref().unwrap_or_default();
    let head = (session.session_id, "The final analysis".to_owned(), to);
    text_page(&state, user, head, (text, start.place())).await
}

/// Renders one message: a page, or a fragment that replaces the truncated text.
async fn message(
    State(state): State<PageState>,
    user: SessionUser,
    Path((id, no)): Path<(Uuid, String)>,
    Query(start): Query<Start>,
) -> Page {
    let session = read(&state, &user, id).await?;
    let no: usize = no.parse().unwrap_or(0);
    let found = no
        .checked_sub(1)
        .and_then(|at| session.conversation.get(at));
    let Some(message) = found else {
        let messages = words::counted(
            i64::try_from(session.conversation.len()).unwrap_or(i64::MAX),
            "message",
        );
        let fault = format!("is not one of this session's {messages}: use a number from 1");
        return Err(PageError::from(problem::of_field("message", &fault)));
    };
    let to = format!("/sessions/{}/messages/{no}", session.session_id);
    if user.fragment {
        let (cut, _, next) = part(&message.content, 0);
        let html_of_it = if is_of_tool(message) {
            cut.html
        } else {
            markdown::render_complete(&message.content, MAX_PART_BYTES)
                .unwrap_or_else(|| format!("<pre>{}</pre>", cut.html))
        };
        let is_cut = next.filter(|_| is_of_tool(message) || html_of_it.starts_with("<pre>"));
        return html(&ShownMessage {
            rest: is_cut.map(|next| format!("{to}?from={next}")),
            rest_says: "Continue reading",
            ..ShownMessage::around(no, message, html_of_it)
        });
    }
    let title = format!(
        "Message {no} · {}",
        words::clip(&message.role, MAX_NAME_CHARS)
    );
    let head = (session.session_id, title, to);
    text_page(&state, user, head, (&message.content, start.place())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_range_has_previous_and_next_pages() {
        let all = PageRange::at(0, 50, 50);
        assert_eq!(
            (all.before, all.next, all.range_label()),
            (None, None, String::new())
        );
        let middle = PageRange::at(50, 50, 120);
        assert_eq!((middle.before, middle.next), (Some(0), Some(100)));
        assert_eq!(middle.range_label(), "51-100 of 120");
        let last = PageRange::at(100, 50, 120);
        assert_eq!((last.before, last.next), (Some(50), None));
        assert_eq!(PageRange::at(9_000, 50, 120), PageRange::at(0, 50, 120));
    }

    #[test]
    fn parts_cover_the_complete_text() {
        let text = "ä<b>&".repeat(60_000);
        let (mut from, mut read, mut parts) = (0, String::new(), 0);
        loop {
            let (cut, start, next) = part(&text, from);
            assert_eq!(start, from);
            assert!(cut.html.len() <= MAX_PART_BYTES, "{}", cut.html.len());
            read.push_str(&text[start..start + cut.taken]);
            parts += 1;
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(read, text);
        assert!(parts > 1);
    }
}
