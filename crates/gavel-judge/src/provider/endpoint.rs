//! One entry and model over HTTP: addresses, requests, and the result of each call. Redacts secrets in replies and errors. The rest is in a
//! [`WireFormat`].

pub(super) mod answers;
pub(super) mod batch;

use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderValue, LOCATION};
use secrecy::ExposeSecret as _;

use super::call::{CallRequest, Called, ProviderReply, Stop};
use super::error_body::ErrorBody;
use super::format::WireFormat;
use super::http::{Client, Exchange, HttpFailure};
use super::learned::Learned;
use super::meaning::{Meaning, meaning};
use super::reply::{self, Unreadable};
use super::shape::{FORMAT, Field, Shape};
use crate::JudgeError;
use crate::entries::spec::{Auth, JudgeSpec};
use crate::error::ErrorClass;
use gavel_clock::Clock;
use gavel_outbound::percent_encoded;

/// Limit of a server's message, in characters.
const MAX_MESSAGE: usize = 500;
const JSON: &str = "application/json";

pub(crate) struct Endpoint {
    pub(super) spec: JudgeSpec,
    pub(super) format: &'static WireFormat,
    pub(super) client: Client,
    pub(super) learned: Arc<Learned>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Endpoint {
    /// Calls once. If an error doesn't show whether the server rejects every request, a harmless request follows. After an error of class
    /// capability the next call omits the rejected field.
    pub(crate) async fn call(&self, request: &CallRequest) -> Called {
        let shape = self.shape();
        let exchange = self.send(request, &shape).await;
        let limits = self.format.rate_headers.as_ref();
        let limits = limits.zip(exchange.as_ref().ok());
        let rates = limits.map(|(limits, it)| limits.read(&it.headers, self.clock.now()));
        let late = match &exchange {
            Ok(exchange) => matches!(exchange.status, 408 | 504),
            Err(broken) => broken.late,
        };
        let (mut probe_cap, configured) = (None, self.spec.limits().max_output_tokens);
        let mut ended = self.ended(exchange, &shape, |meaning| match meaning {
            Meaning::Class(class) => class,
            Meaning::Field(field) => self.narrow(&shape, field),
            Meaning::Unclear => {
                probe_cap = Some(1);
                ErrorClass::Rejected
            }
            Meaning::Cap => {
                // A cap raised for this request says nothing about others.
                probe_cap = Some(configured).filter(|cap| request.max_output_tokens <= *cap);
                ErrorClass::Rejected
            }
        });
        // A gateway puts an upstream's error into the choice.
        let failed = match &mut ended {
            Ok(reply) => reply.error.as_mut(),
            Err(error) => Some(error),
        };
        if let (Some(cap), Some(error)) = (probe_cap, failed) {
            // Boxed, because few calls need the memory.
            Box::pin(self.check_scope(error, cap)).await;
        }
        let rates = rates.unwrap_or_default();
        Called { ended, rates, late }
    }

    /// Returns the reply of a call in a batch from its line.
    fn reply(&self, exchange: Exchange) -> Result<ProviderReply, JudgeError> {
        // Other lines of the chunk have replies, so an unclear error concerns this line.
        self.ended(Ok(exchange), &self.shape(), unlearned(ErrorClass::Rejected))
    }

    async fn send(&self, request: &CallRequest, shape: &Shape) -> Result<Exchange, HttpFailure> {
        let content = Some((JSON, self.body(request, shape)?));
        let http = self.request(&self.address(), content)?;
        self.client.exchange(http, request.timeout).await
    }

    fn body(&self, request: &CallRequest, shape: &Shape) -> Result<Vec<u8>, HttpFailure> {
        let body = (self.format.body)(&self.spec, request, shape);
        let body = serde_json::to_vec(&body);
        let mut body = body.map_err(|error| unusable(&error.to_string()))?;
        // It stays in memory during the call.
        body.shrink_to_fit();
        Ok(body)
    }

    /// Changes the class of an error to misconfigured if the server rejects a harmless request as well. Otherwise the error concerns this
    /// request: a firewall in front of the server may reject a prompt.
    async fn check_scope(&self, error: &mut JudgeError, cap: u32) {
        let shape = self.shape();
        let exchange = self.send(&CallRequest::harmless(cap), &shape).await;
        let ended = self.ended(exchange, &shape, unlearned(ErrorClass::Misconfigured));
        let ended = ended.and_then(|reply| reply.error.map_or(Ok(()), Err));
        let scope = match ended.map_err(|error| error.class) {
            Err(ErrorClass::Misconfigured) => {
                error.class = ErrorClass::Misconfigured;
                "; a harmless request is refused, too"
            }
            Err(ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Exhausted) => "",
            Ok(_) | Err(_) => "; only this request is refused, a harmless one isn't",
        };
        error.message.push_str(scope);
    }

    fn shape(&self) -> Shape {
        self.learned.shape(&self.spec, self.clock.now())
    }

    fn below(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        format!("{}/{path}", self.spec.entry().base_url)
    }

    /// Returns the address of calls. The model is escaped, because users may choose its name.
    fn address(&self) -> String {
        let model = percent_encoded(self.spec.model());
        self.below(&self.spec.entry().path.replace("{model}", &model))
    }

    /// Builds a GET request, or a POST request with content and its type, with the headers of format and entry, and the key.
    fn request(
        &self,
        address: &str,
        content: Option<(&str, Vec<u8>)>,
    ) -> Result<reqwest::Request, HttpFailure> {
        let entry = self.spec.entry();
        let url = reqwest::Url::parse(address)
            .map_err(|error| unusable(&format!("the address can't be used: {error}")))?;
        let client = self.client.inner()?;
        let request = match content {
            None => client.get(url),
            // A wrapped body is freed once it is sent. Otherwise a copy is stored for redirects, which aren't followed.
            Some((kind, body)) => client
                .post(url)
                .header("content-type", kind)
                .body(reqwest::Body::wrap(reqwest::Body::from(body))),
        };
        let mut request = request.header("accept", JSON);
        for (name, value) in entry.format.headers {
            let mut own = entry.headers.keys();
            if !own.any(|own| own.eq_ignore_ascii_case(name)) {
                request = request.header(*name, *value);
            }
        }
        for (name, value) in &entry.headers {
            request = request.header(name.as_str(), value.expose_secret());
        }
        if let (Auth::Key, Some(key)) = (entry.auth, &entry.key) {
            let value = format!("{}{}", entry.auth_prefix, key.expose_secret());
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| unusable("the key or its prefix can't be sent as a header"))?;
            value.set_sensitive(true);
            request = request.header(entry.auth_header.as_str(), value);
        }
        let request = request.build();
        request.map_err(|error| unusable(&error.without_url().to_string()))
    }

    /// Returns an error with a server's message, without secrets and without control characters, because logs and terminals show it.
    fn error(&self, class: ErrorClass, status: Option<u16>, message: &str) -> JudgeError {
        let message = self.spec.entry().redact(message.to_owned());
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let message: String = message.chars().map(plain).take(MAX_MESSAGE).collect();
        JudgeError {
            status,
            ..JudgeError::new(class, format!("judge {:?} {message}", self.spec.name()))
        }
    }

    fn named<T>(&self, result: Result<T, HttpFailure>) -> Result<T, JudgeError> {
        result.map_err(|broken| self.error(broken.class, broken.status, &broken.message))
    }
    /// Returns the error of a rejected request of shape `sent`; `decide` chooses the class of its meaning.
    fn rejection(
        &self,
        exchange: &Exchange,
        body: ErrorBody,
        sent: &Shape,
        decide: impl FnOnce(Meaning) -> ErrorClass,
    ) -> JudgeError {
        let meaning = meaning(self.format, exchange.status, &body, sent);
        let class = decide(meaning);
        let now = self.clock.now();
        let retry_after = self.format.wait(class, &exchange.headers, &body, now);
        let said = body.summary();
        let words = match (exchange.status, &self.spec.entry().hint) {
            (200..=299, _) => format!("answered with an error: {said}"),
            (status @ 300..=399, _) => format!(
                "answered {status}, a redirect{}, which is not followed, so that the key goes to no other server; set base_url to \
                 the address that answers",
                self.target(&exchange.headers).unwrap_or_default()
            ),
            // The entry's hint names the source of the key.
            (401, Some(hint)) => format!("answered 401: {said}; its key is refused: {hint}"),
            (status, _) if meaning == Meaning::Cap => format!(
                "answered {status}: {said}; set max_output_tokens in llm_providers.yaml to at most what the model allows"
            ),
            (status, _) => format!("answered {status}: {said}"),
        };
        let generated = body.failed_generation;
        JudgeError {
            raw_reply: generated.map(|text| self.spec.entry().redact_reply(text)),
            retry_after,
            ..self.error(class, Some(exchange.status), &words)
        }
    }

    /// Returns the host of a redirect. The rest of its address may contain a secret.
    fn target(&self, headers: &HeaderMap) -> Option<String> {
        let location = headers.get(LOCATION)?.to_str().ok()?;
        let target = reqwest::Url::parse(&self.address()).ok()?.join(location);
        Some(format!(" to {}", target.ok()?.host_str()?))
    }

    /// Returns the reply or the error of a request of shape `sent`; `decide` chooses the class of a rejection's meaning.
    fn ended(
        &self,
        exchange: Result<Exchange, HttpFailure>,
        sent: &Shape,
        decide: impl FnOnce(Meaning) -> ErrorClass,
    ) -> Result<ProviderReply, JudgeError> {
        let exchange = self.named(exchange)?;
        if !(200..300).contains(&exchange.status) {
            let body = ErrorBody::read(&exchange.body);
            return Err(self.rejection(&exchange, body, sent, decide));
        }
        let status = Some(exchange.status);
        let raw = match reply::read(&exchange.body, self.format.read, self.format.no_reply) {
            Ok(raw) => raw,
            Err(Unreadable::ErrorInside(error)) => {
                return Err(self.rejection(&exchange, ErrorBody::of(&error), sent, decide));
            }
            Err(Unreadable::Failed(class, what)) => {
                let words = format!("answered {} {what}", exchange.status);
                return Err(self.error(class, status, &words));
            }
        };
        let error = match (&raw.error, &raw.stop) {
            (Some(error), _) => Some(self.rejection(&exchange, ErrorBody::of(error), sent, decide)),
            (None, Stop::Failed(what)) => Some(self.error(ErrorClass::Transient, status, what)),
            (None, _) => None,
        };
        let reported = Some(raw.model).filter(|model| !model.is_empty());
        let model = reported.unwrap_or_else(|| self.spec.model().to_owned());
        let is_marked = raw.simulated || model.starts_with("simulated-");
        let (entry, mut stop) = (self.spec.entry(), raw.stop);
        if let Stop::Refused(words) | Stop::Other(words) = &mut stop {
            *words = entry.redact_reply(std::mem::take(words));
        }
        Ok(ProviderReply {
            text: entry.redact_reply(raw.text),
            text_in: raw.text_in,
            stop,
            error,
            simulated: is_marked || self.spec.simulated(),
            model: entry.redact_reply(model),
            usage: raw.usage,
            status: exchange.status,
        })
    }

    /// Stores that a field is rejected, so that the next call omits it. Without it or a replacement there would be no valid request left.
    fn narrow(&self, sent: &Shape, field: Field) -> ErrorClass {
        // An entry that sets the format allows no other.
        let fixed = field == FORMAT && self.spec.entry().structured.is_some();
        match sent.without(field, self.format.ladder) {
            Some(narrower) if !fixed => {
                self.learned.narrow(&self.spec, &narrower, self.clock.now());
                ErrorClass::Capability
            }
            Some(_) | None => ErrorClass::Rejected,
        }
    }
}

/// Returns the class of a rejection without storing the field, because otherwise the thousands of calls of a chunk would each narrow the
/// requests. `unclear` is the class of an error that may concern every request.
fn unlearned(unclear: ErrorClass) -> impl FnOnce(Meaning) -> ErrorClass {
    move |meaning| match meaning {
        Meaning::Class(class) => class,
        Meaning::Field(_) => ErrorClass::Rejected,
        Meaning::Unclear | Meaning::Cap => unclear,
    }
}

fn unusable(message: &str) -> HttpFailure {
    let message = format!("can't be asked: {message}");
    HttpFailure::new(ErrorClass::Misconfigured, None, message)
}

#[cfg(test)]
mod tests;
