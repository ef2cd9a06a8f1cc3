//! What an entry of `llm_providers.yaml` takes from its kind of provider: plain data.

use super::shape::{Cap, Rung};

/// Which kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::judge) enum Kind {
    OpenAi,
    Anthropic,
    Gemini,
}

pub(in crate::judge) struct Family {
    pub(super) kind: Kind,
    /// `type` in `llm_providers.yaml`.
    pub(in crate::judge) name: &'static str,
    /// What is appended to the address, `{model}` filled in; an entry's `path` replaces it.
    pub(in crate::judge) path: &'static str,
    pub(in crate::judge) auth_header: &'static str,
    /// What stands before the key.
    pub(in crate::judge) auth_prefix: &'static str,
    /// Headers that every call has, unless the entry sets them.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The ways to ask for the reply's shape, the strictest first.
    pub(in crate::judge) ladder: &'static [Rung],
    /// What the output cap is called at first.
    pub(super) cap: Cap,
}
