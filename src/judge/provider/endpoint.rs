//! One entry and model over HTTP, in the words of its family.
//!
//! What the families have in common is here: where and how a call goes out, what its end means, and that no error shows a
//! secret. A [`Dialect`] says the rest: bodies, replies and errors as one family words them.

mod batch;
pub(super) mod results;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use secrecy::ExposeSecret as _;

pub(super) use self::batch::{BatchDialect, Content, Wire};
pub(super) use self::results::{Line, LineSays};
use super::http::{Client, Exchange, NoExchange};
use super::refusal::{self, Said, Verdict};
use super::reply::Unreadable;
use super::shape::{Field, Learned, Rung, Shape};
use super::{CallRequest, Called, Provider, ProviderReply};
use crate::clock::Clock;
use crate::judge::JudgeError;
use crate::judge::error::ErrorClass;
use crate::judge::gate::RateReport;
use crate::judge::providers::{Auth, JudgeSpec, Structured};
use crate::outbound::percent_encoded;

/// A server's own words are kept up to this many characters.
const LONGEST_WORDS: usize = 500;
/// Stands for the model in an entry's path.
const MODEL: &str = "{model}";

/// How one family words calls and their ends.
pub(super) trait Dialect: Send + Sync {
    /// The ways to ask for the reply's shape, the strictest first.
    fn ladder(&self) -> &'static [Rung];

    /// Headers that every call has, unless the entry sets them.
    fn headers(&self) -> &'static [(&'static str, &'static str)];

    /// The request's body.
    fn body(
        &self,
        spec: &JudgeSpec,
        request: &CallRequest,
        shape: Shape,
    ) -> Result<Vec<u8>, serde_json::Error>;

    /// Reads a body of status 2xx.
    fn read(&self, body: &[u8], status: u16, spec: &JudgeSpec)
    -> Result<ProviderReply, Unreadable>;

    /// What errors call a field that a request of shape `sent` has; empty where the family doesn't know it.
    fn names(&self, field: Field, sent: Shape) -> &'static [&'static str];

    /// The status that an error in a body of status 200 stands for.
    fn inner_status(&self, said: &Said) -> Option<u16>;

    /// Whether a 429 says that waiting won't help.
    fn used_up(&self, said: &Said) -> bool;

    /// The class of a 400 or 422 that names no field of ours, if it is known by its words.
    fn bad_request(&self, said: &Said) -> Option<ErrorClass>;

    /// How long a refusal of `class` asks to wait.
    fn wait(
        &self,
        class: ErrorClass,
        headers: &HeaderMap,
        said: &Said,
        now: DateTime<Utc>,
    ) -> Option<Duration>;

    /// What a reply's headers say of the limits, whatever its status.
    fn rates(&self, headers: &HeaderMap, now: DateTime<Utc>) -> RateReport;

    /// The words of its batch endpoint; `None` where the family has none.
    fn batches(&self) -> Option<&'static dyn BatchDialect>;
}

/// One entry and model.
pub(in crate::judge) struct Endpoint {
    dialect: &'static dyn Dialect,
    spec: JudgeSpec,
    /// Read once; or what is wrong with it, told at the first call.
    url: Result<reqwest::Url, String>,
    client: Client,
    learned: Arc<Learned>,
    clock: Arc<dyn Clock>,
}

impl Endpoint {
    pub(super) fn new(
        dialect: &'static dyn Dialect,
        spec: &JudgeSpec,
        client: Client,
        learned: Arc<Learned>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            dialect,
            url: url(spec),
            spec: spec.clone(),
            client,
            learned,
            clock,
        }
    }

    fn request(&self, body: Vec<u8>) -> Result<reqwest::Request, NoExchange> {
        let url = self.url.as_ref().map_err(|fault| unusable(fault))?;
        let request = self.client.inner()?.post(url.clone());
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json");
        self.signed(request.body(body))
    }

    /// A request with the headers of family and entry, and the key.
    fn signed(&self, mut request: reqwest::RequestBuilder) -> Result<reqwest::Request, NoExchange> {
        let entry = self.spec.entry();
        for (name, value) in self.dialect.headers() {
            let own = entry.headers.keys();
            if !own.into_iter().any(|own| own.eq_ignore_ascii_case(name)) {
                request = request.header(*name, *value);
            }
        }
        for (name, value) in &entry.headers {
            request = request.header(name.as_str(), value.expose_secret());
        }
        if let (Auth::Bearer, Some(key)) = (entry.auth, &entry.key) {
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
            class,
            message: format!("judge {:?} {words}", self.spec.name()),
            status,
            retry_after,
            raw_reply: None,
            unasked: None,
        }
    }

    fn refused(&self, exchange: &Exchange, sent: Shape) -> JudgeError {
        self.refusal(exchange, sent, |field| self.narrow(sent, field))
    }

    /// What a refusal means; `refuses` says what follows where the server doesn't want a field of a request of shape `sent`.
    fn refusal(
        &self,
        exchange: &Exchange,
        sent: Shape,
        refuses: impl FnOnce(Field) -> ErrorClass,
    ) -> JudgeError {
        let text = String::from_utf8_lossy(&exchange.body);
        let said = Said::read(&text);
        let class = match refusal::classify(self.dialect, exchange.status, &said, sent) {
            Verdict::Capability(field) => refuses(field),
            Verdict::Class(class) => class,
        };
        let now = self.clock.now();
        let retry_after = self.dialect.wait(class, &exchange.headers, &said, now);
        let words = match exchange.status {
            // An error in a body of status 200.
            200..=299 => format!("answered with an error: {}", said.words()),
            300..=399 => format!(
                "answered {}, a redirect, which is not followed; correct base_url",
                exchange.status
            ),
            status => format!("answered {status}: {}", said.words()),
        };
        self.error(class, Some(exchange.status), &words, retry_after)
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
        match self
            .dialect
            .read(&exchange.body, exchange.status, &self.spec)
        {
            Ok(reply) => Ok(reply),
            Err(Unreadable::ErrorInside) => Err(refused(exchange)),
            Err(Unreadable::BrokenOff) => Err(self.error(
                ErrorClass::Transient,
                status,
                "broke off its answer in the middle of the JSON",
                None,
            )),
            Err(Unreadable::Other(what)) => {
                Err(self.error(ErrorClass::Rejected, status, what, None))
            }
        }
    }

    /// Remembers that a field is refused; a field that can't be spared, or not any further, is a rejection.
    fn narrow(&self, sent: Shape, field: Field) -> ErrorClass {
        // An entry that fixes how the reply is asked for has said that it wants no other way.
        let fixed = field == Field::Format && self.spec.entry().structured != Structured::Auto;
        match sent.without(field, self.dialect.ladder()) {
            Some(narrower) if !fixed => {
                self.learned.narrow(&self.spec, narrower, self.clock.now());
                ErrorClass::Capability
            }
            Some(_) | None => ErrorClass::Rejected,
        }
    }
}

#[async_trait]
impl Provider for Endpoint {
    async fn call(&self, request: &CallRequest) -> Called {
        let shape = self.learned.shape(&self.spec, self.clock.now());
        let built = self
            .dialect
            .body(&self.spec, request, shape)
            .map_err(|error| unusable(&error.to_string()))
            .and_then(|body| self.request(body));
        let exchange = match built {
            Ok(http) => self.client.exchange(http, request.timeout).await,
            Err(unusable) => Err(unusable),
        };
        match exchange {
            Ok(exchange) => Called {
                ended: self.read(&exchange, |exchange| self.refused(exchange, shape)),
                rates: self.dialect.rates(&exchange.headers, self.clock.now()),
            },
            Err(broken) => Called {
                ended: Err(self.error(broken.class, broken.status, &broken.message, None)),
                rates: RateReport::default(),
            },
        }
    }

    fn batches(&self) -> Option<&Endpoint> {
        self.batch_words().map(|_| self)
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

fn unusable(message: &str) -> NoExchange {
    NoExchange {
        class: ErrorClass::Misconfigured,
        status: None,
        message: format!("can't be asked: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::providers::Providers;

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
