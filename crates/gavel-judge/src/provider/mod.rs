//! Providers and their wire types: one folder each.
//!
//! A provider makes one HTTP call and says how it ended, in terms that don't name the provider. It never retries, never
//! waits for a gate and never keeps a reply. A second call with a harmless request tells whether a refusal is one of the judge. What providers have in common is `endpoint`; a folder holds one `WireFormat`
//! with its wire types, and nothing that another one needs.

mod anthropic;
mod batch;
mod body;
pub(crate) mod call;
mod endpoint;
mod error_body;
mod events;
pub(crate) mod family;
mod format;
mod gemini;
mod headers;
mod http;
mod learned;
mod meaning;
mod openai;
mod reply;
pub(crate) mod shape;
pub mod simulated;

pub use batch::{Added, Chunk, ChunkLookup, ChunkSize, CollectedAnswer, Progress, Uploaded};
pub(crate) use call::{CallRequest, Called, Message, ProviderReply, Role, Stop};
pub use endpoint::results::Answers;
pub(crate) use endpoint::{BatchApi, Endpoint};
pub(crate) use format::WireFormat;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entries::spec::JudgeSpec;
use gavel_outbound::Route;

/// Every kind of provider. One more is a folder, and its lines here.
pub(crate) const FORMATS: [&WireFormat; 3] = [&openai::FORMAT, &anthropic::FORMAT, &gemini::FORMAT];

/// Builds providers; those of one process share HTTP clients and what was learned about servers.
#[derive(Default)]
pub(crate) struct ProviderMaker {
    clients: BTreeMap<Route, http::Client>,
    learned: Arc<learned::Learned>,
}

impl ProviderMaker {
    pub(crate) fn make(
        &mut self,
        spec: &JudgeSpec,
        clock: &Arc<dyn gavel_clock::Clock>,
    ) -> Endpoint {
        let route = Route::to(&spec.entry().base_url);
        let client = self.clients.entry(route);
        let client = client.or_insert_with(|| http::Client::new(route)).clone();
        let learned = Arc::clone(&self.learned);
        Endpoint::new(spec, client, learned, Arc::clone(clock))
    }
}
