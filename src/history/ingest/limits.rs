//! How large a session may be. Each limit has its fault.

/// Text of all messages together, in bytes.
pub(super) const CONVERSATION_BYTES: usize = 4 * 1024 * 1024;
/// Messages, so that empty ones can't come without end.
pub(super) const MESSAGES: usize = 20_000;
/// The final analysis, in bytes.
pub(super) const ANALYSIS_BYTES: usize = 1024 * 1024;
/// Characters of a role.
pub(super) const ROLE: usize = 64;
/// Characters of a name: alert type, agent, author, tool.
pub(super) const NAME: usize = 255;
/// Characters of a tag.
pub(super) const TAG: usize = 64;
pub(super) const TAGS: usize = 100;
pub(super) const TOOLS: usize = 1_000;
/// Levels of JSON; the session itself is the first.
pub(super) const DEPTH: usize = 64;
/// Faults that are told of one session.
pub(super) const FAULTS: usize = 20;
