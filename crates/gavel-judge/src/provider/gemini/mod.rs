//! Gemini, by generateContent.
//!
//! Nothing is assumed of a server beyond the wire format, and unknown fields are ignored. The model stands in the path.

mod reply;
mod request;

use super::family::Family;
use super::format::WireFormat;
use super::shape::{Cap, Field, Rung, Shape};

pub(super) static FORMAT: WireFormat = WireFormat {
    family: Family {
        name: "gemini",
        path: "/v1beta/models/{model}:generateContent",
        auth_header: "x-goog-api-key",
        auth_prefix: "",
        headers: &[],
        ladder: &[Rung::JsonSchema, Rung::JsonObject, Rung::Prompt],
        cap: Cap::MaxTokens,
    },
    body: request::body,
    read: reply::read,
    names,
    rate_headers: None,
    batches: None,
};

/// Errors name fields in either spelling.
fn names(field: Field, sent: Shape) -> &'static [&'static str] {
    match field {
        Field::Temperature => &["temperature"],
        Field::MaxTokens => &["maxOutputTokens", "max_output_tokens"],
        Field::Format => match sent.rung {
            Rung::JsonSchema => &[
                "responseJsonSchema",
                "response_json_schema",
                "responseSchema",
                "response_schema",
                "responseMimeType",
                "response_mime_type",
                "schema",
            ],
            Rung::JsonObject => &["responseMimeType", "response_mime_type", "JSON mode"],
            Rung::Tool | Rung::Prompt => &[],
        },
        Field::MaxCompletionTokens | Field::Seed => &[],
    }
}
