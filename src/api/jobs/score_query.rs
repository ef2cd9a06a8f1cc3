//! POST `/api/score-query`: scores a query in one request, compatible with the original API. Enqueues a normal job and
//! delays the response until it has ended. Another process may run the job, and it survives a disconnect.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::problem::ApiError;
use crate::api::http::wait::Prefer;
use crate::api::scores::accepted;
use crate::enqueue::{EnqueueError, ScoreCase};
use crate::job::{Job, JobOptions, JobState, Kind, Priority, Usage};
use crate::score::query::QueryScore;
use crate::wire::{JobRef, Problem, RequestFault};

/// Timeout of the final poll after the wait, so that a hanging store doesn't delay the response.
const FINAL_POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// A generated query and the expected one. Also the payload of jobs of kind `query`.
#[derive(utoipa::ToSchema)]
#[expect(
    dead_code,
    reason = "OpenAPI form of the body that score::query parses, so that all errors are reported at once"
)]
pub(crate) struct ScoreQueryRequest {
    /// Id of the case, at most 255 characters. A number is accepted.
    #[schema(value_type = Option<Value>)]
    id: Option<String>,
    /// The question that the query answers, at most 64 KiB. Read by the judge.
    prompt: Option<String>,
    /// The generated query, at most 64 KiB. Empty if the agent wrote none.
    generated_kql: String,
    /// The expected query, at most 64 KiB.
    expected_kql: String,
    /// Execution error of the generated query, at most 16 KiB. Absent or empty if it succeeded.
    generated_error: Option<String>,
    /// Names of the generated columns, at most 500. Default: the rows' keys.
    generated_columns: Option<Vec<String>>,
    /// Names of the expected columns, at most 500. Default: the rows' keys.
    expected_columns: Option<Vec<String>>,
    /// Result rows of the generated query, at most 10,000; each an object, or an array of cells.
    generated_results: Option<Vec<Value>>,
    /// Result rows of the expected query, at most 10,000; each an object, or an array of cells.
    expected_results: Option<Vec<Value>>,
    /// Alternative correct queries, at most 16. The best match counts.
    accepted: Option<Vec<AcceptedQuery>>,
    /// Whether the order of rows matters: true, false (default), or "auto": if the expected query sorts at its top level.
    #[schema(value_type = Option<Value>)]
    ordered: Option<Value>,
    /// Number of decimals, 0-15. Numbers that are equal after rounding count as equal.
    decimals: Option<u8>,
    /// Language of both queries: `kql` (default) or `sql`.
    language: Option<String>,
    /// Dialect of `sql`: generic (default), postgres, mysql, sqlite, mssql, bigquery, snowflake, redshift, clickhouse,
    /// duckdb, databricks, hive or ansi.
    dialect: Option<String>,
    /// Minimum total to pass, 0-1; default 0.9.
    threshold: Option<f64>,
    /// A judge, or a model. A model selects the entry that lists it, or the default judge's entry.
    model: Option<String>,
}

/// An alternative correct query.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the document's form, as above")]
pub(crate) struct AcceptedQuery {
    kql: String,
    /// Column names. Default: the rows' keys.
    columns: Option<Vec<String>>,
    /// Result rows. Default: rows of the expected query, with its columns.
    results: Option<Vec<Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(crate) struct ScoreQueryReply {
    /// Always true. Failures return a problem document.
    success: bool,
    /// The score. `incomplete` if the judge failed.
    #[schema(value_type = QueryScore)]
    score: Value,
    job_id: Uuid,
    /// Whether a simulated judge graded.
    simulated: bool,
    usage: Usage,
}

/// Scores a generated query against an expected one.
///
/// Responds with the score. Without a score after `http.score_query_wait_s` it returns 504 and the job continues. With
/// `Prefer: respond-async`, or `wait=N`, it returns 202 with the job, immediately or after N seconds. If the judge
/// fails after its retries, only its component and the total are missing: 200 with `status` `incomplete`.
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
        (status = 502, description = "judge-failed: no result could be computed"),
        (status = 503, description = "scoring-disabled, judge-not-configured, database-unavailable"),
        (status = 504, description = "judge-slow", body = Problem, content_type = "application/problem+json", headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"))),
    ),
)]
pub(crate) async fn score_query(
    api: Authorized,
    prefer: Prefer,
    headers: HeaderMap,
    body: ApiJson<Value>,
) -> Result<Response, ApiError> {
    let ApiJson(payload) = body;
    let request = ScoreCase {
        kind: Kind::Query,
        payload,
        options: JobOptions::new(api.caller.requester()?, Priority::Interactive),
        new_id: api.keyed_id.new_id(),
        batch: None,
    };
    let job = api.enqueue.score_case(request, None).await;
    let job = job.map_err(refused)?;
    api.memory.release();
    let limit = WaitLimit::from_headers(&headers, prefer);
    let answer = match poll_until_ended(&api, job, limit).await {
        job if job.state.is_terminal() => outcome(job)?,
        job => limit.over(job)?,
    };
    Ok(limit.mark(answer))
}

/// Wait mode of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitLimit {
    /// Until the score or the service's limit, as in the original API.
    Score,
    /// At most the client's limit, then 202 with the job.
    JobAfter(Prefer),
    /// As `JobAfter`, set by `respond-async`.
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

    /// Returns the response for a job that still runs.
    fn over(self, job: Job) -> Result<Response, ApiError> {
        match self {
            Self::Score => Err(ApiError::JudgeSlow(Box::new(job))),
            Self::JobAfter(_) | Self::JobAsync(_) => Ok(accepted(&job)),
        }
    }

    /// Adds the header `Preference-Applied`.
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

/// Returns the job once it has ended or the wait is over. Reads the store, because another process may run the job.
async fn poll_until_ended(state: &ApiState, job: Job, limit: WaitLimit) -> Job {
    // An earlier try of the same request may have created it.
    if job.state.is_terminal() {
        return job;
    }
    let wait = limit.wait(state.http.score_query_wait_s);
    match wait.ended(state, job.job_id).await {
        Some(ended) => ended,
        // The job is accepted even if the store fails now.
        None => match tokio::time::timeout(FINAL_POLL_TIMEOUT, state.store.jobs().get(job.job_id))
            .await
        {
            Ok(Ok(Some(now))) => now,
            Ok(Ok(None) | Err(_)) | Err(_) => job,
        },
    }
}

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
        // A retry reactivated it.
        (JobState::Queued | JobState::Running | JobState::Waiting, _) => Ok(accepted(&job)),
    }
}

/// Maps the reason of a rejected request. The body is the payload, so pointers refer to the body.
fn refused(error: EnqueueError) -> ApiError {
    if let EnqueueError::BadPayload(faults) = error {
        let fault = |fault: crate::score::Fault| RequestFault {
            pointer: fault.pointer,
            message: fault.message,
        };
        ApiError::Invalid(faults.into_iter().map(fault).collect())
    } else if let EnqueueError::UnknownModel { .. } = error {
        ApiError::fault("/model", error.to_string())
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preference_turns_timeout_into_accepted_job() {
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
