//! Payload of a job, and the fields of a session's payload.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// Payload as JSON text. It is parsed on demand, because parsed values use many times the memory of the text.
#[derive(Clone)]
pub struct Payload(Arc<RawValue>);

impl Payload {
    pub fn text(&self) -> &str {
        self.0.get()
    }

    pub fn value(&self) -> Value {
        // The type guarantees valid JSON.
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
        // Serialization of a JSON value doesn't fail.
        let text = to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        text.into()
    }
}

/// Compares values, because a database may store the text differently.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() || self.value() == other.value()
    }
}

/// Omits the content, because payloads must not be logged.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.text().len())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPayload {
    pub session_id: Uuid,
    #[serde(default)]
    pub force_rescore: bool,
    /// Whether a provider batch may have collected the reply. If not, the run saves a query.
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
    fn only_collected_payloads_are_precomputed() {
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
