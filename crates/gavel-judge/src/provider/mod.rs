//! Providers and their wire formats, one file each.
//!
//! A provider makes one HTTP call and returns a result that doesn't depend on the provider. It doesn't retry, wait for a gate or store a reply.
//! A second call with a harmless request shows whether a server rejects all requests. The common part is `endpoint`.

mod anthropic;
mod batch;
mod body;
pub(crate) mod call;
mod endpoint;
mod error_body;
mod events;
pub(crate) mod format;
mod gemini;
mod headers;
mod http;
mod learned;
mod meaning;
mod openai;
mod reply;
pub(crate) mod shape;
pub mod simulated;

pub(crate) use batch::BatchForm;
pub use batch::{Added, Chunk, ChunkLookup, ChunkSize, CollectedAnswer, Progress, Uploaded};
pub(crate) use call::{CallRequest, Called, ProviderReply, Stop};
pub(crate) use endpoint::Endpoint;
pub use endpoint::answers::Answers;
pub(crate) use format::WireFormat;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entries::spec::JudgeSpec;
use gavel_outbound::Route;

pub(crate) const FORMATS: [&WireFormat; 3] = [&openai::FORMAT, &anthropic::FORMAT, &gemini::FORMAT];

/// Builds providers, which share HTTP clients and the rejected fields of servers.
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
        Endpoint {
            spec: spec.clone(),
            format: spec.entry().format,
            client,
            learned: Arc::clone(&self.learned),
            clock: Arc::clone(clock),
        }
    }
}
