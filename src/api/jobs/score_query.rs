//! A query's score in one request, in the shape of its origin: POST `/api/score-query` enqueues a job and holds its answer back
//! until the job has ended. The work is a job like any other, so the worker may be another process, and nothing is lost with
//! the connection.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::params::NoQuery;
use crate::api::http::problem::{ApiError, FaultStatus};
use crate::api::http::wait::Prefer;
use crate::api::scores::accepted;
use crate::enqueue::{EnqueueError, ScoreCase};
use crate::job::{Job, JobOptions, JobState, Kind, Priority, Usage};
use crate::score::query::QueryScore;
use crate::wire::{JobRef, Problem, RequestFault};

/// How long the last look at a job may take once its wait is over: a store that hangs holds no answer back.
const LAST_LOOK: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(score_query))
}

/// A generated query against the one that is right; also the payload of a job of kind `query`.
#[derive(utoipa::ToSchema)]
#[expect(
    dead_code,
    reason = "the document's form of what score::query reads by hand, to tell every fault at once"
)]
pub(crate) struct ScoreQueryRequest {
    /// The case's own name, at most 255 characters; a number is taken, too.
    #[schema(value_type = Option<Value>)]
    id: Option<String>,
    /// The question that the query answers, at most 64 KiB; the judge reads it.
    prompt: Option<String>,
    /// The query that an agent wrote, at most 64 KiB; empty if it wrote none.
    generated_kql: String,
    /// The query that is right, at most 64 KiB.
    expected_kql: String,
    /// Why the generated query did not execute, at most 16 KiB; left out or empty if it did.
    generated_error: Option<String>,
    /// Names of the generated columns, at most 500; left out: the rows' keys.
    generated_columns: Option<Vec<String>>,
    /// Names of the expected columns, at most 500; left out: the rows' keys.
    expected_columns: Option<Vec<String>>,
    /// The rows that the generated query gave, at most 10,000; each an object, or an array of cells.
    generated_results: Option<Vec<Value>>,
    /// The rows that the expected query gave, at most 10,000; each an object, or an array of cells.
    expected_results: Option<Vec<Value>>,
    /// Further right answers, at most 16; the one that fits best counts.
    accepted: Option<Vec<AcceptedQuery>>,
    /// Whether rows must come in the expected order: true, false (default), or "auto": if the query that is right sorts at
    /// its top level.
    #[schema(value_type = Option<Value>)]
    ordered: Option<Value>,
    /// Decimals after which numbers may also be rounded to be equal, 0-15.
    decimals: Option<u8>,
    /// `kql` (default) or `sql`: what both queries are written in.
    language: Option<String>,
    /// Of `sql`: generic (default), postgres, mysql, sqlite, mssql, bigquery, snowflake, redshift, clickhouse, duckdb, databricks,
    /// hive or ansi.
    dialect: Option<String>,
    /// What the total must reach, 0-1; default 0.9.
    threshold: Option<f64>,
    /// A judge, or a model: of the entry that lists it, else of the default judge's.
    model: Option<String>,
}

/// A further right answer.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the document's form, as above")]
pub(crate) struct AcceptedQuery {
    kql: String,
    /// Names of its columns; left out: the rows' keys.
    columns: Option<Vec<String>>,
    /// Its rows; left out: those of the expected query, with its columns.
    results: Option<Vec<Value>>,
}

/// A query's score.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(crate) struct ScoreQueryReply {
    /// Always true: what could not be scored is a problem document.
    success: bool,
    /// The score; `incomplete` where the judge failed.
    #[schema(value_type = QueryScore)]
    score: Value,
    /// The job that made it.
    job_id: Uuid,
    /// Whether a simulated judge graded.
    simulated: bool,
    /// What the judge used.
    usage: Usage,
}

/// Scores a generated query against an expected one.
///
/// Answers when the score is there. Without a score after `http.score_query_wait_s` it is 504, and the job goes on. With
/// `Prefer: respond-async`, or `wait=N`, it is 202 with the job instead, at once or after N seconds. A judge that fails after its
/// retries costs its component and the total alone: that is 200 with `status` `incomplete`.
#[utoipa::path(
    post, path = "/api/score-query", tag = "jobs",
    params(("Prefer" = Option<String>, Header, description = "`respond-async`: 202 with the job at once; `wait=N`: after N seconds, cut to http.max_wait_s")),
    request_body(content = ScoreQueryRequest, example = json!({
        "prompt": "How many errors were there in the last hour, by severity?",
        "generated_kql": "AppTraces | where TimeGenerated > ago(60m) | summarize count() by SeverityLevel",
        "expected_kql": "AppTraces | where TimeGenerated > ago(1h) | summarize count() by SeverityLevel",
        "generated_columns": ["SeverityLevel", "count_"],
        "expected_columns": ["SeverityLevel", "count_"],
        "generated_results": [{"SeverityLevel": 3, "count_": 17}],
        "expected_results": [{"SeverityLevel": 3, "count_": 17}]})),
    responses(
        (status = 200, description = "The score", body = ScoreQueryReply),
        (status = 202, description = "The job that will make the score (only with Prefer)", body = JobRef, headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"),
            ("Preference-Applied" = String, description = "The preference that was honoured"))),
        (status = 409, description = "job-cancelled"),
        (status = 502, description = "judge-failed: nothing could be computed either"),
        (status = 503, description = "scoring-disabled, judge-not-configured, database-unavailable"),
        (status = 504, description = "judge-slow", body = Problem, content_type = "application/problem+json", headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"))),
    ),
)]
async fn score_query(
    api: Authorized,
    prefer: Prefer,
    headers: HeaderMap,
    _: NoQuery,
    body: ApiJson<Value>,
) -> Result<Response, ApiError> {
    let ApiJson(payload) = body;
    let request = ScoreCase {
        kind: Kind::Query,
        payload,
        options: JobOptions::new(
            api.caller.requester(FaultStatus::Unprocessable)?,
            Priority::Interactive,
        ),
        new_id: api.keyed_id.new_id(),
        batch: None,
    };
    let job = api.enqueue.score_case(request, None).await;
    let job = job.map_err(refused)?;
    api.memory.release();
    let limit = WaitLimit::from_headers(&headers, prefer);
    let answer = match last_seen(&api, job, limit).await {
        job if job.state.is_terminal() => outcome(job)?,
        job => limit.over(job)?,
    };
    Ok(limit.mark(answer))
}

/// How the client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitLimit {
    /// As its origin has it: until there is a score, or the service's own limit.
    Score,
    /// At most as long as it says, and then it takes a job.
    JobAfter(Prefer),
    /// As before, said by `respond-async`.
    JobAsync(Prefer),
}

impl WaitLimit {
    fn from_headers(headers: &HeaderMap, prefer: Prefer) -> Self {
        let asynchronous = headers
            .get_all("prefer")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split([',', ';']))
            .any(|preference| preference.trim().eq_ignore_ascii_case("respond-async"));
        match (asynchronous, prefer.0) {
            (true, _) => Self::JobAsync(prefer),
            (false, Some(_)) => Self::JobAfter(prefer),
            (false, None) => Self::Score,
        }
    }

    fn wait(self, whole_s: u64) -> Prefer {
        match self {
            Self::Score => Prefer(Some(whole_s)),
            Self::JobAfter(prefer) | Self::JobAsync(prefer) => prefer,
        }
    }

    /// The answer where the job goes on.
    fn over(self, job: Job) -> Result<Response, ApiError> {
        match self {
            Self::Score => Err(ApiError::JudgeSlow(Box::new(job))),
            Self::JobAfter(_) | Self::JobAsync(_) => Ok(accepted(&job)),
        }
    }

    /// Says in the answer that the preference was heard.
    fn mark(self, response: Response) -> Response {
        match self {
            Self::Score => response,
            Self::JobAfter(prefer) => prefer.mark(response),
            Self::JobAsync(prefer) => {
                let mut response = response;
                let value = match prefer.0 {
                    Some(seconds) => format!("respond-async, wait={seconds}"),
                    None => "respond-async".to_owned(),
                };
                if let Ok(value) = HeaderValue::from_str(&value) {
                    let name = HeaderName::from_static("preference-applied");
                    response.headers_mut().insert(name, value);
                }
                response
            }
        }
    }
}

/// The job as it is once it has ended, or the wait is over. Asks the store: whoever works on it may be another process.
async fn last_seen(state: &ApiState, job: Job, limit: WaitLimit) -> Job {
    // An earlier try of the same request may have made it.
    if job.state.is_terminal() {
        return job;
    }
    let wait = limit.wait(state.http.score_query_wait_s);
    match wait.ended(state, job.job_id).await {
        Some(ended) => ended,
        // A store that doesn't answer now doesn't undo that the job is accepted.
        None => match tokio::time::timeout(LAST_LOOK, state.store.jobs().get(job.job_id)).await {
            Ok(Ok(Some(now))) => now,
            Ok(Ok(None) | Err(_)) | Err(_) => job,
        },
    }
}

/// What a job that has ended came to.
fn outcome(job: Job) -> Result<Response, ApiError> {
    match (job.state, &job.result) {
        (JobState::Succeeded | JobState::Failed, Some(score)) => Ok(Json(ScoreQueryReply {
            success: true,
            score: score.clone(),
            job_id: job.job_id.0,
            simulated: job.simulated,
            usage: job.usage,
        })
        .into_response()),
        (JobState::Succeeded, None) => Err(ApiError::Internal(format!(
            "job {} succeeded without a score",
            job.job_id
        ))),
        (JobState::Failed, None) => Err(ApiError::JudgeFailed(Box::new(job))),
        (JobState::Cancelled, _) => Err(ApiError::JobCancelled(Box::new(job))),
        // A retry made it active again.
        (JobState::Queued | JobState::Running | JobState::Waiting, _) => Ok(accepted(&job)),
    }
}

/// Why the request isn't taken: here the body is the payload, so that pointers are into the body.
fn refused(error: EnqueueError) -> ApiError {
    if let EnqueueError::BadPayload(faults) = error {
        let fault = |fault: crate::score::Fault| RequestFault {
            pointer: fault.pointer,
            message: fault.message,
        };
        ApiError::Invalid {
            fault_status: FaultStatus::Unprocessable,
            faults: faults.into_iter().map(fault).collect(),
        }
    } else if let EnqueueError::UnknownModel { .. } = error {
        ApiError::fault(FaultStatus::Unprocessable, "/model", error.to_string())
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_makes_a_job_of_what_is_late() {
        let none = Prefer(None);
        let five = Prefer(Some(5));
        for (text, prefer, expected, marked) in [
            ("", none, WaitLimit::Score, None),
            ("return=minimal", none, WaitLimit::Score, None),
            (
                "respond-async",
                none,
                WaitLimit::JobAsync(none),
                Some("respond-async"),
            ),
            (
                "Respond-Async, wait=5",
                five,
                WaitLimit::JobAsync(five),
                Some("respond-async, wait=5"),
            ),
            ("wait=5", five, WaitLimit::JobAfter(five), Some("wait=5")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", text.parse().unwrap());
            let limit = WaitLimit::from_headers(&headers, prefer);
            assert_eq!(limit, expected, "{text}");
            let response = limit.mark(().into_response());
            let applied = response.headers().get("preference-applied");
            assert_eq!(
                applied.and_then(|value| value.to_str().ok()),
                marked,
                "{text}"
            );
        }
    }
}
