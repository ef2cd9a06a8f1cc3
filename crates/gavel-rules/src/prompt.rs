//! A judge prompt of any kind: evidence fenced into a template's places, and the question that is made of it.
//!
//! Everything that comes from a subject is hostile and stays inside a fence; only the template and the schema direct the judge.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::criteria::{Prompt, SCHEMA};
use super::opinion::ReplyForm;
use super::prompt_text::{PromptText, TextPart};
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

/// A judge prompt's template, cut into what every prompt made of it shares and the places of evidence.
#[derive(Debug)]
pub(super) struct Template(Vec<TemplatePiece>);

#[derive(Debug)]
enum TemplatePiece {
    Text(Arc<str>),
    /// A placeholder's name.
    Evidence(String),
}

impl Template {
    /// Cuts a template; the schema, which isn't fenced, is filled in.
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

    /// Fills it in one pass: a placeholder inside evidence is evidence.
    pub(super) fn fill(&self, evidence: &[Evidence<'_>], nonce: &Nonce) -> PromptText {
        let (mut parts, mut own) = (Vec::new(), String::new());
        let (mut after_fence, mut begins_line) = (false, true);
        for piece in &self.0 {
            // A closing line has nothing behind it.
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
                        // Criteria with other names are refused when they are read.
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
