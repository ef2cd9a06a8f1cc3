//! Maps errors of the store and of enqueue to problems.

use super::{ApiError, RequestFault};
use crate::enqueue::EnqueueError;
use crate::store::{Outage, StoreError};

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { outage, .. } => {
                let said = error.to_string();
                match outage {
                    Outage::NoAnswer
                    | Outage::NoFreeConnection
                    | Outage::Rejected
                    | Outage::MissingPrivilege
                    | Outage::MissingTable => Self::DatabaseUnavailable(said),
                    Outage::StorageFull => Self::StorageFull(said),
                }
            }
            StoreError::SharedSessions => Self::DatabaseUnavailable(error.to_string()),
            StoreError::Schema(_) | StoreError::Unexpected { .. } => {
                Self::Internal(error.to_string())
            }
            StoreError::BadCursor(reason) => Self::fault("/cursor", reason.to_string()),
        }
    }
}

impl From<EnqueueError> for ApiError {
    fn from(error: EnqueueError) -> Self {
        let text = error.to_string();
        match error {
            EnqueueError::SessionNotFound(id) => Self::SessionNotFound(id),
            EnqueueError::SessionNotCompleted { .. } => Self::SessionNotCompleted(text),
            EnqueueError::SourceUnavailable { problem, .. } => Self::HistoryUnavailable(problem),
            EnqueueError::SourceUnusable { .. } => Self::HistoryUnusable(text),
            EnqueueError::NothingToJudge(_) => Self::NothingToJudge(text),
            EnqueueError::UnknownCriteria(_) => Self::fault("/criteria_hash", text),
            EnqueueError::CriteriaOfOtherKind { .. } => Self::fault("/criteria_hash", text),
            EnqueueError::BadPayload(faults) => Self::Invalid(
                faults
                    .into_iter()
                    .map(|fault| RequestFault {
                        pointer: format!("/payload{}", fault.pointer),
                        message: fault.message,
                    })
                    .collect(),
            ),
            EnqueueError::UnknownModel { .. } => Self::fault("/payload/model", text),
            EnqueueError::InProgress { job, .. } => Self::InProgress(job),
            EnqueueError::Disabled => Self::Disabled(text),
            EnqueueError::JudgeNotConfigured(problem) => Self::JudgeNotConfigured(problem),
            EnqueueError::UnknownJudge { place, .. } | EnqueueError::SameJudge { place, .. } => {
                Self::fault(format!("/judges/{place}"), text)
            }
            EnqueueError::Unpriced(_) | EnqueueError::UnpricedFallback { .. } => {
                Self::fault("/budget_usd", text)
            }
            EnqueueError::NoBatchEndpoint(_) => Self::fault("/economy", text),
            EnqueueError::Store(error) => error.into(),
        }
    }
}
