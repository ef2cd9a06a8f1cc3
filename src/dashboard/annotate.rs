//! `/annotate`: users rate one session after another without seeing the judge's score, which is shown after the rating is stored. Below:
//! the agreement between users who rated the same session.

use askama::Template;
use axum::extract::State;
use axum::http::Method;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use uuid::Uuid;

use super::address::Address;
use super::conversation::{
    PageRange, ShownMessage, alert_in_short, analysis_in_short, shown_messages,
};
use super::form::Form;
use super::frame::Frame;
use super::insights::Trust;
use super::links::{MESSAGES, query};
use super::markdown::Cut;
use super::page::{Page, PageError, found, html, redirect};
use super::score::{Opinion, opinion};
use super::session;
use super::session_item::Badge;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::ratings::annotations::{self, AnnotationsQuery};
use crate::api::{Path, Query, ratings, scores, typed};
use crate::wire::{PageQuery, RatingRequest, Session};

const ORDERS: [(&str, &str); 3] = [
    ("sample", "a sample"),
    ("disagreement", "disagreement first"),
    ("low_score", "low scores first"),
];
/// Ratings: keyboard key, value, label.
const WORDS: [(&str, &str, &str); 5] = [
    ("1", "failed", "failed"),
    ("2", "weak", "weak"),
    ("3", "adequate", "adequate"),
    ("4", "good", "good"),
    ("5", "near_perfect", "near perfect"),
];
/// Maximum number of skipped sessions.
const SKIPPED: usize = 400;

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/annotate", get(annotate).post(rate))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AnnotateParams {
    order: String,
    by: String,
    skip: String,
    from: String,
    rated: String,
}

impl AnnotateParams {
    fn skip(&self) -> usize {
        self.skip.parse().unwrap_or(0).min(SKIPPED)
    }

    /// Returns the address of the same queue at another position.
    fn to(&self, skip: usize, more: (&str, &str)) -> String {
        let skip = if skip == 0 {
            String::new()
        } else {
            skip.to_string()
        };
        let place = [
            ("order", self.order.as_str()),
            ("by", &self.by),
            ("skip", &skip),
            more,
        ];
        format!("/annotate{}", query(&place))
    }
}

struct SessionToRate {
    session: Session,
    alert: Cut,
    analysis: Option<Cut>,
    window: PageRange,
    shown_messages: Vec<ShownMessage>,
}

/// A rated session: the judge's score and the users' ratings.
struct Rated {
    name: String,
    badge: Badge,
    opinions: Vec<Opinion>,
}

#[derive(Template)]
#[template(path = "annotate.html")]
struct AnnotatePage {
    frame: Frame,
    asked: AnnotateParams,
    by: String,
    /// Whether the name is the user's own rather than one shared by all users.
    has_name: bool,
    left: u64,
    shown: Option<SessionToRate>,
    rated: Option<Rated>,
    pairs: Vec<(String, Vec<Trust>)>,
    key: String,
}

impl AnnotatePage {
    fn order(&self) -> &str {
        match self.asked.order.as_str() {
            "" => "sample",
            order => order,
        }
    }

    fn first(&self) -> String {
        self.asked.to(0, ("from", ""))
    }

    fn next(&self) -> String {
        self.asked.to(self.asked.skip() + 1, ("from", ""))
    }

    fn pages(&self, window: &PageRange) -> impl Iterator<Item = (&'static str, String)> {
        let (before, next) = (window.before, window.next);
        let around = [("Earlier messages", before), ("Later messages", next)];
        around.into_iter().filter_map(move |(word, from)| {
            let from = from?.to_string();
            Some((word, self.asked.to(self.asked.skip(), ("from", &from))))
        })
    }
}

async fn annotate(
    State(state): State<PageState>,
    user: SessionUser,
    Address(asked): Address<AnnotateParams>,
) -> Page {
    let api = state.api(&user)?;
    let has_name = user.caller.who().is_some();
    let by = match asked.by.trim() {
        by if has_name || by.is_empty() => user.caller.signs_as(),
        by => by.to_owned(),
    };
    let skip = asked.skip();
    let query = AnnotationsQuery {
        order: match asked.order.as_str() {
            "" => None,
            order => Some(typed("order", order.into())?),
        },
        by: Some(by.clone()),
        limit: u32::try_from(skip + 1).ok(),
    };
    let reader = state
        .api
        .authorize(&user.caller, &Method::GET, annotations::ANNOTATIONS)?;
    let Json(queue) = annotations::get_annotations(reader, Query(query)).await?;
    let shown = match queue.items.get(skip) {
        None => None,
        Some(item) => {
            let session = session::read(&state, &user, item.session_id).await?;
            let from = asked.from.parse().unwrap_or(0);
            let window = PageRange::at(from, MESSAGES, session.conversation.len());
            Some(SessionToRate {
                alert: alert_in_short(&session),
                analysis: analysis_in_short(&session),
                shown_messages: shown_messages(&session, &window),
                window,
                session,
            })
        }
    };
    let rated = match asked.rated.as_str() {
        "" => None,
        id => rated(&state, &user, typed("rated", id.into())?).await?,
    };
    let pairs = annotations::get_raters(api).await?.0.items.into_iter();
    html(&AnnotatePage {
        pairs: pairs
            .map(|pair| {
                let scales = pair.scales.into_iter().map(Trust::new).collect();
                (format!("{} and {}", pair.a, pair.b), scales)
            })
            .collect(),
        frame: Frame::load(&state, user, "Annotate", "Annotate").await,
        asked,
        by,
        has_name,
        left: queue.left,
        shown,
        rated,
        key: Uuid::new_v4().to_string(),
    })
}

async fn rated(
    state: &PageState,
    user: &SessionUser,
    id: Uuid,
) -> Result<Option<Rated>, PageError> {
    let api = state.api(user)?;
    let Some(score) = found(scores::current(api.clone(), Path(id)).await)? else {
        return Ok(None);
    };
    let few = Query(PageQuery::first(20));
    let Json(given) = ratings::ratings_of_session(api, Path(id), few).await?;
    let session = session::read(state, user, id).await?;
    let now = state.about.clock.now();
    Ok(Some(Rated {
        name: session
            .alert_type
            .unwrap_or_else(|| "the session".to_owned()),
        badge: Badge::from(&score),
        opinions: given.items.into_iter().map(|it| opinion(it, now)).collect(),
    }))
}

async fn rate(State(state): State<PageState>, form: Form) -> Page {
    let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
    let session: Uuid = typed("session_id", text("session_id").into())?;
    let body: RatingRequest = typed("", form.texts(&["rating", "comment", "by"]).into())?;
    let rate = |api, (id, body)| ratings::rate_session(api, id, body);
    form.post(&state, ratings::OF_SESSION, (Path(session), body), rate)
        .await?;
    let asked = AnnotateParams {
        order: text("order"),
        by: text("by"),
        skip: text("skip"),
        ..AnnotateParams::default()
    };
    let to = asked.to(asked.skip(), ("rated", &session.to_string()));
    redirect(form.user.fragment, &to)
}
