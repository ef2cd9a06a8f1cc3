//! The Lua scripts, each prefixed with the shared prelude. Each is one atomic step of bounded length.

use redis::Script;

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
