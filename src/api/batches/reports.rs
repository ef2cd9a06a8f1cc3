//! Batch reports: written to a temporary file and streamed from it, so that memory doesn't depend on the number of items.

use std::fs::File;
use std::io::{BufWriter, Read as _, Seek as _};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::extract::{Path, Query, QueryPart};
use crate::api::http::problem::ApiError;
use crate::memory::{MemoryBudget, Taken, blocking};
use crate::report::{self, EndedItems, Format, Judging, Meta, ReportError, Simulated};
use crate::wire::{ItemOutcome, Problem};

const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Maximum number of concurrent reports. Each uses a CPU core and two temporary files of the batch's size.
const MAX_CONCURRENT_REPORTS: usize = 4;
/// Memory of a report: the items of a page and a parsed item, bytes.
const REPORT_BYTES: u64 = 96 << 20;
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Permits to read an entire batch for a report or a comparison.
#[derive(Clone)]
pub(crate) struct ReportPermits {
    at_once: Arc<Semaphore>,
    memory: MemoryBudget,
}

/// Permit to read an entire batch, including its memory.
pub(crate) struct ReportPermit {
    _at_once: OwnedSemaphorePermit,
    _memory: Taken,
}

impl ReportPermits {
    pub(crate) fn new(memory: MemoryBudget) -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(MAX_CONCURRENT_REPORTS)),
            memory,
        }
    }

    pub(crate) async fn take(&self) -> Result<ReportPermit, ApiError> {
        let permit =
            tokio::time::timeout(PERMIT_TIMEOUT, self.at_once.clone().acquire_owned()).await;
        match permit {
            Ok(Ok(permit)) => Ok(ReportPermit {
                _at_once: permit,
                _memory: self.memory.take(REPORT_BYTES).await?,
            }),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(ApiError::TooManyReports(MAX_CONCURRENT_REPORTS)),
        }
    }
}

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Store(error) => error.into(),
            // These files are internal, so that clients can't fix the error.
            ReportError::Read { .. } | ReportError::Line { .. } | ReportError::Write { .. } => {
                Self::Internal(error.to_string())
            }
        }
    }
}

/// A binary file in the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
pub(crate) struct BinaryFile(
    #[expect(dead_code, reason = "only for the OpenAPI document")] Vec<u8>,
);

/// `report.json`: the summary, then all items.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "OpenAPI form of the output of report::json")]
pub(super) struct JsonReport {
    name: String,
    run: Option<String>,
    made_at: chrono::DateTime<chrono::Utc>,
    /// Number of items that have not ended.
    unfinished: u64,
    /// `refused` or `allowed`: whether simulated scores can pass.
    simulated: String,
    /// `asked` or `not_run`: whether a judge was called.
    judging: String,
    criteria_hash: Option<String>,
    #[schema(value_type = Object)]
    summary: (),
    /// Items with the columns of the tables, and `Result`.
    #[schema(value_type = Vec<Object>)]
    items: (),
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ReportQuery {
    /// Only these items, as in the list of items; for `report.jsonl`, `report.csv` and `report.parquet`
    outcome: Option<ItemOutcome>,
    /// Whether scores of a simulated judge may pass; default false: they make the verdict incomplete, and are skipped tests in JUnit
    allow_simulated: bool,
}

impl QueryPart for ReportQuery {}

/// Downloads the report of a batch in the format of the file name.
///
/// The report has the ended items. While the batch runs, `unfinished` is the number of other items.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/{report}", tag = "batches",
    params(
        ReportQuery,
        ("report" = String, Path, description = "`report.json`: the summary, then every item. `report.jsonl`: a line per item, lossless. `report.csv`, \
            `report.xlsx`, `report.parquet`: a row per item; the workbook also has the summary. \
            `report.junit.xml`: for CI servers; misses are failures, items without a score are errors. \
            `report.md`: a readable summary, at most 900 KB.",
            pattern = r"^report\.(json|jsonl|csv|xlsx|parquet|junit\.xml|md)$"),
    ),
    responses(
        (status = 200, description = "The report", content(
            // Text first, because generated clients parse each response as the first supported type.
            (String = "text/csv"), (String = "text/markdown"), (String = "application/x-ndjson"), (String = "application/xml"), (inline(JsonReport) = "application/json"),
            (inline(BinaryFile) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            (inline(BinaryFile) = "application/vnd.apache.parquet")),
            headers(("Content-Disposition" = String, description = "`attachment` with a file name"))),
        (status = 404, description = "batch-not-found, not-found (no such report)"),
        (status = 503, description = "too-many-reports, memory-busy, database-unavailable", body = Problem, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"))),
    ),
)]
pub(crate) async fn batch_report(
    state: ApiState,
    Path((id, name)): Path<(Uuid, String)>,
    Query(query): Query<ReportQuery>,
) -> Result<Response, ApiError> {
    let format = name
        .strip_prefix("report.")
        .and_then(|text| Format::ALL.into_iter().find(|known| known.as_str() == text))
        .ok_or(ApiError::NoRoute)?;
    if query.outcome.is_some() && !format.is_rows() {
        let message = "selects rows, but this report covers all items: use report.csv, report.jsonl or report.parquet, or omit it";
        return Err(ApiError::fault("/outcome", message));
    }
    let row = state.store.batches().get(id).await?;
    let row = row.ok_or(ApiError::BatchNotFound(id))?;
    let permit = state.report_permits().take().await?;
    let batch = EndedItems::read(&state.store, id, query.outcome).await?;
    let meta = Meta {
        name: row.name.unwrap_or_else(|| format!("Batch {id}")),
        run: Some(id.to_string()),
        made_at: state.clock.now(),
        unfinished: batch.unfinished,
        simulated: if query.allow_simulated {
            Simulated::Allowed
        } else {
            Simulated::Refused
        },
        judging: Judging::Asked,
        criteria_hash: row.criteria_hash,
    };
    // Moves the permit, because writing continues if the client disconnects.
    let writing = move || {
        let _permit = permit;
        write(format, &batch, &meta)
    };
    Ok(answer(id, format, blocking(writing).await?))
}

/// Writes the report to an anonymous file. Returns the file and its length.
fn write(format: Format, batch: &EndedItems, meta: &Meta) -> Result<(File, u64), ReportError> {
    let failed = |error: std::io::Error| ReportError::Write {
        what: "a report into the temporary folder".to_owned(),
        reason: error.to_string(),
    };
    let mut out = BufWriter::new(tempfile::tempfile().map_err(failed)?);
    report::write(format, &batch.items, meta, &mut out)?;
    let mut file = out
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    let length = file.metadata().map_err(failed)?.len();
    file.rewind().map_err(failed)?;
    Ok((file, length))
}

fn answer(id: Uuid, format: Format, (file, length): (File, u64)) -> Response {
    let disposition = format!("attachment; filename=\"batch-{id}-report.{format}\"");
    let headers: [(HeaderName, String); 3] = [
        (header::CONTENT_TYPE, format.media_type().to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    (headers, chunks(file)).into_response()
}

/// Streams the file at the client's speed.
fn chunks(file: File) -> Body {
    Body::from_stream(stream::try_unfold(file, async |mut file| {
        let read = blocking(move || {
            let mut chunk = vec![0; READ_BUFFER_BYTES];
            let length = file.read(&mut chunk)?;
            chunk.truncate(length);
            Ok::<_, std::io::Error>((Bytes::from(chunk), file))
        });
        let (chunk, file) = read.await?;
        Ok::<_, std::io::Error>((!chunk.is_empty()).then_some((chunk, file)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn report_waits_for_permit_until_timeout() {
        let permits = ReportPermits::new(MemoryBudget::new(1 << 30));
        let mut held = Vec::new();
        for _ in 0..MAX_CONCURRENT_REPORTS {
            held.push(permits.take().await.unwrap());
        }
        let error = permits.take().await.err().unwrap();
        assert!(matches!(
            error,
            ApiError::TooManyReports(MAX_CONCURRENT_REPORTS)
        ));
        let (next, ()) = tokio::join!(permits.take(), async { held.clear() });
        assert!(next.is_ok());
    }
}
