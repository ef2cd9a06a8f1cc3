use super::Caps;
use super::mark;
use crate::ModelFamily;
use crate::session::prompt::{ANALYSIS, MESSAGE};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Whole,
    Analysis,
    ToolResult,
    Middle,
    End,
    LeftOut,
}

pub(super) struct Part<'a> {
    pub(super) kind: PartKind,
    pub(super) head: &'a str,
    pub(super) body: &'a str,
    /// Message number from 1; for dropped messages, the first and the last.
    pub(super) numbers: (u64, u64),
    pub(super) marked: Option<(usize, usize)>,
    pub(super) gone: u64,
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
        let (kind, numbers) = if mark::is_mark(line) {
            (PartKind::LeftOut, mark::messages(line))
        } else if let Some(rest) = line.strip_prefix(MESSAGE) {
            let number = mark::number(rest);
            (kind_of(rest), (number, number))
        } else if line.starts_with(ANALYSIS) {
            (PartKind::Analysis, (0, 0))
        } else {
            (PartKind::Whole, (0, 0))
        };
        let marked = match kind {
            PartKind::Analysis | PartKind::ToolResult | PartKind::Middle | PartKind::End => {
                mark::find(body)
            }
            PartKind::Whole | PartKind::LeftOut => None,
        };
        let gone = match (kind, marked) {
            (PartKind::LeftOut, _) => mark::trimmed_tokens(line),
            (_, Some((from, to))) => mark::trimmed_tokens(&body[from..to]),
            (_, None) => 0,
        };
        Self {
            kind,
            head,
            body,
            numbers,
            marked,
            gone,
            tokens_head: family.tokens(head),
            tokens_body: family.tokens(body),
        }
    }

    pub(super) fn is_message(&self) -> bool {
        match self.kind {
            PartKind::ToolResult | PartKind::Middle | PartKind::End => true,
            PartKind::Whole | PartKind::Analysis | PartKind::LeftOut => false,
        }
    }

    pub(super) fn is_out(&self, out: Option<(u64, u64)>) -> bool {
        let Some((low, high)) = out else { return false };
        match self.kind {
            PartKind::ToolResult | PartKind::Middle | PartKind::End | PartKind::LeftOut => {
                low <= self.numbers.0 && self.numbers.1 <= high
            }
            PartKind::Whole | PartKind::Analysis => false,
        }
    }

    pub(super) fn cap(&self, caps: Caps) -> u64 {
        match self.kind {
            PartKind::ToolResult => caps.tool_results,
            PartKind::Middle => caps.middle,
            PartKind::End => caps.ends,
            PartKind::Analysis => caps.analysis,
            PartKind::Whole | PartKind::LeftOut => u64::MAX,
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
