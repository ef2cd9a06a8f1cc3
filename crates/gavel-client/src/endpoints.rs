//! One method per endpoint.

use std::time::Duration;

use reqwest::{Method, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ANSWER_TIMEOUT, Client, ClientError, Download, Query, Result, with_query};
use gavel_outbound::percent_encoded;
use gavel_wire::{
    AgreementReport, Batch, BatchRetried, BudgetBody, CostList, CriteriaAdded, CriteriaComparison,
    CriteriaDetail, CriteriaDiff, CriteriaList, HumanRating, Import, ImportBody, ImportDetail, Job,
    JobDetail, JobId, JobRef, JobRequest, Judges, Kind, Paused, Queue, RatingRequest, Readiness,
    RescorePlan, RescoreRequest, Resumed, Score, ScoreRequest, Session, SessionItem, SessionPut,
    Spread, Workers,
};

/// Timeout for sending, validating and storing a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(900);
/// Timeout of a report until its last byte, including its generation by the service.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Timeout of an export until its last byte.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Header whose value makes repeated requests return the same object.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Result of a request for a score.
#[derive(Debug, Clone, PartialEq)]
pub enum ScoreOrJob {
    /// Existing score, or a new score that was ready in time.
    Score(Box<Score>),
    /// Job to wait for.
    Job(JobId),
}

/// Subject of a rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rated {
    /// Single score.
    Score(Uuid),
    /// Session.
    Session(Uuid),
}

impl Rated {
    fn path(self) -> String {
        match self {
            Self::Score(id) => format!("/api/v1/scores/{id}/ratings"),
            Self::Session(id) => format!("/api/v1/sessions/{id}/ratings"),
        }
    }
}

/// Result of a rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatingPut {
    /// First rating by its author.
    New,
    /// Replaced an earlier rating.
    Replaced,
}

/// Process.
impl Client {
    /// Checks that the process is alive.
    pub async fn alive(&self) -> Result<()> {
        let (status, bytes) = self.send(self.request(Method::GET, "/livez")).await?;
        match bytes.trim_ascii() {
            b"ok" if status.is_success() => Ok(()),
            _ => Err(self.error_response("/livez", status, &bytes)),
        }
    }

    /// Returns the readiness, with reasons if the server isn't ready.
    pub async fn ready(&self) -> Result<Readiness> {
        let (status, bytes) = self.send(self.request(Method::GET, "/readyz")).await?;
        serde_json::from_slice(&bytes).map_err(|_| self.error_response("/readyz", status, &bytes))
    }

    /// Returns the state of the queue and the number of jobs by state.
    pub async fn queue(&self) -> Result<Queue> {
        self.get("/api/v1/queue").await
    }

    /// Pauses the queue.
    pub async fn pause_queue(&self) -> Result<Paused> {
        self.act("/api/v1/queue/pause").await
    }

    /// Resumes the queue.
    pub async fn resume_queue(&self) -> Result<Resumed> {
        self.act("/api/v1/queue/resume").await
    }

    /// Lists workers seen in the last day.
    pub async fn workers(&self) -> Result<Workers> {
        self.get("/api/v1/workers").await
    }

    /// Returns the state of all judges.
    pub async fn judges(&self) -> Result<Judges> {
        self.get("/api/v1/judges").await
    }

    /// Pauses a judge.
    pub async fn pause_judge(&self, name: &str) -> Result<Paused> {
        let name = percent_encoded(name);
        self.act(&format!("/api/v1/judges/{name}/pause")).await
    }

    /// Resumes a judge.
    pub async fn resume_judge(&self, name: &str) -> Result<Resumed> {
        let name = percent_encoded(name);
        self.act(&format!("/api/v1/judges/{name}/resume")).await
    }
}

/// Sessions and their scores.
impl Client {
    /// Stores a session. Returns the result.
    pub async fn put_session(&self, id: Uuid, body: &impl Serialize) -> Result<SessionPut> {
        let path = format!("/api/v1/sessions/{id}");
        let request = self.request(Method::PUT, &path).json(body);
        self.answer(request, &path).await
    }

    /// Returns a session with its content.
    pub async fn session(&self, id: Uuid) -> Result<Session> {
        self.get(&format!("/api/v1/sessions/{id}")).await
    }

    /// Lists sessions, newest first, up to `limit`. `filter` has query parameters.
    pub async fn sessions(&self, filter: Query<'_>, limit: usize) -> Result<Vec<SessionItem>> {
        self.pages("/api/v1/sessions", filter, limit).await
    }

    /// Deletes a session with its derived data.
    pub async fn delete_session(&self, id: Uuid) -> Result<()> {
        let path = format!("/api/v1/sessions/{id}");
        let (status, bytes) = self.send(self.request(Method::DELETE, &path)).await?;
        match status.is_success() {
            true => Ok(()),
            false => Err(self.error_response(&path, status, &bytes)),
        }
    }

    /// Starts an import from a TARSy server, or returns the same one if it is running.
    pub async fn start_import(&self, body: &ImportBody) -> Result<Import> {
        self.post("/api/v1/sessions/import", body).await
    }

    /// Returns an import with its failures.
    pub async fn import(&self, id: Uuid) -> Result<ImportDetail> {
        self.get(&format!("/api/v1/sessions/imports/{id}")).await
    }

    /// Returns the current score of a session, or `None` without one.
    pub async fn score(&self, session: Uuid) -> Result<Option<Score>> {
        let path = format!("/api/v1/scoring/sessions/{session}/score");
        match self.get(&path).await {
            Ok(score) => Ok(Some(score)),
            Err(error) if error.problem() == Some("not-scored") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests a session's score.
    pub async fn ask_score(&self, session: Uuid, body: &ScoreRequest) -> Result<ScoreOrJob> {
        let path = format!("/api/v1/scoring/sessions/{session}/score");
        let request = self.request(Method::POST, &path).json(body);
        let (status, answer) = self.answer_with_status(request, &path).await?;
        if status == StatusCode::OK {
            return self.read(&path, answer).map(ScoreOrJob::Score);
        }
        let job: JobRef = self.read(&path, answer)?;
        Ok(ScoreOrJob::Job(JobId(job.job_id)))
    }

    /// Rates a score or a session.
    pub async fn rate(&self, rated: Rated, body: &RatingRequest) -> Result<RatingPut> {
        let path = rated.path();
        let request = self.request(Method::POST, &path).json(body);
        let (status, _) = self.answer_with_status(request, &path).await?;
        Ok(match status {
            StatusCode::CREATED => RatingPut::New,
            _ => RatingPut::Replaced,
        })
    }

    /// Lists the ratings of a score or session, newest first, up to `limit`.
    pub async fn ratings(&self, rated: Rated, limit: usize) -> Result<Vec<HumanRating>> {
        self.pages(&rated.path(), &[], limit).await
    }
}

/// Jobs.
impl Client {
    /// Creates a job of any kind. A repeated request with the same `key` returns the same job.
    pub async fn post_job(&self, body: &JobRequest, key: &str) -> Result<JobId> {
        let request = self.request(Method::POST, "/api/v1/jobs").json(body);
        let request = request.header(IDEMPOTENCY_KEY, key);
        let job: JobRef = self.answer(request, "/api/v1/jobs").await?;
        Ok(JobId(job.job_id))
    }

    /// Checks that the caller may create jobs. Sends an invalid body, so that no job is created. Fails if the caller is rejected.
    pub async fn may_ask(&self) -> Result<()> {
        match self.post::<Value>("/api/v1/jobs", &json!({})).await {
            Ok(_) => Ok(()),
            Err(ClientError::Refused(problem)) if matches!(problem.status, 400 | 422) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<Job> {
        self.get(&format!("/api/v1/jobs/{id}")).await
    }

    /// Returns a job when it has finished, or its state after about `wait_s` seconds. A server may limit the wait.
    pub async fn job_ended_within(&self, id: JobId, wait_s: u64) -> Result<Job> {
        let path = format!("/api/v1/jobs/{id}");
        let request = self.request(Method::GET, &path);
        let request = request
            .timeout(ANSWER_TIMEOUT + Duration::from_secs(wait_s))
            .header("Prefer", format!("wait={wait_s}"));
        self.answer(request, &path).await
    }

    /// Returns a job with its judge calls in `calls`.
    pub async fn job_with_calls(&self, id: JobId) -> Result<JobDetail> {
        self.get(&format!("/api/v1/jobs/{id}?calls=true")).await
    }

    /// Lists jobs, newest first, up to `limit`.
    pub async fn jobs(&self, filter: Query<'_>, limit: usize) -> Result<Vec<Job>> {
        self.pages("/api/v1/jobs", filter, limit).await
    }

    /// Cancels a job.
    pub async fn cancel(&self, id: JobId) -> Result<Job> {
        self.act(&format!("/api/v1/jobs/{id}/cancel")).await
    }

    /// Retries a failed job. Returns the job.
    pub async fn retry(&self, id: JobId) -> Result<Job> {
        let _: JobRef = self.act(&format!("/api/v1/jobs/{id}/retry")).await?;
        self.job(id).await
    }
}

/// Batches and rescores.
impl Client {
    /// Creates a batch from a file of items: JSON as for POST /api/v1/batches, or JSONL, CSV or XLSX with `query`. The same `key` returns
    /// the same batch.
    pub async fn start_batch(
        &self,
        (media_type, body): (&str, Vec<u8>),
        query: Query<'_>,
        key: &str,
    ) -> Result<Batch> {
        let path = with_query("/api/v1/batches", query);
        let request = self.request(Method::POST, &path).timeout(BATCH_TIMEOUT);
        let request = request
            .header(CONTENT_TYPE, media_type)
            .header(IDEMPOTENCY_KEY, key)
            .body(body);
        self.answer(request, &path).await
    }

    /// Returns a batch.
    pub async fn batch(&self, id: Uuid) -> Result<Batch> {
        self.get(&format!("/api/v1/batches/{id}")).await
    }

    /// Lists batches, newest first, up to `limit`.
    pub async fn batches(&self, filter: Query<'_>, limit: usize) -> Result<Vec<Batch>> {
        self.pages("/api/v1/batches", filter, limit).await
    }

    /// Returns the spread of scores of a repeat batch or a jury, with up to `limit` sessions.
    pub async fn spread(&self, id: Uuid, limit: usize) -> Result<Spread> {
        let n = limit.clamp(1, 500);
        let path = format!("/api/v1/batches/{id}/spread?limit={n}");
        let mut spread: Spread = self.get(&path).await?;
        spread.items.truncate(limit);
        Ok(spread)
    }

    /// Sets the budget of a batch in USD. `None` removes it. Returns the batch.
    pub async fn set_budget(&self, id: Uuid, budget_usd: Option<f64>) -> Result<Batch> {
        let path = format!("/api/v1/batches/{id}/budget");
        self.post(&path, &BudgetBody { budget_usd }).await
    }

    /// Changes the state of a batch. `verb` is `pause`, `resume` or `cancel`.
    pub async fn move_batch(&self, id: Uuid, verb: &str) -> Result<Batch> {
        self.act(&format!("/api/v1/batches/{id}/{verb}")).await
    }

    /// Retries the failed items of a batch.
    pub async fn retry_errors(&self, id: Uuid) -> Result<BatchRetried> {
        let path = format!("/api/v1/batches/{id}/retry-errors");
        self.act(&path).await
    }

    /// Returns the estimate of rescoring sessions by a filter, without storing it.
    pub async fn plan_rescore(&self, request: &RescoreRequest) -> Result<RescorePlan> {
        let planned = RescoreRequest {
            dry_run: true,
            ..request.clone()
        };
        self.post_rescore(&planned, "").await
    }

    /// Rescores sessions by a filter. The same `key` returns the same batch.
    pub async fn rescore(&self, request: &RescoreRequest, key: &str) -> Result<Batch> {
        self.post_rescore(request, key).await
    }

    async fn post_rescore<T: DeserializeOwned>(
        &self,
        body: &RescoreRequest,
        key: &str,
    ) -> Result<T> {
        let path = "/api/v1/rescore";
        let mut request = self.request(Method::POST, path).timeout(BATCH_TIMEOUT);
        if !key.is_empty() {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        self.answer(request.json(body), path).await
    }

    /// Downloads a report of a batch. `file` is its name, such as `report.csv`. `query` may have allow_simulated and outcome.
    pub async fn report(&self, batch: Uuid, file: &str, query: Query<'_>) -> Result<Download> {
        let path = format!("/api/v1/batches/{batch}/{file}");
        let path = with_query(&path, query);
        self.download(&path, REPORT_TIMEOUT).await
    }
}

/// Criteria, analytics and exports.
impl Client {
    /// Lists criteria definitions.
    pub async fn criteria_list(&self) -> Result<CriteriaList> {
        self.get("/api/v1/scoring/criteria").await
    }

    /// Returns a definition.
    pub async fn criteria(&self, hash: &str) -> Result<CriteriaDetail> {
        let hash = percent_encoded(hash);
        self.get(&format!("/api/v1/scoring/criteria/{hash}")).await
    }

    /// Returns the definition used for new requests of a kind.
    pub async fn current_criteria(&self, kind: Kind) -> Result<CriteriaDetail> {
        let path = format!("/api/v1/scoring/criteria/current?kind={kind}");
        self.get(&path).await
    }

    /// Stores a definition without making it current.
    pub async fn add_criteria(&self, content: &Value) -> Result<CriteriaAdded> {
        self.post("/api/v1/scoring/criteria", content).await
    }

    /// Compares the results of two criteria versions on the same sessions, with the `movers` sessions that changed most.
    pub async fn compare_criteria(
        &self,
        a: &str,
        b: &str,
        movers: u32,
    ) -> Result<CriteriaComparison> {
        let (a, b) = (percent_encoded(a), percent_encoded(b));
        let path = format!("/api/v1/scoring/criteria/compare?a={a}&b={b}&movers={movers}");
        self.get(&path).await
    }

    /// Returns the text difference of two criteria versions.
    pub async fn diff_criteria(&self, a: &str, b: &str) -> Result<CriteriaDiff> {
        let (a, b) = (percent_encoded(a), percent_encoded(b));
        let path = format!("/api/v1/scoring/criteria/diff?a={a}&b={b}");
        self.get(&path).await
    }

    /// Returns the agreement of users and judge for a criteria version: a hash, or current.
    pub async fn agreement(&self, criteria: &str) -> Result<AgreementReport> {
        let query = [("criteria", criteria.to_owned())];
        self.analytics("agreement", &query).await
    }

    /// Returns the costs. `query` may have by, from and to.
    pub async fn costs(&self, query: Query<'_>) -> Result<CostList> {
        self.analytics("costs", query).await
    }

    /// Returns other analytics. `route` is the last segment of the path.
    pub async fn analytics<T: DeserializeOwned>(&self, route: &str, query: Query<'_>) -> Result<T> {
        let path = format!("/api/v1/analytics/{route}");
        self.get(&with_query(&path, query)).await
    }

    /// Downloads current scores as CSV or Parquet.
    pub async fn scores_table(&self, query: Query<'_>) -> Result<Download> {
        let path = with_query("/api/v1/exports/scores", query);
        self.download(&path, EXPORT_TIMEOUT).await
    }

    /// Downloads sessions with good scores as JSON lines.
    pub async fn training(&self, query: Query<'_>) -> Result<Download> {
        let path = with_query("/api/v1/exports/training", query);
        self.download(&path, EXPORT_TIMEOUT).await
    }
}
