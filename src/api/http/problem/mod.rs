//! What a client is told when something is refused or fails: RFC 9457 problem documents with stable types.
//!
//! One variant per type of problem. [`ALL`] is the list that the docs are made from. A problem never carries a database's
//! words, a prompt, a reply or a token.

mod catalogue;
mod from;
mod words;

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
/// How long a client should stay away from a service that can't take it now, seconds.
const RETRY_AFTER_S: u64 = 5;
/// How long it should leave a request with its key alone, seconds.
const KEY_RETRY_AFTER_S: u64 = 2;

/// What a batch may be declared as.
const BATCH_TYPES: &str = "application/json, application/x-ndjson, text/csv, \
     application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// A field of a form that can't be read.
pub(crate) fn of_field(name: &str, fault: &str) -> ApiError {
    ApiError::fault(FaultStatus::Unprocessable, format!("/{name}"), fault)
}

/// Parameters of a page's address that are wrong, each with its fault.
pub(crate) fn of_parameters(faults: impl IntoIterator<Item = (String, String)>) -> ApiError {
    let fault = |(name, message): (String, String)| RequestFault {
        pointer: format!("/{}", escape(&name)),
        message,
    };
    ApiError::Invalid {
        fault_status: FaultStatus::Unprocessable,
        faults: faults.into_iter().map(fault).collect(),
    }
}

/// A response without a body: the document rides in the extensions until the outer layer, which knows the path, writes it.
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

/// Which status an invalid request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultStatus {
    /// 400: the scoring routes of sessions, as their origin has it.
    BadRequest,
    /// 422: everywhere else.
    Unprocessable,
}

/// Everything that a handler may answer instead of what was asked for.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// 400 or 422.
    Invalid {
        /// Which of the two.
        fault_status: FaultStatus,
        faults: Vec<RequestFault>,
    },
    SessionNotCompleted(String),
    NothingToJudge(String),
    /// 401: why.
    Unauthorized(&'static str),
    /// 403: the scope that lacks.
    Forbidden {
        /// The scope's name.
        needed: &'static str,
        token: String,
    },
    /// 403: why not, by the groups that a proxy names.
    NotAllowed(String),
    /// 403: why.
    CrossSite(String),
    /// 403: a page's form.
    StaleForm,
    /// 404: no route.
    NoRoute,
    SessionNotFound(Uuid),
    NotScored {
        session_id: Uuid,
        /// The active, else the last failed job.
        job: Option<Box<Job>>,
    },
    ScoreNotFound(Uuid),
    JobNotFound(JobId),
    BatchNotFound(Uuid),
    /// 404: the batch, and the place.
    BatchItemNotFound(Uuid, u32),
    CriteriaNotFound(String),
    JudgeNotFound {
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    ImportNotFound(Uuid),
    /// 404: a webhook or a delivery, and which.
    WebhookNotFound(&'static str, Uuid),
    MethodNotAllowed,
    /// 408: after so many seconds.
    BodyTimeout(u64),
    /// 408: nothing more of it came for a while.
    BodySilent,
    InProgress(Box<Job>),
    /// 409: retry.
    JobNotFailed(Box<Job>),
    /// 409: cancel.
    JobEnded(Box<Job>),
    /// 409: while the client waited.
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
        /// What was asked.
        verb: &'static str,
    },
    /// 409: resume a batch that has spent its budget.
    BatchBudget(String),
    /// 409: resume; which cap is reached, and until when.
    JudgeCapped(String),
    /// 409: another request with the key is under way.
    KeyInUse,
    /// 422: the key stands for another request.
    KeyReused,
    TooLarge {
        /// What is too large: `/conversation`, or empty for the whole body.
        pointer: &'static str,
        /// The most that is taken, bytes.
        max: usize,
    },
    /// 413: a batch; the most that is taken, bytes.
    BatchTooLarge(usize),
    /// 415: what was declared.
    UnsupportedMediaType(Option<String>),
    /// 415: what a batch was declared as.
    BatchMediaType(Option<String>),
    /// 421: the Host.
    HostNotAllowed(String),
    HeadersTooLarge,
    /// 500: what was attempted; goes to the log alone.
    Internal(String),
    /// 429: wrong tokens.
    TooManyAttempts,
    JudgeFailed(Box<Job>),
    /// 502: which session, and why.
    HistoryUnusable(String),
    HistoryUnavailable(SourceProblem),
    HistoryNotConfigured,
    Disabled(String),
    JudgeNotConfigured(JudgeProblem),
    /// 503: how many connections may have a request under way.
    TooManyConnections(usize),
    /// 503: how many reports may be made at once.
    TooManyReports(usize),
    /// 413: more memory than there is for it, bytes.
    TooHeavy {
        weight: u64,
        most: u64,
    },
    /// 503: others have the memory.
    MemoryBusy,
    /// 503: how many streams there may be.
    TooManyStreams(usize),
    /// 503: why; nothing of the batch is left.
    BatchGivenUp(&'static str),
    /// 503: what was attempted; goes to the log alone.
    DatabaseUnavailable(String),
    /// 503: what was attempted; goes to the log alone.
    StorageFull(String),
    /// 504: the job that goes on.
    JudgeSlow(Box<Job>),
}

impl ApiError {
    /// The same, of a route whose faults are 422.
    pub(crate) fn unprocessable(self) -> Self {
        self.with_status(FaultStatus::Unprocessable)
    }

    /// The same, of a route whose faults have this status.
    pub(crate) fn with_status(self, fault_status: FaultStatus) -> Self {
        if let Self::Invalid { faults, .. } = self {
            return Self::Invalid {
                fault_status,
                faults,
            };
        }
        self
    }

    pub(crate) fn fault(
        fault_status: FaultStatus,
        pointer: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            fault_status,
            faults: vec![RequestFault {
                pointer: pointer.into(),
                message: message.into(),
            }],
        }
    }

    /// When to try again, seconds.
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

    /// Whether it says that there is no such thing.
    pub(crate) fn is_absence(&self) -> bool {
        self.problem().status == StatusCode::NOT_FOUND.as_u16()
    }

    /// Writes to the log what no client may read.
    pub(crate) fn log(&self) {
        if let Self::Internal(reason) = self {
            tracing::error!(reason, "request failed");
        } else if let Self::DatabaseUnavailable(reason) = self {
            tracing::warn!(reason, "database unavailable");
        } else if let Self::StorageFull(reason) = self {
            tracing::error!(reason, "the database's disk is full");
        }
    }

    /// The document, but for what only the layers know: the path and the request's id.
    pub(crate) fn problem(&self) -> Problem {
        let kind = problem_type(self.slug());
        let failure = if let Self::JudgeFailed(job) = self {
            job.failure.as_ref()
        } else {
            None
        };
        let (faults, status) = if let Self::Invalid {
            fault_status,
            faults,
        } = self
        {
            let status = match fault_status {
                FaultStatus::BadRequest => 400,
                FaultStatus::Unprocessable => 422,
            };
            (faults.clone(), status)
        } else {
            (Vec::new(), kind.statuses.first().copied().unwrap_or(500))
        };
        Problem {
            type_uri: format!("{PROBLEM_PREFIX}{}", kind.slug),
            title: kind.title.to_owned(),
            status,
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

/// A key as a part of a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
