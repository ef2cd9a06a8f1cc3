//! What an entry of `llm_providers.yaml` takes from its kind of provider: plain data.

use super::shape::{Cap, Rung};

pub(crate) struct Family {
    /// `type` in `llm_providers.yaml`.
    pub(crate) name: &'static str,
    /// What is appended to the address, `{model}` filled in; an entry's `path` replaces it.
    pub(crate) path: &'static str,
    pub(crate) auth_header: &'static str,
    /// What stands before the key.
    pub(crate) auth_prefix: &'static str,
    /// Headers that every call has, unless the entry sets them.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The ways to ask for the reply's shape, the strictest first.
    pub(crate) ladder: &'static [Rung],
    /// What the output cap is called at first.
    pub(super) cap: Cap,
}
