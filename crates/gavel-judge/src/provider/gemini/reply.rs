//! Reads what generateContent answers.

use serde::Deserialize;
use serde_json::Value;

use crate::provider::call::{Stop, Tokens};
use crate::provider::reply::{self, RawReply, Unreadable, count, sum};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Usage>,
    model_version: Option<String>,
    simulated: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    prompt_token_count: Option<i64>,
    candidates_token_count: Option<i64>,
    thoughts_token_count: Option<i64>,
    cached_content_token_count: Option<i64>,
}

pub(super) fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    let generated: Generated = reply::parse(
        body,
        "answered 200 with a body that generateContent doesn't give; check base_url",
    )?;
    let candidate = generated.candidates.unwrap_or_default().into_iter().next();
    let blocked = generated.prompt_feedback.and_then(blocked);
    let (text, stop) = match (candidate, blocked) {
        (Some(candidate), _) => {
            let stop = stop(candidate.finish_reason, candidate.finish_message);
            (text(candidate.content), stop)
        }
        (None, Some(words)) => (String::new(), Stop::Refused(words)),
        (None, None) => {
            let error = generated.error.as_ref();
            let none = "answered 200 with no candidates";
            return Err(reply::without_answer(error, none));
        }
    };
    Ok(RawReply {
        text,
        stop,
        model: generated.model_version,
        simulated: generated.simulated,
        usage: generated.usage_metadata.and_then(tokens),
    })
}

fn blocked(feedback: Feedback) -> Option<String> {
    let reason = feedback.block_reason.filter(|reason| !reason.is_empty())?;
    Some(with_words(
        format!("its filter blocked the prompt: {reason}"),
        feedback.block_reason_message,
    ))
}

/// The parts' texts without the thoughts.
fn text(content: Option<Content>) -> String {
    content
        .and_then(|content| content.parts)
        .unwrap_or_default()
        .into_iter()
        .filter(|part| part.thought != Some(true))
        .filter_map(|part| part.text)
        .collect()
}

fn stop(reason: Option<String>, words: Option<String>) -> Stop {
    match reason.as_deref() {
        // Servers that leave the reason out have said all they had to say.
        None | Some("STOP" | "") => Stop::Complete,
        Some("MAX_TOKENS") => Stop::Truncated,
        Some(filter @ ("SAFETY" | "RECITATION" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "SPII")) => {
            Stop::Refused(with_words(
                format!("its filter cut the reply: {filter}"),
                words,
            ))
        }
        Some(other) => Stop::Unknown(other.to_owned()),
    }
}

fn with_words(reason: String, words: Option<String>) -> String {
    match words.filter(|words| !words.trim().is_empty()) {
        Some(words) => format!("{reason}: {words}"),
        None => reason,
    }
}

/// Cached tokens are part of the prompt's; thoughts are paid for as output, and counted beside the answer.
fn tokens(usage: Usage) -> Option<Tokens> {
    usage.prompt_token_count?;
    Some(Tokens {
        input: count(usage.prompt_token_count),
        cached: count(usage.cached_content_token_count),
        // Caches that are made by hand are paid for by the hour, and none is made here.
        cache_written: 0,
        output: sum(&[usage.candidates_token_count, usage.thoughts_token_count]),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_value(generated: &Value) -> Result<RawReply, Unreadable> {
        read(generated.to_string().as_bytes())
    }

    #[test]
    fn texts_are_joined_and_thoughts_are_no_part_of_the_reply() {
        let parts = json!([
            { "text": "{\"total\": 1}", "thought": true },
            { "text": "a", "thoughtSignature": "x" },
            { "functionCall": { "name": "f" } },
            { "text": "b", "thought": false },
        ]);
        let generated =
            json!({ "candidates": [{ "content": { "parts": parts, "role": "model" } }] });
        assert_eq!(read_value(&generated).unwrap().text, "ab");
        let spent = json!({ "candidates": [{ "finishReason": "MAX_TOKENS" }] });
        let reply = read_value(&spent).unwrap();
        assert_eq!((reply.text.as_str(), reply.stop), ("", Stop::Truncated));
    }

    #[test]
    fn each_stop_reason_has_its_meaning_and_unknown_ones_are_named() {
        let of = |reason: &str| stop(Some(reason.to_owned()), Some("words".to_owned()));
        assert_eq!(of("STOP"), Stop::Complete);
        assert_eq!(of("MAX_TOKENS"), Stop::Truncated);
        for filter in [
            "SAFETY",
            "RECITATION",
            "PROHIBITED_CONTENT",
            "BLOCKLIST",
            "SPII",
        ] {
            let words = format!("its filter cut the reply: {filter}: words");
            assert_eq!(of(filter), Stop::Refused(words));
        }
        assert_eq!(of("OTHER"), Stop::Unknown("OTHER".to_owned()));
        assert_eq!(stop(None, None), Stop::Complete);
    }

    #[test]
    fn a_blocked_prompt_is_a_refusal_and_nothing_at_all_is_not() {
        let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" } });
        let words = "its filter blocked the prompt: SAFETY".to_owned();
        assert_eq!(read_value(&blocked).unwrap().stop, Stop::Refused(words));
        assert!(matches!(read_value(&json!({})), Err(Unreadable::Other(_))));
        let inside = json!([{ "error": { "code": 503, "status": "UNAVAILABLE" } }]);
        assert_eq!(read_value(&inside), Err(Unreadable::ErrorInside));
    }

    #[test]
    fn thoughts_are_output_and_cached_tokens_are_part_of_the_prompts() {
        let generated = json!({ "candidates": [{}], "modelVersion": "simulated-x", "usageMetadata": {
            "promptTokenCount": 1000, "cachedContentTokenCount": 400,
            "candidatesTokenCount": 60, "thoughtsTokenCount": 40, "totalTokenCount": 1100,
        }});
        let reply = read_value(&generated).unwrap();
        let expected = Tokens {
            input: 1000,
            cached: 400,
            cache_written: 0,
            output: 100,
        };
        assert_eq!(reply.usage, Some(expected));
        assert_eq!(reply.model.as_deref(), Some("simulated-x"));
    }
}
