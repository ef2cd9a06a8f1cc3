//! What a job is about, and what stands in the payload of a session's job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// A payload as JSON text. Its values take many times the memory of its text: they are read when they are needed.
#[derive(Clone)]
pub struct Payload(Arc<RawValue>);

impl Payload {
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Reads it.
    pub fn value(&self) -> Value {
        // It is JSON by its type.
        serde_json::from_str(self.text()).unwrap_or_default()
    }
}

impl From<Box<RawValue>> for Payload {
    fn from(text: Box<RawValue>) -> Self {
        Self(text.into())
    }
}

impl From<Payload> for Box<RawValue> {
    fn from(Payload(text): Payload) -> Self {
        (*text).to_owned()
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        // A value that holds no map with other keys than strings, which JSON can't, is always written.
        let text = to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        text.into()
    }
}

/// A database may write the same values otherwise.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() || self.value() == other.value()
    }
}

/// Payloads are never logged.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.text().len())
    }
}

/// The payload of a job of kind `session`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPayload {
    pub session_id: Uuid,
    /// Whether an existing score and cached replies are skipped.
    #[serde(default)]
    pub force_rescore: bool,
    /// Whether its reply may have been collected by a provider's batch: a look for one costs a query.
    #[serde(rename = "economy", default, skip_serializing_if = "is_false")]
    pub may_be_precomputed: bool,
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
    fn only_what_is_collected_says_so() {
        let ordinary = SessionPayload {
            session_id: Uuid::nil(),
            force_rescore: true,
            may_be_precomputed: false,
        };
        let ahead = SessionPayload {
            may_be_precomputed: true,
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
