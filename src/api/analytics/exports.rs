//! Exports: sessions with scores as JSONL for training or comparison, and scores as a table. Streamed at the client's
//! speed: memory holds one page of scores and one session.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use futures::stream;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::{Selection, Unnamed, selection};
use crate::api::ApiState;
use crate::api::batches::reports::BinaryFile;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::api::scores;
use crate::history::ingest::SessionInput;
use crate::report::parquet::Table;
use crate::report::{ColumnType, csv_record};
use crate::store::{GoodScores, SessionFilter, SessionRecord, SessionScoreRow, StoreError};
use crate::wire::{Rating, Score, SessionStatus, TableFormat};

const DEFAULT_MIN_SCORE: u8 = 85;
const MAX_LIMIT: u64 = 2_147_483_647;
const PAGE_SIZE: u32 = 100;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(training))
        .routes(routes!(scores_table))
}

/// One line: a session in the format of PUT, and its current score.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TrainingLine {
    pub(crate) session: SessionInput,
    /// Current score at the start of the export.
    pub(crate) score: Score,
}

/// Whether a final line marks the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLine {
    Given,
    LeftOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportForm {
    /// A session with its score, as JSON.
    Training(LastLine),
    Table(TableFormat),
}

const COLUMNS: [(&str, ColumnType); 23] = [
    ("session_id", ColumnType::Text),
    ("external_id", ColumnType::Text),
    ("alert_type", ColumnType::Text),
    ("agent", ColumnType::Text),
    ("status", ColumnType::Text),
    ("tags", ColumnType::Json),
    ("started_at", ColumnType::Time),
    ("completed_at", ColumnType::Time),
    ("score_id", ColumnType::Text),
    ("total_score", ColumnType::Whole),
    ("rating", ColumnType::Text),
    ("score_breakdown", ColumnType::Json),
    ("flags", ColumnType::Json),
    ("missing_tools", ColumnType::Json),
    ("criteria_hash", ColumnType::Text),
    ("is_current_criteria", ColumnType::Flag),
    ("judge_provider", ColumnType::Text),
    ("judge_model", ColumnType::Text),
    ("scored_at", ColumnType::Time),
    ("scored_triggered_by", ColumnType::Text),
    ("cost_usd", ColumnType::Number),
    ("job_id", ColumnType::Text),
    ("score_reasoning", ColumnType::Text),
];

struct Export {
    state: ApiState,
    good: GoodScores,
    /// Number of remaining lines. `None`: no limit.
    left: Option<u64>,
    sent: u64,
    page: VecDeque<SessionScoreRow>,
    /// Session of the last score read.
    after: Option<Uuid>,
    read: bool,
    form: ExportForm,
    /// Table header, until sent.
    head: Option<Bytes>,
    parquet: Option<Table<Vec<u8>>>,
}

/// Streams sessions with good scores as JSONL, in order of their ids.
///
/// Includes only scores of real judges that are current at the start of the export, one per session. Lines are always
/// complete. A broken stream has no end of the HTTP body, which clients report as an error. With `end=true`, a final
/// line `{"end":true,"count":N}` marks the end.
#[utoipa::path(
    get, path = "/api/v1/exports/training", tag = "analytics",
    params(
        ("min_score" = Option<u8>, Query, description = "Total at least, 0-100; default 85", maximum = 100),
        Selection,
        ("limit" = Option<u32>, Query, description = "Maximum number of lines; default all", minimum = 1, maximum = 2_147_483_647),
        ("end" = Option<bool>, Query, description = "Adds a last line that marks the export as complete"),
    ),
    responses(
        (status = 200, description = "The sessions and their scores", body = TrainingLine, content_type = "application/x-ndjson",
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "criteria-not-found"),
    ),
)]
async fn training(State(state): State<ApiState>, mut params: Params) -> Result<Response, ApiError> {
    let chosen = selection(&mut params, Unnamed::Any);
    let min_score = params
        .whole("min_score", 0..=100)
        .unwrap_or(DEFAULT_MIN_SCORE);
    let left = params.whole("limit", 1..=MAX_LIMIT);
    let last_line = match params.flag("end") {
        true => LastLine::Given,
        false => LastLine::LeftOut,
    };
    params.finish()?;
    let good = GoodScores {
        filter: chosen.filter(&state).await?,
        sessions: SessionFilter::default(),
        min_score,
        at: state.clock.now(),
    };
    streamed(state, good, left, ExportForm::Training(last_line)).await
}

/// Streams current scores as CSV or Parquet, one row per score, in order of session ids.
///
/// Includes only scores of real judges that are current at the start of the export. `score_breakdown` is JSON; tags,
/// flags and missing tools are JSON lists. Parquet has typed numbers, booleans and times (UTC). The filters are the same as for the list of
/// sessions. A broken stream has no end of the HTTP body.
#[utoipa::path(
    get, path = "/api/v1/exports/scores", tag = "analytics",
    params(
        ("format" = Option<TableFormat>, Query, description = "`csv` (default) or `parquet`"),
        ("q" = Option<String>, Query, description = "Part of an alert type, agent or author, or the prefix of an id or an external_id"),
        ("status" = Option<SessionStatus>, Query, description = "State of the session"),
        ("rating" = Option<Rating>, Query, description = "By the score's rating"),
        ("max_score" = Option<u8>, Query, description = "Total at most, 0-100", maximum = 100),
        ("missing_tool" = Option<String>, Query, description = "The score reports this tool as missing, in any spelling"),
        ("tag" = Option<String>, Query, description = "Sessions with this label"),
        ("agent" = Option<String>, Query, description = "The agent's full name"),
        ("alert_type" = Option<String>, Query, description = "The full alert type"),
        ("min_score" = Option<u8>, Query, description = "Total at least, 0-100; default 0", maximum = 100),
        Selection,
        ("limit" = Option<u32>, Query, description = "Maximum number of rows; default all", minimum = 1, maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "The scores", content((String = "text/csv"), (inline(BinaryFile) = "application/vnd.apache.parquet")),
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "criteria-not-found"),
    ),
)]
async fn scores_table(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let chosen = selection(&mut params, Unnamed::Any);
    let format = params.take("format").unwrap_or(TableFormat::Csv);
    let min_score = params.whole("min_score", 0..=100).unwrap_or(0);
    let sessions = SessionFilter {
        q: params.text("q"),
        status: params.take("status"),
        rating: params.take("rating"),
        max_score: params.whole("max_score", 0..=100),
        missing_tool: params.text("missing_tool"),
        tag: params.text("tag"),
        agent: params.text("agent"),
        alert_type: params.text("alert_type"),
        ..SessionFilter::default()
    };
    let left = params.whole("limit", 1..=MAX_LIMIT);
    params.finish()?;
    let good = GoodScores {
        filter: chosen.filter(&state).await?,
        sessions,
        min_score,
        at: state.clock.now(),
    };
    streamed(state, good, left, ExportForm::Table(format)).await
}

async fn streamed(
    state: ApiState,
    good: GoodScores,
    left: Option<u64>,
    form: ExportForm,
) -> Result<Response, ApiError> {
    let (media_type, file) = match form {
        ExportForm::Training(_) => ("application/x-ndjson", "training.jsonl"),
        ExportForm::Table(TableFormat::Csv) => ("text/csv; charset=utf-8", "scores.csv"),
        ExportForm::Table(TableFormat::Parquet) => {
            ("application/vnd.apache.parquet", "scores.parquet")
        }
    };
    let (head, parquet) = match form {
        ExportForm::Training(_) => (None, None),
        ExportForm::Table(TableFormat::Csv) => {
            let names = COLUMNS.map(|(name, _)| name).join(",");
            (Some(Bytes::from(names + "\n")), None)
        }
        ExportForm::Table(TableFormat::Parquet) => {
            let table = Table::new(Vec::new(), COLUMNS);
            let table = table.map_err(|error| ApiError::Internal(error.to_string()))?;
            (None, Some(table))
        }
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
        parquet,
    };
    // Reads the first page before the response, so that an unavailable database sets the status.
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

/// A chunk of the body and the rest of the export; `None` at the end.
type BodyPiece = Option<(Bytes, Option<Export>)>;

impl Export {
    /// Returns the next chunk and the rest of the export. An error aborts the body.
    async fn next(mut self) -> std::io::Result<BodyPiece> {
        if let Some(head) = self.head.take() {
            return Ok(Some((head, Some(self))));
        }
        let piece = match self.parquet.take() {
            Some(table) => self.row_group(table).await,
            None => self.line().await,
        };
        let piece = piece.inspect_err(|error| {
            tracing::warn!(%error, sent = self.sent, "export aborted");
        })?;
        if let Some(piece) = piece {
            let is_last =
                self.form == ExportForm::Table(TableFormat::Parquet) && self.parquet.is_none();
            return Ok(Some((piece, (!is_last).then_some(self))));
        }
        Ok(match self.form {
            ExportForm::Training(LastLine::LeftOut) | ExportForm::Table(_) => None,
            ExportForm::Training(LastLine::Given) => {
                let end = json!({ "end": true, "count": self.sent });
                Some((Bytes::from(format!("{end}\n")), None))
            }
        })
    }

    /// Returns the next row group, or the final bytes of the file after the last one.
    async fn row_group(&mut self, mut table: Table<Vec<u8>>) -> std::io::Result<Option<Bytes>> {
        let failed = std::io::Error::other;
        while let Some(row) = self.row().await? {
            if table.add(cells(row)?.into()).map_err(failed)? {
                let written = table.written().map_err(failed)?;
                self.parquet = Some(table);
                return Ok(Some(written.into()));
            }
        }
        Ok(Some(table.end().map_err(failed)?.into()))
    }

    async fn line(&mut self) -> std::io::Result<Option<Bytes>> {
        let Some(row) = self.row().await? else {
            return Ok(None);
        };
        let text = match self.form {
            ExportForm::Training(_) => {
                let mut text = serde_json::to_vec(&row)?;
                text.push(b'\n');
                text
            }
            ExportForm::Table(_) => csv_record(&cells(row)?.each_ref().map(text))?,
        };
        Ok(Some(text.into()))
    }

    async fn row(&mut self) -> std::io::Result<Option<TrainingLine>> {
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
                self.sent += 1;
                return Ok(Some(TrainingLine {
                    session: body_of(session),
                    score: scores::view::score(row, &current.hash.0),
                }));
            }
        }
        Ok(None)
    }

    /// Reads the next page of scores, unless all are read.
    async fn fill(&mut self) -> Result<(), StoreError> {
        if self.read {
            return Ok(());
        }
        let page = self
            .state
            .store
            .scores()
            .good(&self.good, self.after, PAGE_SIZE)
            .await?;
        self.read = page.len() < PAGE_SIZE as usize;
        self.after = page.last().map(|row| row.session_id);
        self.page = page.into();
        Ok(())
    }
}

/// Returns the cells of a score in the order of [`COLUMNS`].
fn cells(line: TrainingLine) -> serde_json::Result<[Value; 23]> {
    let TrainingLine { session, score } = line;
    let tools = score.missing_tools.iter().map(|tool| &tool.tool_name);
    Ok([
        score.session_id.to_string().into(),
        session.external_id.into(),
        session.alert_type.into(),
        session.agent.into(),
        session.status.into(),
        serde_json::to_value(&session.tags)?,
        session.started_at.into(),
        session.completed_at.into(),
        score.score_id.to_string().into(),
        score.total_score.into(),
        score.rating.as_str().into(),
        serde_json::to_value(&score.score_breakdown)?,
        serde_json::to_value(&score.flags)?,
        tools.map(String::as_str).collect(),
        score.criteria_hash.into(),
        score.is_current_criteria.into(),
        score.judge.provider.into(),
        score.judge.model.into(),
        time(score.scored_at).into(),
        score.scored_triggered_by.into(),
        score.usage.cost_usd.into(),
        score.job_id.to_string().into(),
        score.score_reasoning.into(),
    ])
}

/// Formats a cell for CSV, with numbers without an exponent.
fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .map_or_else(String::new, |number| number.to_string()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => cell.to_string(),
    }
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Converts a stored session to the body of its PUT.
fn body_of(session: SessionRecord) -> SessionInput {
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
