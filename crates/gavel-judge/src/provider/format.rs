//! What differs between providers: each kind of provider is one [`WireFormat`], in a folder of its own.

use reqwest::header::HeaderMap;

use super::call::CallRequest;
use super::endpoint::batch::BatchApi;
use super::family::Family;
use super::headers::RateHeaders;
use super::reply::{RawReply, Unreadable};
use super::said::{Said, Signal};
use super::shape::{Field, Shape};
use crate::entries::spec::JudgeSpec;
use crate::error::ErrorClass;

/// How one kind of provider words calls and their ends.
pub(crate) struct WireFormat {
    pub(crate) family: Family,
    pub(super) body: fn(&JudgeSpec, &CallRequest, Shape) -> Result<Vec<u8>, serde_json::Error>,
    /// Reads a body of status 2xx.
    pub(super) read: fn(&[u8]) -> Result<RawReply, Unreadable>,
    /// What errors call a field that a request of this shape has; empty where there is no such field.
    pub(super) names: fn(Field, Shape) -> &'static [&'static str],
    /// The status that a type of error comes with: a gateway's 200 has only the type left.
    pub(super) statuses: &'static [(&'static str, u16)],
    /// Whether a 429 says that waiting won't help.
    pub(super) used_up: fn(&Said) -> bool,
    /// The class of a 400 or 422 that says this, the first that matches; others are told by the field that they name.
    pub(super) bad_requests: &'static [(Signal, ErrorClass)],
    /// The headers that tell limits; `None` where replies have none.
    pub(super) rate_headers: Option<RateHeaders>,
    /// `None` where the provider has no batch endpoint.
    pub(crate) batches: Option<&'static dyn BatchApi>,
}

impl WireFormat {
    /// How long a refusal of `class` asks to wait.
    pub(super) fn wait(
        &self,
        class: ErrorClass,
        headers: &HeaderMap,
        said: &Said,
        now: chrono::DateTime<chrono::Utc>,
    ) -> Option<std::time::Duration> {
        let asked = super::headers::retry_after(headers, now);
        match &self.rate_headers {
            Some(limits) if limits.resets.contains(&class) => limits.wait(asked, headers, now),
            Some(_) => asked,
            // The delay that comes with a quota per day is that of some other limit.
            None if class == ErrorClass::Exhausted => None,
            None => asked.or_else(|| said.retry_delay()),
        }
    }

    /// The status that an error in a body of status 200 stands for.
    pub(super) fn inner_status(&self, said: &Said) -> Option<u16> {
        let of_type = self.statuses.iter().find(|(kind, _)| said.is(kind));
        of_type.map(|(_, status)| *status).or_else(|| said.status())
    }
}
