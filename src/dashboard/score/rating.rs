//! User ratings of a score, and their form.

use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::form::Form;
use super::super::page::{Page, PageError, error_html, is_fixable, redirect, with_status};
use super::super::state::PageState;
use super::super::words::{self, Timestamp};
use super::page;
use crate::api::{Path, problem, ratings, typed};
use crate::wire::{HumanRating, Problem, RatingRequest};

pub(in super::super) struct Opinion {
    pub(in super::super) given: String,
    pub(in super::super) comment: String,
    pub(in super::super) by: String,
    pub(in super::super) at: Timestamp,
    /// Whether it rates the session rather than this score.
    pub(in super::super) of_session: bool,
}

/// A rejected rating as typed.
#[derive(Debug, Default)]
pub(in super::super) struct Typed {
    pub(in super::super) rating: String,
    pub(in super::super) total: String,
    pub(in super::super) comment: String,
    pub(in super::super) by: String,
    pub(in super::super) error_html: String,
    wrong: Vec<String>,
}

impl Typed {
    fn from_form(form: &Form, problem: &Problem) -> Self {
        let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
        Self {
            rating: text("rating"),
            total: text("total"),
            comment: text("comment"),
            by: text("by"),
            error_html: error_html(problem),
            wrong: problem
                .errors
                .iter()
                .map(|fault| fault.pointer.trim_start_matches('/').to_owned())
                .collect(),
        }
    }

    /// `aria-invalid` attribute of an invalid field. Empty if it is valid.
    pub(in super::super) fn mark(&self, field: &str) -> &'static str {
        match self.wrong.iter().any(|wrong| wrong == field) {
            true => r#" aria-invalid="true""#,
            false => "",
        }
    }
}

impl Opinion {
    pub(super) fn summary(&self) -> String {
        match self.comment.as_str() {
            "" => self.given.clone(),
            comment => format!("{}: {comment}", self.given),
        }
    }
}

pub(in super::super) fn opinion(rating: HumanRating, now: DateTime<Utc>) -> Opinion {
    let word = rating.rating.map(|word| word.as_str());
    let word = word.or(rating.quality.map(|word| word.as_str()));
    let word = word.map(|word| word.replace('_', " "));
    Opinion {
        given: match (rating.total, word) {
            (Some(total), _) => format!("{total} / 100 {}", words::rating(total).0),
            (None, Some(word)) => word,
            (None, None) => "no verdict".to_owned(),
        },
        comment: rating.comment.unwrap_or_default(),
        by: rating.by,
        of_session: rating.score_id.is_none(),
        at: words::timestamp(rating.at, now),
    }
}

/// Stores a rating. Shows the form again if it is invalid.
pub(super) async fn rate(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    match keep(&state, id, &form).await {
        Ok(()) => redirect(form.user.fragment, &format!("/scores/{id}#people")),
        Err(fault) if is_fixable(fault.problem()) && !form.user.fragment => {
            let typed = Typed::from_form(&form, fault.problem());
            let page = page(&state, form.user, id, typed).await?;
            with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(fault) => Err(fault),
    }
}

async fn keep(state: &PageState, id: Uuid, form: &Form) -> Result<(), PageError> {
    let mut body = form.texts(&["rating", "comment", "by"]);
    if let Some(total) = form.read::<u64>("total", "an integer from 0 to 100")? {
        body.insert("total".to_owned(), total.into());
    }
    if form.text("total").is_none() && form.text("rating").is_none() {
        let wanted = "is empty: choose a rating, or enter points from 0 to 100";
        return Err(problem::of_field("rating", wanted).into());
    }
    if form.text("total").is_some() && form.text("rating").is_some() {
        let both = "is chosen together with points: give only one of the two";
        return Err(problem::of_field("rating", both).into());
    }
    let body: RatingRequest = typed("", body.into())?;
    let rate = |api, (id, body)| ratings::rate_score(api, id, body);
    let request = (Path(id), body);
    form.post(state, ratings::OF_SCORE, request, rate).await?;
    Ok(())
}
