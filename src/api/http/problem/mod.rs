//! Error responses: RFC 9457 problem documents with stable types.
//!
//! One variant per problem type. The docs are generated from [`ALL`]. A problem never contains a database error, a
//! prompt, a reply or a token.

mod catalogue;
mod from;
mod words;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use crate::api::http::links::{job_path, job_ref};
use crate::enqueue::{JudgeProblem, SourceProblem};
use crate::job::{Job, JobId};
use crate::wire::{BatchState, ImportState, PROBLEM_PREFIX, Problem, RequestFault};
use catalogue::problem_type;
pub use catalogue::{ALL, ProblemType};

pub const MEDIA_TYPE: &str = "application/problem+json";
/// `Retry-After` of an overloaded service, seconds.
const RETRY_AFTER_S: u64 = 5;
/// `Retry-After` of a request with a key in use, seconds.
const KEY_RETRY_AFTER_S: u64 = 2;

/// Supported media types of a batch.
const BATCH_TYPES: &str = "application/json, application/x-ndjson, text/csv, \
     application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// Returns the error of an invalid form field.
pub(crate) fn of_field(name: &str, fault: &str) -> ApiError {
    ApiError::fault(format!("/{name}"), fault)
}

/// Returns the error of invalid query parameters of a page.
pub(crate) fn of_parameters(faults: impl IntoIterator<Item = (String, String)>) -> ApiError {
    let fault = |(name, message): (String, String)| RequestFault {
        pointer: format!("/{}", escape(&name)),
        message,
    };
    ApiError::Invalid(faults.into_iter().map(fault).collect())
}

/// Creates a response without a body. The outer layer takes the document from the extensions, adds the path and writes it.
pub(crate) fn response(problem: Problem) -> Response {
    let mut response = StatusCode::from_u16(problem.status)
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        .into_response();
    if let Some(seconds) = problem.retry_after_s {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.extensions_mut().insert(problem);
    response
}

/// Response of a handler with status 200.
pub(crate) type ApiResult<T> = Result<Json<T>, ApiError>;

#[derive(Debug)]
pub(crate) enum ApiError {
    /// 422: an invalid path, query, header or body.
    Invalid(Vec<RequestFault>),
    SessionNotCompleted(String),
    NothingToJudge(String),
    /// 401, with the reason.
    Unauthorized(&'static str),
    /// 403: missing scope.
    Forbidden {
        needed: &'static str,
        token: String,
    },
    /// 403: rejected by the user's groups, with the reason.
    NotAllowed(String),
    /// 403, with the reason.
    CrossSite(String),
    /// 403: outdated form of a page.
    StaleForm,
    /// 404: unknown route.
    NoRoute,
    SessionNotFound(Uuid),
    NotScored {
        session_id: Uuid,
        /// The active job, or the last failed one.
        job: Option<Box<Job>>,
    },
    ScoreNotFound(Uuid),
    JobNotFound(JobId),
    BatchNotFound(Uuid),
    /// 404: batch id and item index.
    BatchItemNotFound(Uuid, u32),
    CriteriaNotFound(String),
    JudgeNotFound {
        name: String,
        known: Vec<String>,
    },
    ImportNotFound(Uuid),
    /// 404: `webhook` or `delivery`, and its id.
    WebhookNotFound(&'static str, Uuid),
    MethodNotAllowed,
    /// 408, with the timeout in seconds.
    BodyTimeout(u64),
    /// 408: no more data arrived in time.
    BodySilent,
    InProgress(Box<Job>),
    /// 409: retry.
    JobNotFailed(Box<Job>),
    /// 409: cancel.
    JobEnded(Box<Job>),
    /// 409: cancelled while the client waited.
    JobCancelled(Box<Job>),
    /// 409: cancel.
    ImportEnded {
        import_id: Uuid,
        state: ImportState,
    },
    /// 409: pause, resume, cancel, retry-errors.
    BatchState {
        batch_id: Uuid,
        state: BatchState,
        verb: &'static str,
    },
    /// 409: resume of a batch with a used-up budget.
    BatchBudget(String),
    /// 409: resume; which spending limit is reached, and until when.
    JudgeCapped(String),
    /// 409: another request with the key is active.
    KeyInUse,
    /// 422: the key belongs to another request.
    KeyReused,
    TooLarge {
        /// JSON pointer: `/conversation`, or empty for the entire body.
        pointer: &'static str,
        max: usize,
    },
    /// 413: maximum size of a batch, bytes.
    BatchTooLarge(usize),
    /// 415: the declared type.
    UnsupportedMediaType(Option<String>),
    /// 415: the declared type of a batch.
    BatchMediaType(Option<String>),
    /// 421: the Host.
    HostNotAllowed(String),
    HeadersTooLarge,
    /// 500: the failed operation; only logged.
    Internal(String),
    /// 429: wrong tokens.
    TooManyAttempts,
    JudgeFailed(Box<Job>),
    /// 502: session and reason.
    HistoryUnusable(String),
    HistoryUnavailable(SourceProblem),
    HistoryNotConfigured,
    Disabled(String),
    JudgeNotConfigured(JudgeProblem),
    /// 503: maximum number of active requests.
    TooManyConnections(usize),
    /// 503: maximum number of concurrent reports.
    TooManyReports(usize),
    /// 413: exceeds the memory budget, bytes.
    TooHeavy {
        weight: u64,
        most: u64,
    },
    /// 503: other requests use the memory.
    MemoryBusy,
    /// 503: maximum number of streams.
    TooManyStreams(usize),
    /// 503: the reason; no part of the batch is stored.
    BatchGivenUp(&'static str),
    /// 503: the failed operation; only logged.
    DatabaseUnavailable(String),
    /// 503: the failed operation; only logged.
    StorageFull(String),
    /// 504: the job, which continues.
    JudgeSlow(Box<Job>),
}

impl ApiError {
    pub(crate) fn fault(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![RequestFault {
            pointer: pointer.into(),
            message: message.into(),
        }])
    }

    fn retry_after_s(&self) -> Option<u64> {
        if let Self::DatabaseUnavailable(_)
        | Self::StorageFull(_)
        | Self::TooManyAttempts
        | Self::TooManyConnections(_)
        | Self::TooManyReports(_)
        | Self::MemoryBusy
        | Self::TooManyStreams(_)
        | Self::BatchGivenUp(_)
        | Self::JudgeSlow(_) = self
        {
            Some(RETRY_AFTER_S)
        } else if let Self::KeyInUse = self {
            Some(KEY_RETRY_AFTER_S)
        } else if let Self::HistoryUnavailable(problem) = self {
            Some(problem.retry_after_s)
        } else {
            None
        }
    }

    fn job(&self) -> Option<&Job> {
        if let Self::InProgress(job)
        | Self::JobNotFailed(job)
        | Self::JobEnded(job)
        | Self::JobCancelled(job)
        | Self::JudgeFailed(job)
        | Self::JudgeSlow(job) = self
        {
            Some(job)
        } else if let Self::NotScored { job, .. } = self {
            job.as_deref()
        } else {
            None
        }
    }

    /// Returns whether the status is 404.
    pub(crate) fn is_absence(&self) -> bool {
        self.problem().status == StatusCode::NOT_FOUND.as_u16()
    }

    /// Logs details that clients must not see.
    pub(crate) fn log(&self) {
        if let Self::Internal(reason) = self {
            tracing::error!(reason, "request failed");
        } else if let Self::DatabaseUnavailable(reason) = self {
            tracing::warn!(reason, "database unavailable");
        } else if let Self::StorageFull(reason) = self {
            tracing::error!(reason, "the database's disk is full");
        }
    }

    /// Returns the document without path and request id, which only the layers know.
    pub(crate) fn problem(&self) -> Problem {
        let kind = problem_type(self.slug());
        let failure = if let Self::JudgeFailed(job) = self {
            job.failure.as_ref()
        } else {
            None
        };
        let faults = if let Self::Invalid(faults) = self {
            faults.clone()
        } else {
            Vec::new()
        };
        Problem {
            type_uri: format!("{PROBLEM_PREFIX}{}", kind.slug),
            title: kind.title.to_owned(),
            status: kind.status,
            detail: self.detail(),
            instance: None,
            request_id: None,
            errors: faults,
            job: self.job().map(|job| Box::new(job_ref(job))),
            class: failure.map(|failure| failure.class),
            remedy: if let Self::JudgeNotConfigured(problem) = self {
                Some(problem.remedy.clone())
            } else if let Self::StorageFull(_) = self {
                Some(kind.meaning.to_owned())
            } else {
                failure.map(|failure| failure.class.remedy().to_owned())
            },
            retry_after_s: self.retry_after_s(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let mut response = response(self.problem());
        if let Self::JudgeSlow(job) = &self
            && let Ok(location) = HeaderValue::from_str(&job_path(job.job_id))
        {
            response.headers_mut().insert(header::LOCATION, location);
        }
        if let Self::Unauthorized(_) = self {
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"gavel\""),
            );
        }
        let accepted = if let Self::UnsupportedMediaType(_) = self {
            Some("application/json")
        } else if let Self::BatchMediaType(_) = self {
            Some(BATCH_TYPES)
        } else {
            None
        };
        if let Some(accepted) = accepted {
            response.headers_mut().insert(
                HeaderName::from_static("accept-post"),
                HeaderValue::from_static(accepted),
            );
        }
        response
    }
}

pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
