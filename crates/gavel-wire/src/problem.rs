//! Error responses (RFC 9457) and their text form.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FailureClass, JobRef};

/// Prefix of each problem's `type`.
pub const PROBLEM_PREFIX: &str = "urn:gavel:problem:";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Fault)]
pub struct RequestFault {
    /// JSON pointer into the body. For a query or path parameter, `/` and its name.
    pub pointer: String,
    /// The error and the expected value.
    pub message: String,
}

impl RequestFault {
    /// Creates the error of a field or a parameter.
    pub fn new(name: &str, message: impl Into<String>) -> Self {
        Self {
            pointer: format!("/{name}"),
            message: message.into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:gavel:problem:` and the type's name.
    #[serde(rename = "type")]
    pub type_uri: String,
    pub title: String,
    pub status: u16,
    /// Message for users. Programs should use `type`.
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Request id, as in the header `x-request-id` and the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RequestFault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<JobRef>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Seconds until a retry makes sense, as in the header Retry-After.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

impl Problem {
    /// Returns the type's name: `session-not-found`.
    pub fn name(&self) -> &str {
        let name = self.type_uri.strip_prefix(PROBLEM_PREFIX);
        name.unwrap_or(&self.type_uri)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.detail, self.status, self.name())?;
        // A single error is already the detail.
        let errors = self.errors.iter();
        for RequestFault { pointer, message } in
            errors.filter(|it| !self.detail.contains(&it.message))
        {
            write!(f, "\n  {pointer}: {message}")?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn display_lists_detail_errors_and_remedy_once() {
        let faults = json!([{"pointer": "/criteria_hash", "message": "must be 64 hex digits"}]);
        for (detail, remedy, words) in [
            (
                "/criteria_hash: must be 64 hex digits",
                Value::Null,
                "/criteria_hash: must be 64 hex digits (422 invalid-request)",
            ),
            (
                "it is wrong",
                json!("mend it"),
                "it is wrong (422 invalid-request)\n  /criteria_hash: must be 64 hex digits\n  mend it",
            ),
        ] {
            let body = json!({
                "type": "urn:gavel:problem:invalid-request", "title": "Invalid request", "status": 422,
                "detail": detail, "errors": faults, "remedy": remedy,
            });
            let problem: Problem = serde_json::from_value(body).unwrap();
            assert_eq!(problem.to_string(), words);
        }
    }
}
