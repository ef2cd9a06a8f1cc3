//! `/scores/{id}/calls`, `/jobs/{id}/calls`: judge calls of a score, or of a job without a score, with the start of each raw reply.

use askama::Template;
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::super::frame::Frame;
use super::super::markdown::{self, Cut};
use super::super::page::found;
use super::super::page::{Page, html};
use super::super::state::PageState;
use super::super::user::SessionUser;
use crate::api::{Path, jobs, scores};
use crate::wire::{Call, JobError};

/// Limit of all replies, bytes of HTML. With its head the page stays below 150 KB.
const MAX_PAGE_BYTES: usize = 96 << 10;

struct ShownCall {
    call: Call,
    reply: Option<Cut>,
}

#[derive(Template)]
#[template(path = "calls.html")]
struct CallsPage {
    frame: Frame,
    back: (String, &'static str),
    job_id: Uuid,
    error: Option<JobError>,
    calls: Vec<ShownCall>,
}

impl CallsPage {
    async fn load(
        state: &PageState,
        user: SessionUser,
        back: (String, &'static str),
        (job_id, calls): (Uuid, Vec<Call>),
    ) -> Self {
        let share = MAX_PAGE_BYTES / calls.len().max(1);
        Self {
            frame: Frame::load(state, user, "Sessions", "Calls").await,
            back,
            job_id,
            error: None,
            calls: calls
                .into_iter()
                .map(|call| ShownCall {
                    reply: call
                        .reply
                        .as_deref()
                        .map(|text| markdown::plain(text, share)),
                    call,
                })
                .collect(),
        }
    }
}

/// Page of a score's calls. Separate because the raw replies are large.
pub(super) async fn calls(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
) -> Page {
    let api = state.api(&user)?;
    let Json(version) = scores::one_score(api.clone(), Path(id)).await?;
    let job = found(jobs::read_with_calls(&api, version.score.job_id).await)?;
    let calls = job.and_then(|job| job.calls).unwrap_or_default();
    let back = (format!("/scores/{}", version.score.score_id), "the score");
    html(&CallsPage::load(&state, user, back, (version.score.job_id, calls)).await)
}

pub(super) async fn of_job(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
) -> Page {
    let job = jobs::read_with_calls(&state.api(&user)?, id).await?;
    let back = match (job.job.batch_id, job.job.subject_id) {
        (Some(batch), _) => (format!("/batches/{batch}"), "the batch"),
        (None, Some(session)) => (format!("/sessions/{session}"), "the session"),
        (None, None) => ("/queue".to_owned(), "the queue"),
    };
    let calls = (job.job.job_id, job.calls.unwrap_or_default());
    html(&CallsPage {
        error: job.job.error,
        ..CallsPage::load(&state, user, back, calls).await
    })
}
