//! One entry and model over HTTP: where and how a call goes out, what its end means, and that no error shows a secret. A
//! [`WireFormat`] says the rest.

pub(super) mod batch;
pub(super) mod results;

use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;

pub(crate) use self::batch::BatchApi;
use super::call::{CallRequest, Called, ProviderReply, Stop};
use super::error_body::ErrorBody;
use super::format::WireFormat;
use super::http::{Client, Exchange, HttpFailure};
use super::learned::Learned;
use super::meaning::{Meaning, meaning};
use super::reply::Unreadable;
use super::shape::{Field, Shape};
use crate::JudgeError;
use crate::entries::spec::{Auth, JudgeSpec};
use crate::error::ErrorClass;
use crate::gate::RateReport;
use gavel_clock::Clock;
use gavel_outbound::percent_encoded;

/// A server's own words are kept up to this many characters.
const LONGEST_WORDS: usize = 500;
pub(super) const JSON: &str = "application/json";
/// Stands for the model in an entry's path.
const MODEL: &str = "{model}";

pub(crate) struct Endpoint {
    pub(super) spec: JudgeSpec,
    format: &'static WireFormat,
    /// Read once; or what is wrong with it, for the first call.
    url: Result<reqwest::Url, String>,
    client: Client,
    learned: Arc<Learned>,
    clock: Arc<dyn Clock>,
}

impl Endpoint {
    pub(super) fn new(
        spec: &JudgeSpec,
        client: Client,
        learned: Arc<Learned>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            url: url(spec),
            spec: spec.clone(),
            format: spec.entry().format,
            client,
            learned,
            clock,
        }
    }

    /// Calls once, and once more with a harmless request where the error doesn't tell whether every request is refused. An error
    /// of class capability means that the next call leaves out what was refused.
    pub(crate) async fn call(&self, request: &CallRequest) -> Called {
        let shape = self.shape();
        let exchange = self.send(request, shape).await;
        let rates = match (&exchange, &self.format.rate_headers) {
            (Ok(exchange), Some(limits)) => limits.read(&exchange.headers, self.clock.now()),
            (Ok(_), None) | (Err(_), _) => RateReport::default(),
        };
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
        Called { ended, rates, late }
    }

    /// A reply, or the error in its place; `decide` makes the meaning of a refusal a class.
    fn ended(
        &self,
        exchange: Result<Exchange, HttpFailure>,
        sent: Shape,
        decide: impl FnOnce(Meaning) -> ErrorClass,
    ) -> Result<ProviderReply, JudgeError> {
        let exchange = exchange.map_err(|broken| self.broken(&broken))?;
        self.read(&exchange, |exchange| self.refusal(exchange, sent, decide))
    }

    async fn send(&self, request: &CallRequest, shape: Shape) -> Result<Exchange, HttpFailure> {
        let body = (self.format.body)(&self.spec, request, shape);
        let body = body.map_err(|error| unusable(&error.to_string()))?;
        let http = self.request(body)?;
        self.client.exchange(http, request.timeout).await
    }

    /// Makes a refusal one of the judge if a harmless request is refused, too; else it is one of its own request alone: a firewall
    /// in front of the server may object to a prompt.
    async fn tell_scope(&self, error: &mut JudgeError) {
        let shape = self.shape();
        let exchange = self.send(&CallRequest::harmless(), shape).await;
        let ended = self.ended(exchange, shape, |meaning| match meaning {
            Meaning::Class(class) => class,
            Meaning::Field(_) => ErrorClass::Rejected,
            Meaning::Unclear => ErrorClass::Misconfigured,
        });
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

    fn request(&self, body: Vec<u8>) -> Result<reqwest::Request, HttpFailure> {
        let url = self.url.as_ref().map_err(|fault| unusable(fault))?;
        let request = self.client.inner()?.post(url.clone());
        // Wrapped, a body is gone once it is sent. Else a copy is kept for redirects, which aren't followed.
        let body = reqwest::Body::wrap(reqwest::Body::from(body));
        let request = request.header("content-type", JSON).body(body);
        self.with_headers(request)
    }

    /// A request with the headers of format and entry, and the key.
    fn with_headers(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Request, HttpFailure> {
        let entry = self.spec.entry();
        let mut request = request.header("accept", JSON);
        for (name, value) in entry.format.family.headers {
            let own = entry.headers.keys();
            if !own.into_iter().any(|own| own.eq_ignore_ascii_case(name)) {
                request = request.header(*name, *value);
            }
        }
        for (name, value) in &entry.headers {
            request = request.header(name.as_str(), value.expose_secret());
        }
        if let (Auth::Key, Some(key)) = (entry.auth, &entry.key) {
            let value = format!("{}{}", entry.auth_prefix, key.expose_secret());
            let mut value = reqwest::header::HeaderValue::try_from(value)
                .map_err(|_| unusable("the key or its prefix can't be sent as a header"))?;
            value.set_sensitive(true);
            request = request.header(entry.auth_header.as_str(), value);
        }
        request
            .build()
            .map_err(|error| unusable(&error.without_url().to_string()))
    }

    /// Makes a class and a server's words into an error that names the judge and shows no secret.
    fn error(
        &self,
        class: ErrorClass,
        status: Option<u16>,
        words: &str,
        retry_after: Option<Duration>,
    ) -> JudgeError {
        let words = self.spec.entry().redact(words);
        // They end up in logs and on terminals, where control characters do things.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let words: String = words.chars().map(plain).take(LONGEST_WORDS).collect();
        JudgeError {
            status,
            retry_after,
            ..JudgeError::new(class, format!("judge {:?} {words}", self.spec.name()))
        }
    }

    fn broken(&self, broken: &HttpFailure) -> JudgeError {
        self.error(broken.class, broken.status, &broken.message, None)
    }

    /// Where the key comes from, as far as its entry says so.
    fn key_remedy(&self) -> String {
        let hint = self.spec.entry().hint.as_deref();
        hint.map_or_else(String::new, |hint| format!("; its key is refused: {hint}"))
    }

    /// Returns the error of a refused request of shape `sent`; `decide` makes its meaning a class.
    fn refusal(
        &self,
        exchange: &Exchange,
        sent: Shape,
        decide: impl FnOnce(Meaning) -> ErrorClass,
    ) -> JudgeError {
        let body = ErrorBody::read(&exchange.body);
        let class = decide(meaning(self.format.names, exchange.status, &body, sent));
        let now = self.clock.now();
        let retry_after = self.format.wait(class, &exchange.headers, &body, now);
        let words = match exchange.status {
            // An error in a body of status 200.
            200..=299 => format!("answered with an error: {}", body.words()),
            300..=399 => format!(
                "answered {}, a redirect, which is not followed; correct base_url",
                exchange.status
            ),
            401 => format!("answered 401: {}{}", body.words(), self.key_remedy()),
            status => format!("answered {status}: {}", body.words()),
        };
        JudgeError {
            raw_reply: body.failed_generation,
            ..self.error(class, Some(exchange.status), &words, retry_after)
        }
    }

    /// A reply, or what came in its place, which `refused` words.
    fn read(
        &self,
        exchange: &Exchange,
        refused: impl FnOnce(&Exchange) -> JudgeError,
    ) -> Result<ProviderReply, JudgeError> {
        if !(200..300).contains(&exchange.status) {
            return Err(refused(exchange));
        }
        let status = Some(exchange.status);
        let inside = |body: Vec<u8>| {
            refused(&Exchange {
                status: exchange.status,
                headers: exchange.headers.clone(),
                body,
            })
        };
        match (self.format.read)(&exchange.body) {
            Ok(mut reply) => {
                let error = match (reply.error.take(), &reply.stop) {
                    (Some(body), _) => Some(inside(body)),
                    (None, Stop::Failed(what)) => {
                        Some(self.error(ErrorClass::Transient, status, what, None))
                    }
                    (None, _) => None,
                };
                let mut reply = reply.believed(self.spec.model(), exchange.status, error);
                reply.simulated |= self.spec.simulated();
                Ok(reply)
            }
            Err(Unreadable::ErrorInside(body)) => Err(inside(body)),
            Err(Unreadable::BrokenOff) => Err(self.error(
                ErrorClass::Transient,
                status,
                "broke off its answer in the middle of the JSON",
                None,
            )),
            Err(Unreadable::NoJson(what)) => {
                Err(self.error(ErrorClass::Transient, status, what, None))
            }
            Err(Unreadable::Other(what)) => {
                Err(self.error(ErrorClass::Rejected, status, what, None))
            }
        }
    }

    /// Remembers that a field is refused; a field that can't be spared, or not any further, is a rejection.
    fn narrow(&self, sent: Shape, field: Field) -> ErrorClass {
        // An entry that fixes how the reply is asked for has said that it wants no other way.
        let fixed = field == Field::Format && self.spec.entry().structured.is_some();
        match sent.without(field, self.format.family.ladder) {
            Some(narrower) if !fixed => {
                self.learned.narrow(&self.spec, narrower, self.clock.now());
                ErrorClass::Capability
            }
            Some(_) | None => ErrorClass::Rejected,
        }
    }
}

fn url(spec: &JudgeSpec) -> Result<reqwest::Url, String> {
    let entry = spec.entry();
    let path = entry.path.trim_start_matches('/');
    // A model's name may come from outside: it stays one part of the path, whatever it holds.
    let path = path.replace(MODEL, &percent_encoded(spec.model()));
    reqwest::Url::parse(&format!("{}/{path}", entry.base_url))
        .map_err(|error| format!("the address can't be used: {error}"))
}

fn unusable(message: &str) -> HttpFailure {
    HttpFailure {
        class: ErrorClass::Misconfigured,
        status: None,
        message: format!("can't be asked: {message}"),
        late: false,
        unsent: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::entries::Providers;

    fn address(family: &str, base_url: &str, model: &str) -> String {
        let entry = json!({ "j": {
            "type": family, "base_url": base_url, "model": "m", "models": ["*"], "auth": "none",
        }});
        let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
        let spec = providers.spec(&format!("j:{model}")).unwrap();
        url(&spec).unwrap().to_string()
    }

    #[test]
    fn each_family_has_its_path_and_a_models_name_stays_one_part_of_it() {
        let table = [
            (
                "openai",
                "https://h/v1/",
                "m",
                "https://h/v1/chat/completions",
            ),
            ("anthropic", "https://h", "m", "https://h/v1/messages"),
            (
                "gemini",
                "https://h/",
                "gemini-2.5-flash",
                "https://h/v1beta/models/gemini-2.5-flash:generateContent",
            ),
            (
                "gemini",
                "https://h",
                "../a?key=b#c",
                "https://h/v1beta/models/..%2Fa%3Fkey%3Db%23c:generateContent",
            ),
        ];
        for (family, base_url, model, expected) in table {
            assert_eq!(address(family, base_url, model), expected);
        }
    }
}
