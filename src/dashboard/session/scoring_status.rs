//! Scoring status of a session: badge, active or failed job, and the score button.

use askama::Template;
use axum::Json;
use uuid::Uuid;

use super::super::page::found;
use super::super::page::{Page, PageError, html};
use super::super::session_item::{self, Badge, why_not};
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words::{self, Timestamp};
use super::read;
use crate::api::jobs::{self, JobsQuery};
use crate::api::{Path, Query, scores};
use crate::job::JobState;
use crate::wire::{JobDetail, PageQuery, Session, SessionItem, SessionStatus, Wait, WaitReason};

pub(in super::super) const LEFT: &str =
    "its worker is gone and no other is running: it restarts as soon as a worker runs";

/// Number of the current attempt, from 1. Workers retry calls before they requeue the job.
fn attempt(detail: &JobDetail) -> usize {
    let calls = detail.calls.iter().flatten();
    let failed = calls.filter(|call| call.error.is_some()).count();
    failed.max(usize::try_from(detail.job.retries).unwrap_or(0)) + 1
}

/// Fields of a session that its scoring status needs, without the conversation.
pub(super) struct Subject {
    pub(super) session_id: Uuid,
    status: SessionStatus,
    scorable: bool,
    alert_type: Option<String>,
}

impl From<&Session> for Subject {
    fn from(session: &Session) -> Self {
        Self {
            session_id: session.session_id,
            status: session.status,
            scorable: session.scorable,
            alert_type: session.alert_type.clone(),
        }
    }
}

impl From<SessionItem> for Subject {
    fn from(item: SessionItem) -> Self {
        Self {
            session_id: item.session_id,
            status: item.status,
            scorable: item.scorable,
            alert_type: item.alert_type,
        }
    }
}

#[derive(Template)]
#[template(path = "session_state.html")]
pub(super) struct ScoringStatus {
    session_id: Uuid,
    alert_type: Option<String>,
    badge: Badge,
    again: String,
    scored: Option<Timestamp>,
    outdated: bool,
    active: Option<(JobDetail, String)>,
    /// Whether the head of the page already explains the cause.
    shown_above: bool,
    failed: Option<JobDetail>,
    why_not: String,
    may_score: bool,
    form_token: String,
    key: String,
}

impl ScoringStatus {
    pub(super) async fn read(
        state: &PageState,
        user: &SessionUser,
        subject: Subject,
    ) -> Result<Self, PageError> {
        let (api, id) = (state.api(user)?, subject.session_id);
        let score = found(scores::current(api.clone(), Path(id)).await)?;
        let newest = JobsQuery {
            session_id: Some(id),
            ..JobsQuery::default()
        };
        let newest = Query((newest, PageQuery::first(1)));
        let Json(newest) = jobs::list_jobs(api.clone(), newest).await?;
        let newest = newest.items.into_iter().next();
        // Only the single-job route has the queue position and the results of the calls.
        let job = match newest {
            Some(job) if job.state == JobState::Queued => {
                found(jobs::read(&api, job.job_id).await)?
            }
            Some(job) if job.state == JobState::Running => {
                found(jobs::read_with_calls(&api, job.job_id).await)?
            }
            newest => newest.map(|job| JobDetail { job, calls: None }),
        };
        let status_bar = state.status_bar(user).await;
        let is = |state| job.as_ref().is_some_and(|job| job.job.state == state);
        let away = status_bar.redis_away && is(JobState::Queued);
        let deserted = status_bar.deserted.is_some() && is(JobState::Running);
        let now = state.about.clock.now();
        let (active, failed) = match job {
            Some(job) if !job.job.state.is_terminal() => {
                let wait = job.job.wait.as_ref();
                let why = wait.map(|wait| wait.text(job.job.judge.as_deref()));
                let mut why = why.unwrap_or_default();
                if away && !wait.is_some_and(waits_for_worker) {
                    why.push_str("; Redis is unavailable, so workers poll the database for it, which is a little slower");
                }
                if deserted {
                    why = LEFT.to_owned();
                }
                (Some((job, why)), None)
            }
            Some(job) if job.job.state == JobState::Failed => (None, Some(job)),
            Some(_) | None => (None, None),
        };
        Ok(Self {
            session_id: id,
            badge: Badge {
                big: true,
                ..score
                    .as_ref()
                    .map_or_else(|| Badge::new(id, None), Badge::from)
            },
            again: score
                .as_ref()
                .map_or_else(String::new, super::super::score::again),
            scored: score
                .as_ref()
                .map(|score| words::timestamp(score.scored_at, now)),
            outdated: score.is_some_and(|score| !score.is_current_criteria),
            shown_above: status_bar.deserted.is_some()
                && active
                    .as_ref()
                    .and_then(|(job, _)| job.job.wait.as_ref())
                    .is_some_and(waits_for_worker),
            active,
            failed,
            why_not: why_not(subject.scorable, subject.status),
            alert_type: subject.alert_type,
            may_score: user.may_enqueue(),
            form_token: user.form_token.clone(),
            key: Uuid::new_v4().to_string(),
        })
    }

    pub(super) fn moves(&self) -> bool {
        self.active.is_some()
    }

    /// Page title. Starts with the verdict because a browser tab shows only the start.
    pub(super) fn title(&self) -> String {
        let alert = self.alert_type.as_deref().unwrap_or("session");
        words::straight(&format!("{} · {alert}", self.verdict()))
    }

    fn verdict(&self) -> String {
        match (&self.active, self.badge.total) {
            (Some((job, _)), _) if job.job.state == JobState::Running => "scoring".to_owned(),
            (Some((job, _)), _) => job.job.state.to_string(),
            (None, Some((total, word))) => format!("{total} {word}"),
            (None, None) if self.failed.is_some() => "scoring failed".to_owned(),
            (None, None) => "not scored".to_owned(),
        }
    }
}

/// Whether the job only waits for a worker. The head of each page explains how to start one.
fn waits_for_worker(wait: &Wait) -> bool {
    wait.reason == WaitReason::NoWorker
}

/// Reads a session without its conversation, because open pages reload it on each event.
pub(super) async fn subject(
    state: &PageState,
    user: &SessionUser,
    id: Uuid,
) -> Result<Subject, PageError> {
    match session_item::item(state, user, id).await? {
        Some(item) => Ok(item.into()),
        // `read` returns the API's error for an invalid id.
        None => Ok(Subject::from(&read(state, user, id).await?)),
    }
}

pub(in super::super) async fn scoring_status(
    state: &PageState,
    user: &SessionUser,
    id: Uuid,
) -> Page {
    let subject = subject(state, user, id).await?;
    html(&ScoringStatus::read(state, user, subject).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(change: &Value) -> JobDetail {
        serde_json::from_value(crate::tests::job(change)).unwrap()
    }

    fn scoring_status() -> ScoringStatus {
        ScoringStatus {
            session_id: Uuid::nil(),
            alert_type: Some("<b>Pod</b>".to_owned()),
            badge: Badge::new(Uuid::nil(), None),
            again: String::new(),
            scored: None,
            outdated: false,
            active: None,
            shown_above: false,
            failed: None,
            why_not: String::new(),
            may_score: true,
            form_token: "t".to_owned(),
            key: "k".to_owned(),
        }
    }

    #[test]
    fn each_status_has_text_title_and_button() {
        let failed = job(
            &json!({"state": "failed", "error": {"class": "too_large", "message": "<i>m</i>", "remedy": "trim it"}}),
        );
        let call = |error: Value| crate::tests::call(&json!({"error": error}));
        let calls = json!({"calls": [call("transient".into()), call("transient".into()), call(Value::Null)]});
        let waits = job(&json!({"state": "waiting"}));
        let known = [
            (scoring_status(), "not scored", ">Score session<"),
            (
                ScoringStatus {
                    active: Some((job(&calls), String::new())),
                    ..scoring_status()
                },
                "scoring",
                "scoring, attempt 3",
            ),
            (
                ScoringStatus {
                    active: Some((waits, "its judge sleeps".to_owned())),
                    ..scoring_status()
                },
                "waiting",
                "its judge sleeps.",
            ),
            (
                ScoringStatus {
                    failed: Some(failed),
                    ..scoring_status()
                },
                "scoring failed",
                ">Try again<",
            ),
            (
                ScoringStatus {
                    why_not: "It runs.".to_owned(),
                    ..scoring_status()
                },
                "not scored",
                "It runs.",
            ),
        ];
        for (scoring_status, verdict, told) in known {
            assert_eq!(scoring_status.title(), format!("{verdict} · <b>Pod</b>"));
            let text = scoring_status.render().unwrap();
            assert!(text.contains(told), "{told}: {text}");
            assert!(!text.contains("<b>Pod") && !text.contains("<i>m"), "{text}");
            assert_eq!(text.contains("data-moving"), scoring_status.moves());
        }
    }

    #[test]
    fn reader_sees_status_without_button() {
        let reader = ScoringStatus {
            may_score: false,
            ..scoring_status()
        };
        let text = reader.render().unwrap();
        assert!(
            text.contains("Not scored") && !text.contains("<button"),
            "{text}"
        );
    }
}
