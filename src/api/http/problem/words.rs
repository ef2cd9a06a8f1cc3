//! Type names and messages of problems. Database errors appear only in the log.

use uuid::Uuid;

use super::{ApiError, RequestFault};
use crate::job::Job;

/// Message for a key with an active first request.
const KEY_IN_USE: &str =
    "a request with this Idempotency-Key is still running; try again to get its response";

impl ApiError {
    pub(crate) fn slug(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid-request",
            Self::SessionNotCompleted(_) => "session-not-completed",
            Self::NothingToJudge(_) => "nothing-to-judge",
            Self::Unauthorized(_) => "unauthorized",
            Self::Forbidden { .. } | Self::NotAllowed(_) => "forbidden",
            Self::CrossSite(_) => "cross-site",
            Self::StaleForm => "stale-form",
            Self::NoRoute => "not-found",
            Self::SessionNotFound(_) => "session-not-found",
            Self::NotScored { .. } => "not-scored",
            Self::ScoreNotFound(_) => "score-not-found",
            Self::JobNotFound(_) => "job-not-found",
            Self::BatchNotFound(_) => "batch-not-found",
            Self::BatchItemNotFound(..) => "batch-item-not-found",
            Self::CriteriaNotFound(_) => "criteria-not-found",
            Self::JudgeNotFound { .. } => "judge-not-found",
            Self::ImportNotFound(_) => "import-not-found",
            Self::WebhookNotFound(..) => "webhook-not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::BodyTimeout(_) | Self::BodySilent => "body-timeout",
            Self::InProgress(_) => "scoring-in-progress",
            Self::JobNotFailed(_) => "job-not-failed",
            Self::JobEnded(_) => "job-ended",
            Self::JobCancelled(_) => "job-cancelled",
            Self::ImportEnded { .. } => "import-ended",
            Self::BatchState { .. } => "batch-state",
            Self::BatchBudget(_) => "batch-budget",
            Self::JudgeCapped(_) => "judge-capped",
            Self::KeyInUse => "idempotency-key-in-use",
            Self::KeyReused => "idempotency-key-reused",
            Self::TooLarge { .. } | Self::BatchTooLarge(_) | Self::TooHeavy { .. } => {
                "payload-too-large"
            }
            Self::UnsupportedMediaType(_) | Self::BatchMediaType(_) => "unsupported-media-type",
            Self::HostNotAllowed(_) => "host-not-allowed",
            Self::HeadersTooLarge => "headers-too-large",
            Self::Internal(_) => "internal",
            Self::TooManyAttempts => "too-many-attempts",
            Self::JudgeFailed(_) => "judge-failed",
            Self::HistoryUnusable(_) => "history-unusable",
            Self::HistoryUnavailable(_) => "history-unavailable",
            Self::HistoryNotConfigured => "history-not-configured",
            Self::Disabled(_) => "scoring-disabled",
            Self::JudgeNotConfigured(_) => "judge-not-configured",
            Self::BatchGivenUp(_) => "batch-given-up",
            Self::TooManyConnections(_) => "too-many-connections",
            Self::TooManyReports(_) => "too-many-reports",
            Self::MemoryBusy => "memory-busy",
            Self::TooManyStreams(_) => "too-many-streams",
            Self::DatabaseUnavailable(_) => "database-unavailable",
            Self::StorageFull(_) => "storage-full",
            Self::JudgeSlow(_) => "judge-slow",
        }
    }

    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Invalid(faults) => invalid(faults),
            Self::SessionNotCompleted(text)
            | Self::NothingToJudge(text)
            | Self::CrossSite(text)
            | Self::JudgeCapped(text)
            | Self::Disabled(text)
            | Self::BatchBudget(text)
            | Self::NotAllowed(text)
            | Self::HistoryUnusable(text) => text.clone(),
            Self::Unauthorized(why) => (*why).to_owned(),
            Self::Forbidden { needed, token } => {
                format!("token {token:?} doesn't have the scope {needed}")
            }
            Self::StaleForm => STALE_FORM.to_owned(),
            Self::NoRoute => "no route has this path; see /docs".to_owned(),
            Self::SessionNotFound(id) => format!("session {id} is unknown: upload it first"),
            Self::NotScored { session_id, job } => not_scored(*session_id, job.as_deref()),
            Self::ScoreNotFound(id) => format!("score {id} is unknown"),
            Self::JobNotFound(id) => format!("job {id} is unknown"),
            Self::BatchNotFound(id) => format!("batch {id} is unknown"),
            Self::BatchItemNotFound(id, place) => format!("batch {id} has no item {place}"),
            Self::CriteriaNotFound(hash) => format!("criteria {hash:?} are not stored"),
            Self::JudgeNotFound { name, known } => {
                format!("judge {name:?} is unknown; known: {}", known.join(", "))
            }
            Self::ImportNotFound(id) => format!("import {id} is unknown"),
            Self::WebhookNotFound(what, id) => format!("{what} {id} is unknown"),
            Self::MethodNotAllowed => "the route does not take this method; see Allow".to_owned(),
            Self::BodyTimeout(seconds) => format!("the body did not arrive within {seconds} s"),
            Self::BodySilent => BODY_SILENT.to_owned(),
            Self::InProgress(job) => {
                format!("job {} is {} for this session", job.job_id, job.state)
            }
            Self::JobNotFailed(job) => {
                format!(
                    "job {} is {}: only failed jobs are retried",
                    job.job_id, job.state
                )
            }
            Self::JobEnded(job) => format!("job {} has already {}", job.job_id, job.state),
            Self::JobCancelled(job) => format!("job {} was cancelled", job.job_id),
            Self::ImportEnded { import_id, state } => {
                format!("import {import_id} has already {state}")
            }
            Self::BatchState {
                batch_id,
                state,
                verb,
            } => format!("batch {batch_id} is {state}: {verb} is not possible now"),
            Self::BatchTooLarge(max) => format!(
                "the batch is larger than {max} bytes: split it, or raise http.max_batch_bytes"
            ),
            Self::BatchMediaType(declared) => batch_media_type(declared.as_deref()),
            Self::BatchGivenUp(why) => (*why).to_owned(),
            Self::KeyInUse => KEY_IN_USE.to_owned(),
            Self::KeyReused => KEY_REUSED.to_owned(),
            Self::TooLarge { pointer: "", max } => {
                format!(
                    "the body is larger than {max} bytes: send less, or raise http.max_body_bytes"
                )
            }
            Self::TooLarge { pointer, max } => format!("{pointer} has more than {max} bytes"),
            Self::UnsupportedMediaType(declared) => media_type(declared.as_deref()),
            Self::HostNotAllowed(host) => format!(
                "host {host:?} is not allowed: add it to http.allowed_hosts, or use the bound address"
            ),
            Self::HeadersTooLarge => "the headers are larger than 16 KiB".to_owned(),
            Self::Internal(_) => INTERNAL.to_owned(),
            Self::TooManyAttempts => TOO_MANY_ATTEMPTS.to_owned(),
            Self::JudgeFailed(job) => job.failure.as_ref().map_or_else(
                || format!("job {} failed", job.job_id),
                |failure| failure.message.clone(),
            ),
            Self::HistoryUnavailable(problem) => problem.reason.clone(),
            Self::HistoryNotConfigured => NO_HISTORY.to_owned(),
            Self::JudgeNotConfigured(problem) => {
                format!("judge {:?} can't be called", problem.judge)
            }
            Self::TooManyConnections(max) => {
                format!("{max} requests are under way, which is http.max_connections")
            }
            Self::TooHeavy { weight, most } => too_heavy(*weight, *most),
            Self::MemoryBusy => MEMORY_BUSY.to_owned(),
            Self::TooManyReports(max) => format!(
                "{max} reports are being created, the maximum, and none ended while this one waited"
            ),
            Self::TooManyStreams(max) => {
                format!("{max} streams are open, which is http.max_streams")
            }
            Self::DatabaseUnavailable(_) => "the database did not answer; try again".to_owned(),
            Self::StorageFull(_) => "the database's disk is full: no data was written".to_owned(),
            Self::JudgeSlow(job) => format!(
                "job {} is {} and continues: its result will be at Location",
                job.job_id, job.state
            ),
        }
    }
}

fn not_scored(session_id: Uuid, job: Option<&Job>) -> String {
    match job {
        Some(job) => format!(
            "session {session_id} has no score: job {} is {}",
            job.job_id, job.state
        ),
        None => format!("session {session_id} has no score: request one by POST"),
    }
}

fn too_heavy(weight: u64, most: u64) -> String {
    let (weight, most) = (weight.div_ceil(1 << 20), most >> 20);
    format!(
        "it contains so much data that parsing it needs about {weight} MiB of memory, and the budget is {most} \
         MiB: send fewer rows or columns at once, or raise memory_budget_bytes"
    )
}

const MEMORY_BUSY: &str =
    "other requests have the memory that this one needs (memory_budget_bytes)";
const INTERNAL: &str = "an unexpected error; the log has it under this request id";
const BODY_SILENT: &str = "received no body data for http.body_timeout_s";
const TOO_MANY_ATTEMPTS: &str = "too many wrong tokens from this address are being processed";
const KEY_REUSED: &str =
    "this Idempotency-Key was sent with another body or query: send the same request, or a new key";
const NO_HISTORY: &str = "set history.base_url (GAVEL_HISTORY_BASE_URL), or name a TARSy in from";
const STALE_FORM: &str = "the form's token doesn't match this browser's cookie, which changed or expired; no change was made";

const MAX_REPORTED_ERRORS: usize = crate::enqueue::FAULTS;

fn media_type(declared: Option<&str>) -> String {
    match declared {
        Some(declared) => format!(
            "the body is declared as {declared:?}: send application/json, plain or with Content-Encoding: gzip"
        ),
        None => "the body has no content type: send application/json".to_owned(),
    }
}

fn invalid(faults: &[RequestFault]) -> String {
    match faults {
        [one] if one.pointer.is_empty() => one.message.clone(),
        [one] => format!("{}: {}", one.pointer, one.message),
        // Reading a file stops after this number.
        many if many.len() >= MAX_REPORTED_ERRORS => {
            format!("showing the first {} errors; see errors", many.len())
        }
        many => format!("found {} errors; see errors", many.len()),
    }
}

fn batch_media_type(declared: Option<&str>) -> String {
    format!(
        "the batch is declared as {:?}: send application/json, application/x-ndjson, text/csv or XLSX, plain or with \
         Content-Encoding: gzip",
        declared.unwrap_or("nothing")
    )
}
