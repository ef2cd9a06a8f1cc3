//! Cases in the format of generateContent.

use serde_json::{Value, json};

use super::super::stage::KEY;
use super::{Family, Headers, MODEL, Refusal, Reply, Wire};

pub(super) struct Gemini;

fn error(code: u16, status: &str, message: &str, details: Value) -> Wire {
    let message = format!("SERVER WORDS: {message}");
    let body = json!({ "error": {
        "code": code, "message": message, "status": status, "details": details,
    }});
    Wire::bare(code, body)
}

fn invalid(message: &str) -> Wire {
    error(400, "INVALID_ARGUMENT", message, json!([]))
}

/// Quota violation, with the delay that always accompanies it.
fn quota(id: &str) -> Value {
    json!([
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{ "quotaMetric": "m", "quotaId": id, "quotaValue": "50" }],
        },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s" },
    ])
}

impl Family for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn path(&self) -> &'static str {
        "/v1beta/models/judge-model:generateContent"
    }

    fn headers(&self) -> Headers {
        vec![("x-goog-api-key", KEY.to_owned())]
    }

    fn request(&self, prompt: &str, schema: &Value) -> Value {
        json!({
            "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
            "generationConfig": {
                "temperature": 0.0,
                "maxOutputTokens": 8192,
                "responseMimeType": "application/json",
                "responseJsonSchema": schema,
            },
        })
    }

    fn reply(&self, reply: Reply<'_>) -> Value {
        let says = |text: &str| json!([{ "text": text }]);
        let (mut model, mut finish_reason) = (MODEL, "STOP");
        let parts = match reply {
            Reply::Says(text) => says(text),
            Reply::AfterThoughts(text) => json!([
                { "text": "{\"total\": 1}", "thought": true },
                { "text": text, "thoughtSignature": "x" },
            ]),
            Reply::CutOff(text) => {
                finish_reason = "MAX_TOKENS";
                says(text)
            }
            Reply::Declines => {
                return json!({
                    "promptFeedback": {
                        "blockReason": "PROHIBITED_CONTENT",
                        "blockReasonMessage": "SERVER WORDS",
                    },
                    "usageMetadata": { "promptTokenCount": 1000 },
                    "modelVersion": MODEL,
                });
            }
            Reply::StopsFor(reason) => {
                finish_reason = reason;
                says(super::GOOD)
            }
            Reply::By(name) => {
                model = name;
                says(super::GOOD)
            }
        };
        json!({
            "candidates": [{
                "content": { "parts": parts, "role": "model" },
                "finishReason": finish_reason, "index": 0,
            }],
            "usageMetadata": {
                "promptTokenCount": 1000, "cachedContentTokenCount": 400,
                "candidatesTokenCount": 60, "thoughtsTokenCount": 40, "totalTokenCount": 1100,
            },
            "modelVersion": model,
        })
    }

    fn refusal(&self, refusal: Refusal) -> Wire {
        match refusal {
            Refusal::Overloaded => error(503, "UNAVAILABLE", "overloaded", json!([])),
            Refusal::Throttled => {
                let minute = "GenerateRequestsPerMinutePerProjectPerModel";
                let words = "You exceeded your current quota";
                error(429, "RESOURCE_EXHAUSTED", words, quota(minute))
            }
            Refusal::UsedUp => {
                let day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
                let words = "You exceeded your current quota";
                error(429, "RESOURCE_EXHAUSTED", words, quota(day))
            }
            Refusal::WrongKey => error(
                400,
                "INVALID_ARGUMENT",
                &format!("{KEY} is no good"),
                json!([{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID", "domain": "googleapis.com",
                }]),
            ),
            Refusal::NoSuchModel => error(404, "NOT_FOUND", "models/x is not found", json!([])),
            Refusal::Temperature => invalid("temperature is not supported"),
            Refusal::Schema => invalid("Unknown name \"responseJsonSchema\""),
            Refusal::NextRung => invalid("response_mime_type is not supported"),
            Refusal::TooLong => invalid(
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            Refusal::Odd => invalid("odd"),
        }
    }

    fn limits(&self, limit: u64, left: u64, reset_s: u64) -> Result<Headers, &'static str> {
        let _ = (limit, left, reset_s);
        Err("generateContent has no such headers")
    }

    fn ladder(&self) -> [&'static str; 3] {
        ["json_schema", "json_object", "prompt"]
    }

    fn rung(&self, request: &Value) -> &'static str {
        let config = &request["generationConfig"];
        match (
            config.get("responseMimeType").is_some(),
            config.get("responseJsonSchema").is_some(),
        ) {
            (true, true) => "json_schema",
            (true, false) => "json_object",
            (false, false) => "prompt",
            (false, true) => "?",
        }
    }

    fn has_temperature(&self, request: &Value) -> bool {
        request["generationConfig"].get("temperature").is_some()
    }

    fn spoken(&self, request: &Value) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let contents = request["contents"].as_array().unwrap();
        contents
            .iter()
            .map(|content| (text(&content["role"]), text(&content["parts"][0]["text"])))
            .collect()
    }

    fn model_role(&self) -> &'static str {
        "model"
    }

    fn in_a_list(&self, body: &Value) -> Result<Value, &'static str> {
        Ok(json!([body]))
    }
}
