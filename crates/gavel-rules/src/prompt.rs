//! A judge prompt of any kind: evidence fenced into a template's places, and the question that is made of it.
//!
//! Everything that comes from a subject is hostile and stays inside a fence; only the template and the schema direct the judge.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::criteria::{Prompt, SCHEMA};
use super::opinion::ReplyForm;
use super::template::{Segment, segments};
use super::{Criteria, Unscorable, fence};
use crate::{Limits, Nonce, Question};

/// Evidence, and where it stands in a template.
pub(super) struct Evidence<'a> {
    placeholder: &'static str,
    /// Its name in the fence's lines.
    name: &'static str,
    text: &'a str,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(placeholder: &'static str, name: &'static str, text: &'a str) -> Self {
        Self {
            placeholder,
            name,
            text,
        }
    }
}

/// Fills the template in one pass: a placeholder inside evidence is evidence. The schema isn't fenced.
pub(super) fn fill(
    template: &str,
    evidence: &[Evidence<'_>],
    schema: &Value,
    nonce: &Nonce,
) -> String {
    let size = template.len() + evidence.iter().map(|part| part.text.len()).sum::<usize>();
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
                } else if let Some(part) = evidence.iter().find(|part| part.placeholder == name) {
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

/// A question whose evidence may not be made smaller: it fits into the judge's window, or is [`Unscorable::TooLarge`].
pub(super) fn question<T>(
    form: &'static ReplyForm<T>,
    criteria: &Criteria,
    prompt: &Prompt,
    evidence: &[Evidence<'_>],
    (limits, nonce): (&Limits, &Nonce),
) -> Result<Question, Unscorable> {
    let (schema, template_hash) = prompt.frame.get(|| {
        let schema = form.schema();
        let hash = digest(&[&prompt.text, &schema.to_string(), form.version]);
        (schema, hash)
    });
    let texts: Vec<&str> = evidence.iter().map(|part| part.text).collect();
    let question = Question {
        kind: form.kind,
        template_hash,
        criteria_hash: criteria.hash.0.clone(),
        evidence_hash: digest(&texts),
        prompt: Arc::from(fill(&prompt.text, evidence, &schema, nonce)),
        schema_name: form.schema_name,
        schema,
        check: Arc::new(|reply| form.read(reply).map(drop)),
        trimmed_tokens: 0,
        shrink: None,
        weakness: None,
    };
    let (needed, room) = (question.tokens(limits.family), limits.for_the_question());
    if needed > room {
        return Err(Unscorable::TooLarge(format!(
            "the question needs about {needed} tokens, and the judge's context window of {} leaves {room} for it; \
             shorten the texts, or name a judge with a larger window",
            limits.context_window
        )));
    }
    Ok(question)
}
