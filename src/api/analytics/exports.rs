//! Sessions with their scores, line by line, to train or to compare with, and scores as a table. Read as the client takes them: memory holds a page of
//! scores and one session, however many there are.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use futures::stream;
use serde::Serialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::{Selection, Unnamed, selection};
use crate::api::ApiState;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::api::scores;
use crate::history::ingest::SessionInput;
use crate::report::csv_record;
use crate::store::{GoodScores, SessionRecord, SessionScoreRow, StoreError};
use crate::wire::Score;

/// The lowest total that is exported if none is named.
const MIN_SCORE: u8 = 85;
/// Scores that are read at once.
const PAGE: u32 = 100;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(training))
        .routes(routes!(scores_table))
}

/// One line: a session as it can be put, and its current score.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TrainingLine {
    /// The session as it is stored now.
    pub(crate) session: SessionInput,
    /// The score that was its current one when the export began.
    pub(crate) score: Score,
}

/// Whether a last line says that all lines are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLine {
    Given,
    LeftOut,
}

/// What a line of an export is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A session with its score, as JSON.
    Training(LastLine),
    /// A score, as CSV.
    Table,
}

/// The columns of the table of scores.
const COLUMNS: [&str; 23] = [
    "session_id",
    "external_id",
    "alert_type",
    "agent",
    "status",
    "tags",
    "started_at",
    "completed_at",
    "score_id",
    "total_score",
    "rating",
    "score_breakdown",
    "flags",
    "missing_tools",
    "criteria_hash",
    "is_current_criteria",
    "judge_provider",
    "judge_model",
    "scored_at",
    "scored_triggered_by",
    "cost_usd",
    "job_id",
    "score_reasoning",
];

/// Where an export stands.
struct Export {
    state: ApiState,
    good: GoodScores,
    /// How many more lines are wanted; `None`: all.
    left: Option<u64>,
    sent: u64,
    page: VecDeque<SessionScoreRow>,
    /// The session of the last score that was read.
    after: Option<Uuid>,
    /// Whether the last page was read.
    read: bool,
    form: Form,
    /// What stands above the lines.
    head: Option<Bytes>,
}

/// Streams sessions with good scores, a JSON object a line (JSONL), in the order of their ids.
///
/// Only scores that are current when the export begins, each session once, and only those of real judges: never one of a
/// simulated judge. Lines are whole; a stream that breaks off ends without the end
/// of its HTTP body, which clients report as an error. With `end=true` a last line `{"end":true,"count":N}` says that all are there.
#[utoipa::path(
    get, path = "/api/v1/exports/training", tag = "analytics",
    params(
        ("min_score" = Option<u8>, Query, description = "Total at least, 0-100; default 85", maximum = 100),
        Selection,
        ("limit" = Option<u64>, Query, description = "At most so many lines; default all", minimum = 1),
        ("end" = Option<bool>, Query, description = "Whether a last line says that all are there"),
    ),
    responses(
        (status = 200, description = "The sessions and their scores", body = TrainingLine, content_type = "application/x-ndjson",
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "criteria-not-found"),
    ),
)]
async fn training(State(state): State<ApiState>, mut params: Params) -> Result<Response, ApiError> {
    let chosen = selection(&mut params, Unnamed::Any);
    let min_score = params.whole("min_score", 0..=100).unwrap_or(MIN_SCORE);
    let left = params.whole("limit", 1..=u64::MAX);
    let last_line = match params.flag("end") {
        true => LastLine::Given,
        false => LastLine::LeftOut,
    };
    params.finish()?;
    let good = GoodScores {
        filter: chosen.filter(&state).await?,
        min_score,
        at: state.clock.now(),
    };
    streamed(state, good, left, Form::Training(last_line)).await
}

/// Streams current scores as CSV, a row a score, in the order of their sessions' ids.
///
/// Only scores that are current when the export begins, and only those of real judges. `score_breakdown` is JSON; tags, flags and
/// missing tools are lists in JSON. A stream that breaks off ends without the end of its HTTP body.
#[utoipa::path(
    get, path = "/api/v1/exports/scores", tag = "analytics",
    params(
        ("min_score" = Option<u8>, Query, description = "Total at least, 0-100; default 0", maximum = 100),
        Selection,
        ("limit" = Option<u64>, Query, description = "At most so many rows; default all", minimum = 1),
    ),
    responses(
        (status = 200, description = "The scores", body = String, content_type = "text/csv",
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "criteria-not-found"),
    ),
)]
async fn scores_table(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let chosen = selection(&mut params, Unnamed::Any);
    let min_score = params.whole("min_score", 0..=100).unwrap_or(0);
    let left = params.whole("limit", 1..=u64::MAX);
    params.finish()?;
    let good = GoodScores {
        filter: chosen.filter(&state).await?,
        min_score,
        at: state.clock.now(),
    };
    streamed(state, good, left, Form::Table).await
}

async fn streamed(
    state: ApiState,
    good: GoodScores,
    left: Option<u64>,
    form: Form,
) -> Result<Response, ApiError> {
    let (media_type, file) = match form {
        Form::Training(_) => ("application/x-ndjson", "training.jsonl"),
        Form::Table => ("text/csv; charset=utf-8", "scores.csv"),
    };
    let head = match form {
        Form::Training(_) => None,
        Form::Table => Some(Bytes::from(format!("{}\n", COLUMNS.join(",")))),
    };
    let mut export = Export {
        state,
        good,
        left,
        sent: 0,
        page: VecDeque::new(),
        after: None,
        read: false,
        form,
        head,
    };
    // A database that is away is told by the status, not by a broken stream.
    export.fill().await?;
    let headers: [(HeaderName, String); 2] = [
        (header::CONTENT_TYPE, media_type.to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{file}\""),
        ),
    ];
    let lines = stream::try_unfold(Some(export), async |export| match export {
        Some(export) => export.next().await,
        None => Ok(None),
    });
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// A piece of the body, and what is behind it; `None` at the end.
type Piece = Option<(Bytes, Option<Export>)>;

impl Export {
    /// The next line and the export behind it. An error ends the body without its end.
    async fn next(mut self) -> std::io::Result<Piece> {
        if let Some(head) = self.head.take() {
            return Ok(Some((head, Some(self))));
        }
        let line = self.line().await.inspect_err(|error| {
            tracing::warn!(%error, sent = self.sent, "an export broke off");
        })?;
        if let Some(line) = line {
            self.sent += 1;
            return Ok(Some((line, Some(self))));
        }
        Ok(match self.form {
            Form::Training(LastLine::LeftOut) | Form::Table => None,
            Form::Training(LastLine::Given) => {
                let end = json!({ "end": true, "count": self.sent });
                Some((Bytes::from(format!("{end}\n")), None))
            }
        })
    }

    async fn line(&mut self) -> std::io::Result<Option<Bytes>> {
        while self.left.is_none_or(|left| self.sent < left) {
            if self.page.is_empty() {
                self.fill().await.map_err(std::io::Error::other)?;
            }
            let Some(row) = self.page.pop_front() else {
                return Ok(None);
            };
            let session = self.state.store.sessions().get(row.session_id).await;
            let session = session.map_err(std::io::Error::other)?;
            if let Some(session) = session {
                let current = self.state.enqueue.current_criteria();
                let line = TrainingLine {
                    session: body_of(session),
                    score: scores::view::score(row, &current.hash.0),
                };
                let text = match self.form {
                    Form::Training(_) => {
                        let mut text = serde_json::to_vec(&line)?;
                        text.push(b'\n');
                        text
                    }
                    Form::Table => csv_record(&cells(line)?)?,
                };
                return Ok(Some(text.into()));
            }
        }
        Ok(None)
    }

    /// Reads the next page of scores, if there is one.
    async fn fill(&mut self) -> Result<(), StoreError> {
        if self.read {
            return Ok(());
        }
        let page = self
            .state
            .store
            .scores()
            .good(&self.good, self.after, PAGE)
            .await?;
        self.read = page.len() < PAGE as usize;
        self.after = page.last().map(|row| row.session_id);
        self.page = page.into();
        Ok(())
    }
}

/// The cells of a score, in the order of [`COLUMNS`].
fn cells(line: TrainingLine) -> serde_json::Result<[String; 23]> {
    let TrainingLine { session, score } = line;
    let text = Option::unwrap_or_default;
    let tools = score.missing_tools.iter().map(|tool| &tool.tool_name);
    Ok([
        score.session_id.to_string(),
        text(session.external_id),
        text(session.alert_type),
        text(session.agent),
        text(session.status),
        serde_json::to_string(&session.tags)?,
        text(session.started_at),
        text(session.completed_at),
        score.score_id.to_string(),
        score.total_score.to_string(),
        score.rating.to_string(),
        serde_json::to_string(&score.score_breakdown)?,
        serde_json::to_string(&score.flags)?,
        serde_json::to_string(&tools.collect::<Vec<_>>())?,
        score.criteria_hash,
        score.is_current_criteria.to_string(),
        score.judge.provider,
        score.judge.model,
        score.scored_at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
        score.scored_triggered_by,
        score
            .usage
            .cost_usd
            .map_or_else(String::new, |cost| cost.to_string()),
        score.job_id.to_string(),
        score.score_reasoning,
    ])
}

/// A stored session as the body that puts it.
fn body_of(session: SessionRecord) -> SessionInput {
    let time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    SessionInput {
        session_id: Some(session.session_id),
        external_id: session.external_id,
        status: Some(session.status.as_str().to_owned()),
        alert_type: session.alert_type,
        agent: session.agent,
        author: session.author,
        alert_data: Some(session.alert_data),
        conversation: session.conversation,
        final_analysis: session.final_analysis,
        tools: session.tools,
        tags: session.tags,
        started_at: session.started_at.map(time),
        completed_at: session.completed_at.map(time),
    }
}
