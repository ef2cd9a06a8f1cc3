//! Gemini, by generateContent.
//!
//! Assumes only the wire format and ignores unknown fields. The model is part of the path.

use serde_json::{Value, json};

use super::body::Body;
use super::call::{CallRequest, Stop, Tokens};
use super::format::WireFormat;
use super::reply::{self, RawReply, Read, count, given, optional_count, text_at, without_answer};
use super::shape::{Rung, Shape};
use crate::entries::spec::JudgeSpec;

const CONFIG: &str = "generationConfig";
/// Names of the fields of the output modes, which errors spell in either way.
const SCHEMA: &str = "responseJsonSchema|response_json_schema|responseSchema|response_schema|responseMimeType|response_mime_type|schema";
const OBJECT: &str = "responseMimeType|response_mime_type|JSON mode";

pub(super) static FORMAT: WireFormat = WireFormat {
    name: "gemini",
    path: "/v1beta/models/{model}:generateContent",
    auth_header: "x-goog-api-key",
    auth_prefix: "",
    headers: &[],
    ladder: &[
        (Rung::JsonSchema, SCHEMA),
        (Rung::JsonObject, OBJECT),
        (Rung::Prompt, ""),
    ],
    has_new_cap: false,
    body,
    read,
    no_reply: "with a body that generateContent doesn't give; check base_url",
    rate_headers: None,
    batches: None,
};

fn body(spec: &JudgeSpec, request: &CallRequest, shape: &Shape) -> Body {
    let entry = spec.entry();
    let mut config = json!({ "maxOutputTokens": request.max_output_tokens });
    if shape.has("temperature") {
        config["temperature"] = json!(entry.temperature);
    }
    if matches!(shape.rung, Rung::JsonSchema | Rung::JsonObject) {
        config["responseMimeType"] = json!("application/json");
    }
    if shape.rung == Rung::JsonSchema {
        config["responseJsonSchema"] = request.schema.value().clone();
    }
    // The entry's own values have priority.
    if let Some(Value::Object(more)) = entry.extra_body.get(CONFIG) {
        for (key, value) in more {
            config[key] = value.clone();
        }
    }
    let mut body = Body::new(request, shape.rung, true);
    body.extend(&entry.extra_body, shape);
    body.set(CONFIG, config);
    body
}

fn read(generated: &Value) -> Read {
    let with_words = |reason: String, at: &str| match text_at(generated, at) {
        Some(words) => format!("{reason}: {words}"),
        None => reason,
    };
    let blocked = text_at(generated, "/promptFeedback/blockReason");
    let (text, stop) = match (given(generated, "/candidates/0"), blocked) {
        (Some(candidate), _) => {
            let stop = reply::stop(candidate.get("finishReason"), |filter| {
                let reason = format!("its filter cut the reply: {filter}");
                with_words(reason, "/candidates/0/finishMessage")
            });
            (text(candidate), stop)
        }
        (None, Some(reason)) => {
            let reason = format!("its filter blocked the prompt: {reason}");
            let words = with_words(reason, "/promptFeedback/blockReasonMessage");
            (String::new(), Stop::Refused(words))
        }
        (None, None) => return Err(without_answer(generated, "with no candidates")),
    };
    let usage = given(generated, "/usageMetadata").and_then(tokens);
    Ok(RawReply::new(generated, text, stop, usage))
}

fn text(candidate: &Value) -> String {
    let parts = candidate["content"]["parts"].as_array().into_iter();
    let parts = parts.flatten();
    let spoken = parts.filter(|part| part["thought"] != json!(true));
    spoken.filter_map(|part| part["text"].as_str()).collect()
}

/// Adds thinking to the output, because it is billed as such but counted separately. An answer without tokens has no count.
fn tokens(usage: &Value) -> Option<Tokens> {
    let answer = optional_count(usage, "/candidatesTokenCount")?;
    let thoughts = optional_count(usage, "/thoughtsTokenCount")?;
    let input = count(usage, &["/promptTokenCount"])?;
    let cached = optional_count(usage, "/cachedContentTokenCount")?;
    // The judge creates no caches.
    Tokens::new(input, cached, 0, answer + thoughts)
}

#[cfg(test)]
mod tests;
