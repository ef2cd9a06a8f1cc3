//! Fills judge prompts of any kind with fenced evidence, and creates the question.
//!
//! Text from a subject is untrusted and stays inside a fence. Only the template and the schema are instructions.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::criteria::{Prompt, SCHEMA};
use super::opinion::ReplyForm;
use super::prompt_text::{PromptText, TextPart};
use super::template::{Segment, segments};
use super::{Criteria, Unscorable, fence};
use crate::{Limits, Nonce, Question};

pub(super) struct Evidence<'a> {
    placeholder: &'static str,
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

/// Judge prompt template, split into shared text and evidence placeholders.
#[derive(Debug)]
pub(super) struct Template(Vec<TemplatePiece>);

#[derive(Debug)]
enum TemplatePiece {
    Text(Arc<str>),
    Evidence(String),
}

impl Template {
    /// Splits a template and fills in the schema, which isn't fenced.
    pub(super) fn new(template: &str, schema: &Value) -> Self {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        for segment in segments(template) {
            match segment {
                Segment::Text(own) => text.push_str(own),
                Segment::Placeholder(SCHEMA) => text.push_str(&format!("{schema:#}")),
                Segment::Placeholder(name) => {
                    if !text.is_empty() {
                        pieces.push(TemplatePiece::Text(std::mem::take(&mut text).into()));
                    }
                    pieces.push(TemplatePiece::Evidence(name.to_owned()));
                }
            }
        }
        if !text.is_empty() {
            pieces.push(TemplatePiece::Text(text.into()));
        }
        Self(pieces)
    }

    /// Fills in the evidence in one pass, so that placeholders inside evidence aren't expanded.
    pub(super) fn fill(&self, evidence: &[Evidence<'_>], nonce: &Nonce) -> PromptText {
        let (mut parts, mut own) = (Vec::new(), String::new());
        let (mut after_fence, mut begins_line) = (false, true);
        for piece in &self.0 {
            // A closing fence line must be followed by a newline.
            let closed = matches!(piece, TemplatePiece::Text(shared) if shared.starts_with('\n'));
            if after_fence && !closed {
                own.push('\n');
                begins_line = true;
            }
            match piece {
                TemplatePiece::Text(shared) => {
                    if !own.is_empty() {
                        parts.push(TextPart::Own(std::mem::take(&mut own).into()));
                    }
                    parts.push(TextPart::Shared(shared.clone()));
                    begins_line = shared.ends_with('\n');
                    after_fence = false;
                }
                TemplatePiece::Evidence(name) => {
                    let part = evidence.iter().find(|part| part.placeholder == name);
                    match part {
                        Some(part) => {
                            if !begins_line {
                                own.push('\n');
                            }
                            fence::append(&mut own, part.name, part.text, &nonce.0);
                        }
                        // Parsing of criteria rejects other names.
                        None => own.push_str(&format!("{{{{{name}}}}}")),
                    }
                    begins_line = false;
                    after_fence = part.is_some();
                }
            }
        }
        if !own.is_empty() {
            parts.push(TextPart::Own(own.into()));
        }
        PromptText::new(parts)
    }
}

/// Hashes each part with its length, so that different lists of parts can't have the same bytes.
pub(super) fn digest(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    hex::encode(digest.finalize())
}

/// Creates a question with evidence that can't be trimmed. Returns [`Unscorable::TooLarge`] if it exceeds the judge's window.
pub(super) fn question<T>(
    form: &'static ReplyForm<T>,
    criteria: &Criteria,
    prompt: &Prompt,
    evidence: &[Evidence<'_>],
    (limits, nonce): (&Limits, &Nonce),
) -> Result<Question, Unscorable> {
    let framed = prompt.framed(|| {
        let schema = form.schema();
        let hash = digest(&[&prompt.text, &schema.to_string(), form.version]);
        (schema, hash)
    });
    let texts: Vec<&str> = evidence.iter().map(|part| part.text).collect();
    let question = Question {
        kind: form.kind,
        template_hash: framed.template_hash.clone(),
        criteria_hash: criteria.hash.0.clone(),
        evidence_hash: digest(&texts),
        prompt: framed.template.fill(evidence, nonce),
        schema_name: form.schema_name,
        schema: Arc::clone(&framed.schema),
        check: Arc::new(|reply| form.read(reply).map(drop)),
        trimmed_tokens: 0,
        shrink: None,
        review: None,
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
