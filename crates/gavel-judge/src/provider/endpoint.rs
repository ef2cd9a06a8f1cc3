//! One entry and model over HTTP: where and how a call goes out, what its end means, and that neither reply nor error shows a secret. A
//! [`WireFormat`] says the rest.

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
use super::shape::{Field, Shape};
use crate::JudgeError;
use crate::entries::spec::{Auth, JudgeSpec};
use crate::error::ErrorClass;
use gavel_clock::Clock;
use gavel_outbound::percent_encoded;

/// A server's own words are kept up to this many characters.
const LONGEST_WORDS: usize = 500;
const JSON: &str = "application/json";
/// Stands for the model in an entry's path.
const MODEL: &str = "{model}";
/// Model ids that begin so are simulated, whoever serves them.
const SIMULATED_PREFIX: &str = "simulated-";

pub(crate) struct Endpoint {
    pub(super) spec: JudgeSpec,
    pub(super) format: &'static WireFormat,
    pub(super) client: Client,
    pub(super) learned: Arc<Learned>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Endpoint {
    /// Calls once, and once more with a harmless request where the error doesn't tell whether every request is refused. An error
    /// of class capability means that the next call leaves out what was refused.
    pub(crate) async fn call(&self, request: &CallRequest) -> Called {
        let shape = self.shape();
        let exchange = self.send(request, shape).await;
        let limits = self.format.rate_headers.as_ref();
        let limits = limits.zip(exchange.as_ref().ok());
        let rates = limits.map(|(limits, it)| limits.read(&it.headers, self.clock.now()));
        let late = match &exchange {
            Ok(exchange) => matches!(exchange.status, 408 | 504),
            Err(broken) => broken.late,
        };
        let mut is_unclear = false;
        let mut ended = self.ended(exchange, shape, |meaning| match meaning {
            Meaning::Class(class) => class,
            Meaning::Field(field) => self.narrow(shape, field),
            Meaning::Unclear => {
                is_unclear = true;
                ErrorClass::Rejected
            }
        });
        if let (true, Err(error)) = (is_unclear, &mut ended) {
            // Boxed, because few calls need the room.
            Box::pin(self.tell_scope(error)).await;
        }
        let rates = rates.unwrap_or_default();
        Called { ended, rates, late }
    }

    /// What a call of a batch came to, of the status and the body that its line holds.
    fn reply(&self, status: u16, body: &[u8]) -> Result<ProviderReply, JudgeError> {
        let exchange = Exchange {
            status,
            headers: HeaderMap::new(),
            body: body.to_vec(),
        };
        // Other lines of the chunk have answers: a refusal is one of this line.
        self.ended(Ok(exchange), self.shape(), unlearned(ErrorClass::Rejected))
    }

    async fn send(&self, request: &CallRequest, shape: Shape) -> Result<Exchange, HttpFailure> {
        let content = Some((JSON, self.body(request, shape)?));
        let http = self.request(&self.address(), content)?;
        self.client.exchange(http, request.timeout).await
    }

    fn body(&self, request: &CallRequest, shape: Shape) -> Result<Vec<u8>, HttpFailure> {
        let body = (self.format.body)(&self.spec, request, shape);
        body.written().map_err(|error| unusable(&error.to_string()))
    }

    /// Makes a refusal one of the judge if a harmless request is refused, too; else it is one of its own request alone: a firewall
    /// in front of the server may object to a prompt.
    async fn tell_scope(&self, error: &mut JudgeError) {
        let shape = self.shape();
        let exchange = self.send(&CallRequest::harmless(), shape).await;
        let ended = self.ended(exchange, shape, unlearned(ErrorClass::Misconfigured));
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

    /// The address of a path below the entry's.
    fn below(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        format!("{}/{path}", self.spec.entry().base_url)
    }

    /// Where calls go. A model's name may come from outside: it stays one part of the path, whatever it holds.
    fn address(&self) -> String {
        let model = percent_encoded(self.spec.model());
        self.below(&self.spec.entry().path.replace(MODEL, &model))
    }

    /// A request for what is at an address, or with content of a type, with the headers of format and entry, and the key.
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
            // Wrapped, a body is gone once it is sent. Else a copy is kept for redirects, which aren't followed.
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
        request
            .build()
            .map_err(|error| unusable(&error.without_url().to_string()))
    }

    /// Makes a class and a server's words into an error that names the judge and shows no secret.
    fn error(&self, class: ErrorClass, status: Option<u16>, words: &str) -> JudgeError {
        let words = self.spec.entry().redact(words.to_owned());
        // They end up in logs and on terminals, where control characters do things.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let words: String = words.chars().map(plain).take(LONGEST_WORDS).collect();
        JudgeError {
            status,
            ..JudgeError::new(class, format!("judge {:?} {words}", self.spec.name()))
        }
    }

    fn told<T>(&self, result: Result<T, HttpFailure>) -> Result<T, JudgeError> {
        result.map_err(|broken| self.error(broken.class, broken.status, &broken.message))
    }

    /// Returns the error of a refused request of shape `sent`; `decide` makes its meaning a class.
    fn refusal(
        &self,
        exchange: &Exchange,
        body: ErrorBody,
        sent: Shape,
        decide: impl FnOnce(Meaning) -> ErrorClass,
    ) -> JudgeError {
        let class = decide(meaning(self.format, exchange.status, &body, sent));
        let now = self.clock.now();
        let retry_after = self.format.wait(class, &exchange.headers, &body, now);
        // Where the key comes from, as far as its entry says so.
        let remedy = match (exchange.status, &self.spec.entry().hint) {
            (401, Some(hint)) => format!("; its key is refused: {hint}"),
            (_, _) => String::new(),
        };
        let words = match exchange.status {
            // An error in a body of status 200.
            200..=299 => format!("answered with an error: {}", body.words()),
            status @ 300..=399 => format!(
                "answered {status}, a redirect{}, which is not followed, so that the key goes to no other server; set base_url to \
                 the address that answers",
                self.target(&exchange.headers).unwrap_or_default()
            ),
            status => format!("answered {status}: {}{remedy}", body.words()),
        };
        JudgeError {
            raw_reply: body
                .failed_generation
                .map(|text| self.spec.entry().redact_reply(text)),
            retry_after,
            ..self.error(class, Some(exchange.status), &words)
        }
    }

    /// The host to which a redirect leads, with the word before it. The rest of the address may hold a secret.
    fn target(&self, headers: &HeaderMap) -> Option<String> {
        let location = headers.get(LOCATION)?.to_str().ok()?;
        let target = reqwest::Url::parse(&self.address()).ok()?.join(location);
        Some(format!(" to {}", target.ok()?.host_str()?))
    }

    /// A reply, or the error in its place; `decide` makes the meaning of a refusal a class.
    fn ended(
        &self,
        exchange: Result<Exchange, HttpFailure>,
        sent: Shape,
        decide: impl FnOnce(Meaning) -> ErrorClass,
    ) -> Result<ProviderReply, JudgeError> {
        let exchange = self.told(exchange)?;
        if !exchange.is_success() {
            let body = ErrorBody::read(&exchange.body);
            return Err(self.refusal(&exchange, body, sent, decide));
        }
        let status = Some(exchange.status);
        let raw = match reply::read(&exchange.body, self.format.read, self.format.no_reply) {
            Ok(raw) => raw,
            Err(Unreadable::ErrorInside(error)) => {
                return Err(self.refusal(&exchange, ErrorBody::of(&error), sent, decide));
            }
            Err(Unreadable::Failed(class, what)) => {
                return Err(self.error(class, status, what));
            }
        };
        let error = match (&raw.error, &raw.stop) {
            (Some(error), _) => Some(self.refusal(&exchange, ErrorBody::of(error), sent, decide)),
            (None, Stop::Failed(what)) => Some(self.error(ErrorClass::Transient, status, what)),
            (None, _) => None,
        };
        let model = raw.model.unwrap_or_else(|| self.spec.model().to_owned());
        let is_marked = raw.simulated || model.starts_with(SIMULATED_PREFIX);
        let entry = self.spec.entry();
        let mut stop = raw.stop;
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

    /// Remembers that a field is refused; a field that can't be spared, or not any further, is a rejection.
    fn narrow(&self, sent: Shape, field: Field) -> ErrorClass {
        // An entry that fixes how the reply is asked for has said that it wants no other way.
        let fixed = field == Field::Format && self.spec.entry().structured.is_some();
        match sent.without(field, self.format.ladder) {
            Some(narrower) if !fixed => {
                self.learned.narrow(&self.spec, narrower, self.clock.now());
                ErrorClass::Capability
            }
            Some(_) | None => ErrorClass::Rejected,
        }
    }
}

/// The class of a refusal from which nothing is learned: a chunk of thousands of calls would narrow the requests of each of them.
/// `unclear`: the class where it may be meant for every request.
fn unlearned(unclear: ErrorClass) -> impl FnOnce(Meaning) -> ErrorClass {
    move |meaning| match meaning {
        Meaning::Class(class) => class,
        Meaning::Field(_) => ErrorClass::Rejected,
        Meaning::Unclear => unclear,
    }
}

fn unusable(message: &str) -> HttpFailure {
    let message = format!("can't be asked: {message}");
    HttpFailure::new(ErrorClass::Misconfigured, None, message)
}

#[cfg(test)]
mod tests;
