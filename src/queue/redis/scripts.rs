//! The Lua scripts, each with the shared prelude in front. One script is one atomic step of bounded length.

use redis::Script;

/// Every step that the queue makes in Redis.
pub(super) struct Scripts {
    pub(super) push: Script,
    pub(super) claim: Script,
    pub(super) ack: Script,
    pub(super) release: Script,
    pub(super) later: Script,
    pub(super) renew: Script,
    pub(super) remove: Script,
    pub(super) depth: Script,
}

impl Scripts {
    /// Reads the scripts that were compiled in.
    pub(super) fn new() -> Self {
        Self {
            push: with_prelude(include_str!("lua/push.lua")),
            claim: with_prelude(include_str!("lua/claim.lua")),
            ack: with_prelude(include_str!("lua/ack.lua")),
            release: with_prelude(include_str!("lua/release.lua")),
            later: with_prelude(include_str!("lua/later.lua")),
            renew: with_prelude(include_str!("lua/renew.lua")),
            remove: with_prelude(include_str!("lua/remove.lua")),
            depth: with_prelude(include_str!("lua/depth.lua")),
        }
    }
}

fn with_prelude(body: &str) -> Script {
    Script::new(&format!("{}{body}", include_str!("lua/prelude.lua")))
}
