//! Exports: sessions with scores as JSONL for training or comparison, and scores as a table. Streamed at the client's
//! speed: memory holds one page of scores and one session.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::filter;
use crate::api::ApiState;
use crate::api::batches::reports::BinaryFile;
use crate::api::criteria::named::resolve;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::ApiError;
use crate::api::scores;
use crate::history::ingest::SessionInput;
use crate::report::parquet::Table;
use crate::report::{ColumnType, csv_record};
use crate::store::{
    GoodScores, ScoreFilter, SessionFilter, SessionRecord, SessionScoreRow, StoreError,
};
use crate::wire::{Score, ScoreSelection, TableFormat};

const DEFAULT_MIN_SCORE: u8 = 85;
const PAGE_SIZE: u32 = 100;

/// One line: a session in the format of PUT, and its current score.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TrainingLine {
    pub(crate) session: SessionInput,
    /// Current score at the start of the export.
    pub(crate) score: Score,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportForm {
    /// A session with its score, as JSON.
    Training,
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

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct TrainingQuery {
    /// Total at least, 0-100; default 85
    #[param(maximum = 100)]
    min_score: Option<u8>,
}

impl QueryPart for TrainingQuery {}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct TableQuery {
    /// `csv` (default) or `parquet`
    format: Option<TableFormat>,
}

impl QueryPart for TableQuery {}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ExportLimit {
    /// Maximum number of lines; default all
    #[param(minimum = 1, maximum = 2_147_483_647)]
    limit: Option<u64>,
}

impl QueryPart for ExportLimit {}

/// Streams sessions with good scores as JSONL, in order of their ids.
///
/// Includes only scores of real judges that are current at the start of the export, one per session. Lines are always
/// complete. A broken stream has no end of the HTTP body, which clients report as an error.
#[utoipa::path(
    get, path = "/api/v1/exports/training", tag = "analytics",
    params(TrainingQuery, ScoreSelection, ExportLimit),
    responses(
        (status = 200, description = "The sessions and their scores", body = TrainingLine, content_type = "application/x-ndjson",
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn training(
    state: ApiState,
    Query((query, selection, limit)): Query<(TrainingQuery, ScoreSelection, ExportLimit)>,
) -> Result<Response, ApiError> {
    let good = GoodScores {
        filter: filter(&state, selection, None).await?,
        sessions: SessionFilter::default(),
        min_score: query.min_score.unwrap_or(DEFAULT_MIN_SCORE),
        at: state.clock.now(),
    };
    streamed(state, good, limit.limit, ExportForm::Training).await
}

/// Streams current scores as CSV or Parquet, one row per score, in order of session ids.
///
/// Includes only scores of real judges that are current at the start of the export. `score_breakdown` is JSON; tags,
/// flags and missing tools are JSON lists. Parquet has typed numbers, booleans and times (UTC). The filters are the same as for the list of
/// sessions. A broken stream has no end of the HTTP body.
#[utoipa::path(
    get, path = "/api/v1/exports/scores", tag = "analytics",
    params(TableQuery, SessionFilter, ExportLimit),
    responses(
        (status = 200, description = "The scores", content((String = "text/csv"), (inline(BinaryFile) = "application/vnd.apache.parquet")),
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn scores_table(
    state: ApiState,
    Query((query, mut sessions, limit)): Query<(TableQuery, SessionFilter, ExportLimit)>,
) -> Result<Response, ApiError> {
    resolve(&state, "", &mut sessions).await?;
    let good = GoodScores {
        filter: ScoreFilter {
            criteria_hash: sessions.criteria.take(),
            from: sessions.from.take(),
            to: sessions.to.take(),
        },
        min_score: sessions.min_score.take().unwrap_or(0),
        sessions,
        at: state.clock.now(),
    };
    let format = query.format.unwrap_or(TableFormat::Csv);
    streamed(state, good, limit.limit, ExportForm::Table(format)).await
}

async fn streamed(
    state: ApiState,
    good: GoodScores,
    left: Option<u64>,
    form: ExportForm,
) -> Result<Response, ApiError> {
    let (media_type, file) = match form {
        ExportForm::Training => ("application/x-ndjson", "training.jsonl"),
        ExportForm::Table(TableFormat::Csv) => ("text/csv; charset=utf-8", "scores.csv"),
        ExportForm::Table(TableFormat::Parquet) => {
            ("application/vnd.apache.parquet", "scores.parquet")
        }
    };
    let (head, parquet) = match form {
        ExportForm::Training => (None, None),
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
        Ok(None)
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
            ExportForm::Training => {
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
