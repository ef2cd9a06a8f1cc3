use super::Caps;
use crate::ModelFamily;
use crate::session::prompt::{ANALYSIS, MESSAGE};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Whole,
    Analysis,
    ToolResult,
    Middle,
    End,
}

pub(super) struct Part<'a> {
    pub(super) kind: PartKind,
    pub(super) head: &'a str,
    pub(super) body: &'a str,
    /// Message number from 1; 0 for other parts.
    pub(super) number: u64,
    pub(super) tokens_head: u64,
    pub(super) tokens_body: u64,
}

impl<'a> Part<'a> {
    pub(super) fn parse(text: &'a str, family: ModelFamily) -> Self {
        let blank = usize::from(text.starts_with('\n'));
        let end = text[blank..]
            .find('\n')
            .map_or(text.len(), |at| blank + at + 1);
        let (head, body) = text.split_at(end);
        let line = &head[blank..];
        let (kind, number) = if let Some(rest) = line.strip_prefix(MESSAGE) {
            let number = rest
                .split('/')
                .next()
                .and_then(|number| number.parse().ok());
            (kind_of(rest), number.unwrap_or(0))
        } else if line.starts_with(ANALYSIS) {
            (PartKind::Analysis, 0)
        } else {
            (PartKind::Whole, 0)
        };
        Self {
            kind,
            head,
            body,
            number,
            tokens_head: family.tokens(head),
            tokens_body: family.tokens(body),
        }
    }

    pub(super) fn is_message(&self) -> bool {
        self.number > 0
    }

    pub(super) fn is_out(&self, out: Option<(u64, u64)>) -> bool {
        out.is_some_and(|(low, high)| (low..=high).contains(&self.number))
    }

    pub(super) fn cap(&self, caps: Caps) -> u64 {
        match self.kind {
            PartKind::ToolResult => caps.tool_results,
            PartKind::Middle => caps.middle,
            PartKind::End => caps.ends,
            PartKind::Analysis => caps.analysis,
            PartKind::Whole => u64::MAX,
        }
    }
}

/// Parses the rest of a line `=== message `: `3/12 nonce | role | tool name | time`. A message with a tool name is a call if its role is
/// assistant, else a result, as is any message with a tool's role.
fn kind_of(head: &str) -> PartKind {
    let mut fields = head.trim_end().split(" | ").skip(1);
    let role = fields.next().unwrap_or_default().to_ascii_lowercase();
    let names_a_tool = fields
        .next()
        .is_some_and(|field| field.starts_with("tool "));
    let is_tools = matches!(
        role.as_str(),
        "tool" | "function" | "tool_result" | "observation"
    );
    if is_tools || (names_a_tool && role != "assistant") {
        PartKind::ToolResult
    } else {
        PartKind::Middle
    }
}
