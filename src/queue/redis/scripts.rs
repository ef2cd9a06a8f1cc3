//! The Lua scripts, each prefixed with the shared prelude. Each is one atomic step of bounded length.

use redis::Script;

pub(super) struct Scripts {
    pub(super) push: Script,
    pub(super) claim: Script,
    pub(super) depth: Script,
    pub(super) probe: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            push: with_prelude(include_str!("lua/push.lua")),
            claim: with_prelude(include_str!("lua/claim.lua")),
            depth: with_prelude(include_str!("lua/depth.lua")),
            probe: with_prelude(include_str!("lua/probe.lua")),
        }
    }
}

fn with_prelude(body: &str) -> Script {
    Script::new(&format!("{}{body}", include_str!("lua/prelude.lua")))
}
