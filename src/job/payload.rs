//! What stands in the payload of a session's job.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The payload of a job of kind `session`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPayload {
    pub session_id: Uuid,
    /// Whether an existing score and cached replies are skipped.
    #[serde(default)]
    pub force_rescore: bool,
    /// Whether its reply may have been fetched ahead by a provider's batch: a look for one costs a query.
    #[serde(rename = "economy", default, skip_serializing_if = "is_false")]
    pub is_fetched_ahead: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_fetched_ahead_says_so() {
        let ordinary = SessionPayload {
            session_id: Uuid::nil(),
            force_rescore: true,
            is_fetched_ahead: false,
        };
        let ahead = SessionPayload {
            is_fetched_ahead: true,
            ..ordinary
        };
        let body = json!({"session_id": Uuid::nil(), "force_rescore": true});
        assert_eq!(serde_json::to_value(ordinary).unwrap(), body);
        let mut body = body;
        body["economy"] = json!(true);
        assert_eq!(
            serde_json::from_value::<SessionPayload>(body).unwrap(),
            ahead
        );
    }
}
