//! What differs between providers: each kind of provider is one [`WireFormat`], in a folder of its own.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use super::call::CallRequest;
use super::endpoint::batch::BatchApi;
use super::error_body::ErrorBody;
use super::family::Family;
use super::headers::{RateHeaders, unnamed_reset};
use super::reply::{RawReply, Unreadable};
use super::shape::{FieldNames, Shape};
use crate::entries::spec::JudgeSpec;
use crate::error::ErrorClass;
use gavel_outbound::retry_after;

/// How one kind of provider words calls and their ends.
pub(crate) struct WireFormat {
    pub(crate) family: Family,
    pub(super) body: fn(&JudgeSpec, &CallRequest, Shape) -> Result<Vec<u8>, serde_json::Error>,
    /// Reads a body of status 2xx.
    pub(super) read: fn(&[u8]) -> Result<RawReply, Unreadable>,
    /// What errors call a field that a request of this shape has; empty where there is no such field.
    pub(super) names: FieldNames,
    /// The headers that tell limits; `None` where replies have none.
    pub(super) rate_headers: Option<RateHeaders>,
    /// `None` where the provider has no batch endpoint.
    pub(crate) batches: Option<&'static dyn BatchApi>,
}

impl WireFormat {
    /// Returns the time until an error of `class` may be over, as far as the server says.
    pub(super) fn wait(
        &self,
        class: ErrorClass,
        headers: &HeaderMap,
        body: &ErrorBody,
        now: DateTime<Utc>,
    ) -> Option<Duration> {
        let asked = retry_after(headers, Some(now))
            .or_else(|| retry_after(body.headers(), Some(now)))
            .or_else(|| body.delay());
        let reset = || {
            let spent = self.rate_headers.as_ref()?.reset_of_spent(headers, now);
            spent.or_else(|| {
                unnamed_reset(headers, now).or_else(|| unnamed_reset(body.headers(), now))
            })
        };
        // The delay that Google names beside a quota per day is that of another limit.
        let is_of_other = class == ErrorClass::Exhausted && body.has_code("#quota-spent");
        match class {
            _ if is_of_other => None,
            // A quota that is said to be back at once would be asked for without a pause.
            ErrorClass::Throttled | ErrorClass::Exhausted => asked
                .or_else(reset)
                .map(|wait| wait.max(Duration::from_secs(1))),
            ErrorClass::Transient => asked,
            ErrorClass::Misconfigured
            | ErrorClass::Capability
            | ErrorClass::TooLarge
            | ErrorClass::Truncated
            | ErrorClass::Refused
            | ErrorClass::Rejected
            | ErrorClass::Unparsable => None,
        }
    }
}
