//! Differences between kinds of providers: each is one [`WireFormat`] in its own file.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use super::batch::BatchForm;
use super::body::Body;
use super::call::CallRequest;
use super::error_body::ErrorBody;
use super::headers::{RateHeaders, unnamed_reset};
use super::reply::Reader;
use super::shape::{Ladder, Shape};
use crate::entries::spec::JudgeSpec;
use crate::error::ErrorClass;
use gavel_outbound::retry_after;

pub(crate) struct WireFormat {
    /// `type` in `llm_providers.yaml`.
    pub(crate) name: &'static str,
    /// Path appended to the base URL, with `{model}` replaced; an entry's `path` overrides it.
    pub(crate) path: &'static str,
    pub(crate) auth_header: &'static str,
    pub(crate) auth_prefix: &'static str,
    /// Headers of every call, unless the entry sets them.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(crate) ladder: &'static Ladder,
    /// Whether the output cap has a new name, which is tried first.
    pub(super) has_new_cap: bool,
    pub(super) body: fn(&JudgeSpec, &CallRequest, &Shape) -> Body,
    /// Reads a body of status 2xx.
    pub(super) read: Reader,
    /// Error message for a body that isn't a reply of this kind.
    pub(super) no_reply: &'static str,
    pub(super) rate_headers: Option<RateHeaders>,
    pub(crate) batches: Option<BatchForm>,
}

impl WireFormat {
    /// Returns the time until an error of `class` may be over, if the server reports it.
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
            let limits = self.rate_headers.as_ref().map(|it| it.read(headers, now));
            let limits = limits.unwrap_or_default();
            let spent = limits
                .all()
                .into_iter()
                .filter(|it| it.remaining == Some(0));
            let spent = spent.filter_map(|limit| limit.resets_in).max();
            spent.or_else(|| both().find_map(|headers| unnamed_reset(headers, now)))
        };
        let is_limit = matches!(class, ErrorClass::Throttled | ErrorClass::Exhausted);
        // Next to a quota per day Google reports the delay of another limit.
        if class == ErrorClass::Exhausted && body.has_code("#quota-spent") {
            return None;
        }
        // At least a second, because otherwise a quota reported as free would be retried without a pause.
        let least = Duration::from_secs(1);
        match is_limit {
            true => asked.or_else(reset).map(|wait| wait.max(least)),
            false => asked.filter(|_| class == ErrorClass::Transient),
        }
    }
}
