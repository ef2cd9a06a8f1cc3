//! Cases in the format of chat completions.

use serde_json::{Value, json};

use super::super::stage::KEY;
use super::{Family, Headers, MODEL, Refusal, Reply, Wire};

pub(super) struct OpenAi;

fn error(message: &str, code: &str, param: Option<&str>) -> Value {
    json!({ "error": {
        "message": format!("SERVER WORDS: {message}"), "type": "t", "param": param, "code": code,
    }})
}

impl Family for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn base(&self) -> &'static str {
        "/v1"
    }

    fn path(&self) -> &'static str {
        "/v1/chat/completions"
    }

    fn headers(&self) -> Headers {
        vec![("authorization", format!("Bearer {KEY}"))]
    }

    fn request(&self, prompt: &str, schema: &Value) -> Value {
        json!({
            "model": MODEL,
            "stream": false,
            "messages": [{ "role": "user", "content": prompt }],
            "response_format": { "type": "json_schema", "json_schema": {
                "name": "score", "strict": true, "schema": schema,
            }},
            "max_completion_tokens": 8192,
            "temperature": 0.0,
        })
    }

    fn reply(&self, reply: Reply<'_>) -> Value {
        let mut message = json!({ "role": "assistant", "content": null });
        let (mut model, mut finish_reason) = (MODEL, "stop");
        match reply {
            Reply::Says(text) => message["content"] = json!(text),
            Reply::AfterThoughts(text) => {
                message["reasoning_content"] = json!("{\"total\": 1}");
                message["content"] = json!(text);
            }
            Reply::CutOff(text) => {
                message["content"] = json!(text);
                finish_reason = "length";
            }
            Reply::Declines => message["refusal"] = json!("SERVER WORDS"),
            Reply::StopsFor(reason) => {
                message["content"] = json!(super::GOOD);
                finish_reason = reason;
            }
            Reply::By(name) => {
                message["content"] = json!(super::GOOD);
                model = name;
            }
        }
        json!({
            "model": model,
            "choices": [{ "message": message, "finish_reason": finish_reason }],
            "usage": {
                "prompt_tokens": 1000, "completion_tokens": 100,
                "prompt_tokens_details": { "cached_tokens": 400 },
                "completion_tokens_details": { "reasoning_tokens": 40 },
            },
        })
    }

    fn refusal(&self, refusal: Refusal) -> Wire {
        match refusal {
            Refusal::Overloaded => Wire::bare(503, error("overloaded", "overloaded", None)),
            Refusal::Throttled => Wire(
                429,
                vec![("retry-after-ms", "17000".to_owned())],
                error("slow down", "rate_limit_exceeded", None),
            ),
            Refusal::UsedUp => Wire::bare(429, error("quota", "insufficient_quota", None)),
            Refusal::WrongKey => Wire::bare(
                401,
                error(&format!("bad key {KEY}"), "invalid_api_key", None),
            ),
            Refusal::NoSuchModel => Wire::bare(404, error("no model", "model_not_found", None)),
            Refusal::Temperature => Wire::bare(
                400,
                error("only the default", "unsupported_value", Some("temperature")),
            ),
            Refusal::Schema => Wire::bare(400, error("response_format json_schema", "x", None)),
            Refusal::NextRung => {
                Wire::bare(422, error("json_object", "x", Some("response_format")))
            }
            Refusal::TooLong => Wire::bare(400, error("too long", "context_length_exceeded", None)),
            Refusal::Odd => Wire::bare(400, error("odd", "odd", None)),
        }
    }

    fn limits(&self, limit: u64, left: u64, reset_s: u64) -> Result<Headers, &'static str> {
        Ok(vec![
            ("x-ratelimit-limit-requests", limit.to_string()),
            ("x-ratelimit-remaining-requests", left.to_string()),
            ("x-ratelimit-reset-requests", format!("{reset_s}s")),
        ])
    }

    fn ladder(&self) -> [&'static str; 3] {
        ["json_schema", "json_object", "prompt"]
    }

    fn rung(&self, request: &Value) -> &'static str {
        match request["response_format"]["type"].as_str() {
            Some("json_schema") => "json_schema",
            Some("json_object") => "json_object",
            Some(_) => "?",
            None => "prompt",
        }
    }

    fn in_a_list(&self, _body: &Value) -> Result<Value, &'static str> {
        Err("chat completions never put an error into a list")
    }
}
