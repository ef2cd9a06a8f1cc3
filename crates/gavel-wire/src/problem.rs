//! What is answered when something is refused or fails, RFC 9457, and how people read it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FailureClass, JobRef};

/// What every problem's `type` begins with.
pub const PROBLEM_PREFIX: &str = "urn:gavel:problem:";

/// One fault of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Fault)]
pub struct RequestFault {
    /// JSON pointer into the body; for a query or path parameter, `/` and its name.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// An RFC 9457 problem document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:gavel:problem:` and the type's name.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// The type in words.
    pub title: String,
    pub status: u16,
    /// What happened this time, for people. Programs go by `type`.
    pub detail: String,
    /// The path that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The request's id, as in the header `x-request-id` and the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Each fault of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RequestFault>,
    /// The job that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<JobRef>>,
    /// How the judge failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// When to try again, seconds; the header Retry-After says the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

impl Problem {
    /// The type's name: `session-not-found`.
    pub fn name(&self) -> &str {
        let name = self.type_uri.strip_prefix(PROBLEM_PREFIX);
        name.unwrap_or(&self.type_uri)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.detail, self.status, self.name())?;
        // A single fault is the detail already.
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
    fn a_problem_reads_as_detail_faults_and_remedy_and_says_nothing_twice() {
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
