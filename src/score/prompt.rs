//! A judge prompt of any kind: evidence fenced into a template's places, and the question that is made of it.
//!
//! Everything that comes from a subject is hostile and stays inside a fence; only the template and the schema direct the judge.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::criteria::{Prompt, SCHEMA};
use super::template::{Segment, segments};
use super::{BadRequest, Criteria, fence};
use crate::judge::{Check, Limits, Nonce, Question};

/// Evidence for one place of a template.
pub(super) struct Part<'a> {
    /// The placeholder that it stands for.
    pub(super) placeholder: &'static str,
    /// Its name in the fence's lines.
    pub(super) name: &'static str,
    /// The text, as it came.
    pub(super) text: &'a str,
}

/// Fills the template in one pass: a placeholder inside evidence is evidence. The schema isn't fenced.
pub(super) fn fill(template: &str, parts: &[Part<'_>], schema: &Value, nonce: &Nonce) -> String {
    let size = template.len() + parts.iter().map(|part| part.text.len()).sum::<usize>();
    let mut prompt = String::with_capacity(size + 8 * 1024);
    let mut after_fence = false;
    for segment in segments(template) {
        match segment {
            Segment::Text(text) => {
                // A closing line has nothing behind it.
                if after_fence && !text.starts_with('\n') {
                    prompt.push('\n');
                }
                prompt.push_str(text);
                after_fence = false;
            }
            Segment::Placeholder(name) => {
                if after_fence {
                    prompt.push('\n');
                }
                after_fence = false;
                if name == SCHEMA {
                    prompt.push_str(&format!("{schema:#}"));
                } else if let Some(part) = parts.iter().find(|part| part.placeholder == name) {
                    fence::append(&mut prompt, part.name, part.text, &nonce.0);
                    after_fence = true;
                } else {
                    // Criteria with other names are refused when they are read.
                    prompt.push_str(&format!("{{{{{name}}}}}"));
                }
            }
        }
    }
    prompt
}

/// Each part behind its length: no two lists of parts run together to the same bytes.
pub(super) fn digest(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    hex::encode(digest.finalize())
}

/// What a question is beside its evidence.
pub(super) struct Form {
    /// The kind's name.
    pub(super) kind: &'static str,
    /// The reply's name for providers that want one.
    pub(super) schema_name: &'static str,
    /// Changes with what the schema or the checks mean.
    pub(super) version: &'static str,
    /// Makes the reply's schema, once for each definition.
    pub(super) schema: fn() -> Value,
    /// What the schema doesn't say.
    pub(super) check: Check,
}

/// A question whose evidence may not be made smaller: it fits into the judge's window, or is [`BadRequest::TooLarge`].
pub(super) fn question(
    form: Form,
    criteria: &Criteria,
    prompt: &Prompt,
    parts: &[Part<'_>],
    (limits, nonce): (&Limits, &Nonce),
) -> Result<Question, BadRequest> {
    let (schema, template_hash) = prompt.frame.get(|| {
        let schema = (form.schema)();
        let hash = digest(&[&prompt.text, &schema.to_string(), form.version]);
        (schema, hash)
    });
    let texts: Vec<&str> = parts.iter().map(|part| part.text).collect();
    let question = Question {
        kind: form.kind,
        template_hash,
        criteria_hash: criteria.hash.0.clone(),
        evidence_hash: digest(&texts),
        prompt: Arc::from(fill(&prompt.text, parts, &schema, nonce)),
        schema_name: form.schema_name,
        schema,
        check: form.check,
        trimmed_tokens: 0,
        shrink: None,
    };
    let (needed, room) = (question.tokens(limits.family), limits.for_the_question());
    if needed > room {
        return Err(BadRequest::TooLarge(format!(
            "the question needs about {needed} tokens, and the judge's context window of {} leaves {room} for it; \
             shorten the texts, or name a judge with a larger window",
            limits.context_window
        )));
    }
    Ok(question)
}
