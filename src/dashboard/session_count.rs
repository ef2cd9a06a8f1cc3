//! How many sessions a list's filters find, for the button that scores all of them. Asked for once somebody comes to that button: a page
//! of the list itself costs the same whether there are a hundred or a million.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use super::address::Address;
use super::page::{Page, html};
use super::sessions::Filter;
use super::state::PageState;
use super::user::SessionUser;
use super::words;

/// How many are read at once, the most that the API takes.
const AT_ONCE: usize = 500;
/// How often is asked before the count is left open: enough for 10,000, where counts end.
const LOOKS: usize = 20;

/// What is found, as far as was looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    sessions: usize,
    /// Whether that is all.
    whole: bool,
}

impl Found {
    fn says(self) -> String {
        match self {
            Self {
                sessions: 1,
                whole: true,
            } => "the one that matches".to_owned(),
            Self {
                sessions,
                whole: true,
            } => format!("all {} that match", words::count_of(sessions)),
            Self { sessions, .. } if sessions >= LOOKS * AT_ONCE => {
                format!("all {}+ that match", words::count_of(sessions))
            }
            Self { sessions, .. } => {
                format!("all that match, more than {}", words::count_of(sessions))
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Part {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

/// The words of the button.
#[derive(askama::Template)]
#[template(source = "{{ says }}", ext = "html")]
struct Count {
    says: String,
}

/// Counts what the filters find.
pub(super) async fn count(
    State(state): State<PageState>,
    user: SessionUser,
    Address(filter): Address<Filter>,
) -> Page {
    let limit = AT_ONCE.to_string();
    let mut cursor = String::new();
    let mut found = Found {
        sessions: 0,
        whole: false,
    };
    for _ in 0..LOOKS {
        let asked = filter.query(&[("limit", limit.as_str()), ("cursor", cursor.as_str())]);
        let path = format!("/api/v1/sessions{asked}");
        let page: Part = state.client.get(&user.caller, &path).await?;
        found.sessions += page.items.len();
        match page.next_cursor {
            Some(next) => cursor = next,
            None => {
                found.whole = true;
                break;
            }
        }
    }
    html(&Count { says: found.says() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_says_whether_it_is_all() {
        for (sessions, whole, says) in [
            (1, true, "the one that matches"),
            (1_234, true, "all 1,234 that match"),
            (10_000, true, "all 10,000 that match"),
            (10_000, false, "all 10,000+ that match"),
            (37, false, "all that match, more than 37"),
        ] {
            assert_eq!(Found { sessions, whole }.says(), says);
        }
    }
}
