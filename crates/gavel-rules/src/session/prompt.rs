//! Prompt of a session: its evidence as text, fenced, in the template's placeholders.
//!
//! All text from a session is untrusted and stays inside a fence: messages, tool names, the agent's name.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Message, SessionRequest, schema};
use crate::Nonce;
use crate::PromptText;
use crate::prompt::{self, Template, digest};
use crate::{Criteria, criteria, fence};

/// Start of the line above a message, followed by its number and the start of the nonce. No other lines start with `===`, because those
/// in messages are indented.
pub(super) const MESSAGE: &str = "=== message ";
pub(super) const ANALYSIS: &str = "=== final analysis";
/// Digits of the nonce in a head line. A session can't know them.
const TAG: usize = 8;

/// Session text before fencing. Identical for the same session, except for the nonce.
pub(super) struct Evidence {
    pub(super) conversation: String,
    pub(super) alert: String,
}

fn tag(nonce: &Nonce) -> &str {
    nonce.0.get(..TAG).unwrap_or(&nonce.0)
}

/// Returns a conversation without its nonce, as input for digests.
pub(super) fn without_tags(conversation: &str, nonce: &Nonce) -> String {
    conversation.replace(&format!(" {} | ", tag(nonce)), " | ")
}

impl Evidence {
    pub(super) fn from_session(session: &SessionRequest, nonce: &Nonce) -> Self {
        Self {
            conversation: conversation(session, tag(nonce)),
            alert: alert(&session.alert_data),
        }
    }

    /// SHA-256 of the evidence before fencing, independent of the nonce.
    pub(super) fn hash(&self, nonce: &Nonce) -> String {
        digest(&[&without_tags(&self.conversation, nonce), &self.alert])
    }
}

pub(super) fn fill(template: &Template, evidence: &Evidence, nonce: &Nonce) -> PromptText {
    let evidence = [
        prompt::Evidence::new(
            criteria::CONVERSATION,
            "conversation",
            &evidence.conversation,
        ),
        prompt::Evidence::new(criteria::ALERT, "alert", &evidence.alert),
    ];
    template.fill(&evidence, nonce)
}

/// SHA-256 of everything in a prompt except the evidence: template, schema with its version, dimensions.
pub(super) fn template_hash(criteria: &Criteria, schema: &Value) -> String {
    let dimensions: Vec<String> = criteria
        .dimensions
        .iter()
        .map(|dimension| format!("{}={}", dimension.name, dimension.max))
        .collect();
    digest(&[
        &criteria.prompt.text,
        &schema.to_string(),
        schema::VERSION,
        &dimensions.join(","),
    ])
}

/// Renders the facts, then each message under a head line, then the final analysis. Content lines that look like a head line are indented
/// by one space, so that a message can't imitate another one.
fn conversation(session: &SessionRequest, tag: &str) -> String {
    let mut text = String::new();
    let fact = |name: &str, value: &Option<String>| match value {
        Some(value) => format!("{name}: {}\n", one_line(value)),
        None => format!("{name}: not recorded\n"),
    };
    text.push_str("=== session\n");
    text.push_str(&fact("agent", &session.agent));
    text.push_str(&fact("alert type", &session.alert_type));
    text.push_str(if session.completed {
        "ended: completed\n"
    } else {
        "ended: without completing\n"
    });
    if session.tools.is_empty() {
        text.push_str("tools at hand: not recorded\n");
    } else {
        let _ = writeln!(text, "tools at hand ({}):", session.tools.len());
        for tool in &session.tools {
            let _ = writeln!(text, "- {}", one_line(tool));
        }
    }
    let all = session.conversation.len();
    for (index, message) in session.conversation.iter().enumerate() {
        let _ = writeln!(text, "\n{}", head(message, (index + 1, all), tag));
        push_content(&mut text, &message.content);
    }
    let _ = writeln!(text, "\n{ANALYSIS}");
    push_content(
        &mut text,
        session
            .final_analysis
            .as_deref()
            .unwrap_or("(the agent left none)"),
    );
    text
}

fn head(message: &Message, (number, all): (usize, usize), tag: &str) -> String {
    let role = one_line(&message.role);
    let mut head = format!("{MESSAGE}{number}/{all} {tag} | {role}");
    let about = [
        ("tool", &message.tool_name),
        ("agent", &message.agent),
        ("stage", &message.stage),
    ];
    for (what, name) in about {
        if let Some(name) = name {
            let _ = write!(head, " | {what} {}", one_line(name));
        }
    }
    if let Some(at) = &message.at {
        let _ = write!(head, " | {}", one_line(at));
    }
    head
}

fn push_content(text: &mut String, content: &str) {
    let content = content.replace("\r\n", "\n");
    // All characters that a model may read as a line break.
    let breaks = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    for line in content.trim_end_matches(breaks).split(breaks) {
        if fence::starts_like(line, "===") {
            text.push(' ');
        }
        text.push_str(line);
        text.push('\n');
    }
}

fn one_line(text: &str) -> String {
    let is_break = |c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}';
    text.replace(is_break, " ")
}

/// Renders an alert: text unchanged, other values as JSON with sorted keys, because databases may reorder keys.
fn alert(data: &Value) -> String {
    if let Value::String(text) = data {
        return text.clone();
    }
    let mut sorted = data.clone();
    sorted.sort_all_objects();
    format!("{sorted:#}")
}
