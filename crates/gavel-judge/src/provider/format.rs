//! What differs between kinds of providers: each is one [`WireFormat`], in a file of its own.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use super::batch::BatchForm;
use super::body::Body;
use super::call::CallRequest;
use super::error_body::ErrorBody;
use super::headers::{RateHeaders, unnamed_reset};
use super::reply::Reader;
use super::shape::{Field, Rung, Shape};
use crate::entries::spec::JudgeSpec;
use crate::error::ErrorClass;
use gavel_outbound::retry_after;

/// How one kind of provider words calls and their ends.
pub(crate) struct WireFormat {
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
    /// Whether the output cap has a new name, which is tried first.
    pub(super) has_new_cap: bool,
    pub(super) body: for<'a> fn(&'a JudgeSpec, &'a CallRequest, Shape) -> Body<'a>,
    /// Reads a body of status 2xx.
    pub(super) read: Reader,
    /// What is said of a body that isn't a reply of this kind.
    pub(super) no_reply: &'static str,
    /// The names that errors have for a field of a request on this rung, between bars; empty where there is no such field.
    pub(super) names: fn(Field, Rung) -> &'static str,
    /// The headers that tell limits; `None` where replies have none.
    pub(super) rate_headers: Option<RateHeaders>,
    /// `None` where the provider has no batch endpoint.
    pub(crate) batches: Option<BatchForm>,
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
        let both = || [headers, &body.headers].into_iter();
        let asked = both().find_map(|headers| retry_after(headers, Some(now)));
        let asked = asked.or_else(|| body.delay());
        let reset = || {
            let limits = self.rate_headers.as_ref();
            let spent = limits.and_then(|limits| limits.reset_of_spent(headers, now));
            spent.or_else(|| both().find_map(|headers| unnamed_reset(headers, now)))
        };
        match class {
            // The delay that Google names beside a quota per day is that of another limit.
            ErrorClass::Exhausted if body.has_code("#quota-spent") => None,
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
