//! Cases in the format of Anthropic messages.

use serde_json::{Value, json};

use super::super::stage::KEY;
use super::{Family, Headers, MODEL, Refusal, Reply, Wire};

pub(super) struct Anthropic;

fn error(kind: &str, message: &str) -> Value {
    json!({
        "type": "error",
        "error": { "type": kind, "message": format!("SERVER WORDS: {message}") },
        "request_id": "req_1",
    })
}

fn invalid(message: &str) -> Wire {
    Wire::bare(400, error("invalid_request_error", message))
}

impl Family for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn headers(&self) -> Headers {
        vec![
            ("x-api-key", KEY.to_owned()),
            ("anthropic-version", "2023-06-01".to_owned()),
        ]
    }

    fn request(&self, prompt: &str, schema: &Value) -> Value {
        json!({
            "model": MODEL,
            "stream": false,
            "messages": [{ "role": "user", "content": prompt }],
            "output_config": { "format": { "type": "json_schema", "schema": schema } },
            "max_tokens": 8192,
            "temperature": 0.0,
        })
    }

    fn reply(&self, reply: Reply<'_>) -> Value {
        let says = |text: &str| json!([{ "type": "text", "text": text }]);
        let (mut model, mut stop_reason) = (MODEL, "end_turn");
        let mut details = Value::Null;
        let content = match reply {
            Reply::Says(text) => says(text),
            Reply::AfterThoughts(text) => json!([
                { "type": "thinking", "thinking": "{\"total\": 1}", "signature": "x" },
                { "type": "text", "text": text },
            ]),
            Reply::CutOff(text) => {
                stop_reason = "max_tokens";
                says(text)
            }
            Reply::Declines => {
                stop_reason = "refusal";
                details = json!({ "type": "refusal", "explanation": "SERVER WORDS" });
                json!([])
            }
            Reply::StopsFor(reason) => {
                stop_reason = reason;
                says(super::GOOD)
            }
            Reply::By(name) => {
                model = name;
                says(super::GOOD)
            }
        };
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": model,
            "content": content, "stop_reason": stop_reason, "stop_details": details,
            "usage": {
                "input_tokens": 500, "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 400, "output_tokens": 100,
            },
        })
    }

    fn refusal(&self, refusal: Refusal) -> Wire {
        match refusal {
            Refusal::Overloaded => Wire::bare(529, error("overloaded_error", "Overloaded")),
            Refusal::Throttled => {
                let reset = (chrono::Utc::now() + chrono::TimeDelta::seconds(17)).to_rfc3339();
                Wire(
                    429,
                    vec![
                        ("anthropic-ratelimit-requests-remaining", "7".to_owned()),
                        (
                            "anthropic-ratelimit-requests-reset",
                            "2999-01-01T00:00:00Z".to_owned(),
                        ),
                        ("anthropic-ratelimit-input-tokens-remaining", "0".to_owned()),
                        ("anthropic-ratelimit-input-tokens-reset", reset),
                    ],
                    error("rate_limit_error", "input tokens per minute"),
                )
            }
            Refusal::UsedUp => invalid("Your credit balance is too low."),
            Refusal::WrongKey => Wire::bare(
                401,
                error("authentication_error", &format!("invalid x-api-key {KEY}")),
            ),
            Refusal::NoSuchModel => Wire::bare(404, error("not_found_error", "model: x")),
            Refusal::Temperature => invalid("`temperature` is deprecated for this model."),
            Refusal::Schema => invalid("output_config: Extra inputs are not permitted"),
            Refusal::NextRung => invalid("tool_choice: forced tool use is not supported"),
            Refusal::TooLong => invalid("prompt is too long: 208310 tokens > 200000 maximum"),
            Refusal::Odd => invalid("messages: odd"),
        }
    }

    fn limits(&self, limit: u64, left: u64, reset_s: u64) -> Result<Headers, &'static str> {
        let reset = chrono::Utc::now() + chrono::TimeDelta::seconds(reset_s.cast_signed());
        Ok(vec![
            ("anthropic-ratelimit-requests-limit", limit.to_string()),
            ("anthropic-ratelimit-requests-remaining", left.to_string()),
            ("anthropic-ratelimit-requests-reset", reset.to_rfc3339()),
        ])
    }

    fn ladder(&self) -> [&'static str; 3] {
        ["json_schema", "tool", "prompt"]
    }

    fn rung(&self, request: &Value) -> &'static str {
        let tool = json!({ "type": "tool", "name": "score" });
        match (request.get("output_config"), request.get("tool_choice")) {
            (Some(_), None) => "json_schema",
            (None, Some(choice)) if *choice == tool => {
                let tools = &request["tools"];
                assert_eq!(tools[0]["name"], "score");
                assert_eq!(tools[0]["input_schema"]["required"][1], "total");
                "tool"
            }
            (None, None) => "prompt",
            (Some(_), Some(_)) | (None, Some(_)) => "?",
        }
    }

    fn in_a_list(&self, _body: &Value) -> Result<Value, &'static str> {
        Err("messages never put an error into a list")
    }
}
