//! Chat completions: OpenAI and every compatible server (Azure, vLLM, Ollama, llama.cpp, LiteLLM).
//!
//! The address is used as given; nothing is assumed of a server beyond the wire format, and unknown fields are ignored.

mod classify;
mod headers;
mod reply;
mod request;
mod schema;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::ExposeSecret as _;

use super::http::{Client, Exchange, NoExchange};
use super::{CallRequest, Provider, ProviderReply};
use crate::clock::Clock;
use crate::judge::JudgeError;
use crate::judge::error::ErrorClass;
use crate::judge::providers::{Auth, JudgeSpec, Structured};
use classify::Verdict;
use request::Shape;

/// A server's own words are kept up to this many characters.
const LONGEST_WORDS: usize = 500;

/// One entry and model over chat completions.
pub(in crate::judge) struct OpenAi {
    spec: JudgeSpec,
    /// Read once; or what is wrong with it, told at the first call.
    url: Result<reqwest::Url, String>,
    client: Client,
    learned: Arc<Learned>,
    clock: Arc<dyn Clock>,
}

/// Request fields that servers turned out to refuse, by (base_url, model); kept as long as the process lives.
#[derive(Default)]
pub(in crate::judge) struct Learned {
    shapes: Mutex<BTreeMap<(String, String), Shape>>,
}

impl Learned {
    /// Models of an entry that takes any are named by whoever asks: what is learned of them is bounded.
    const MOST: usize = 1024;

    fn shape(&self, spec: &JudgeSpec) -> Shape {
        let start = Shape::start(spec.entry());
        let shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        shapes
            .get(&Self::key(spec))
            .map_or(start, |learned| learned.and(start))
    }

    fn narrow(&self, spec: &JudgeSpec, narrower: Shape) {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if shapes.len() >= Self::MOST {
            shapes.clear();
        }
        shapes
            .entry(Self::key(spec))
            .and_modify(|shape| *shape = shape.and(narrower))
            .or_insert(narrower);
    }

    fn key(spec: &JudgeSpec) -> (String, String) {
        (spec.entry().base_url.clone(), spec.model().to_owned())
    }
}

impl OpenAi {
    pub(super) fn new(
        spec: &JudgeSpec,
        client: Client,
        learned: Arc<Learned>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let entry = spec.entry();
        Self {
            url: url(&entry.base_url, &entry.path),
            spec: spec.clone(),
            client,
            learned,
            clock,
        }
    }

    fn request(&self, body: Vec<u8>) -> Result<reqwest::Request, NoExchange> {
        let entry = self.spec.entry();
        let url = self.url.as_ref().map_err(|fault| unusable(fault))?;
        let mut request = self
            .client
            .inner()?
            .post(url.clone())
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(body);
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
        }
    }

    fn refused(&self, exchange: &Exchange, sent: Shape) -> JudgeError {
        let text = String::from_utf8_lossy(&exchange.body);
        let said = classify::Said::read(&text);
        let mut verdict = classify::classify(exchange.status, &said, sent);
        if let Verdict::Capability(field) = verdict {
            match sent.without(field) {
                Some(narrower) if self.may_narrow(field) => {
                    self.learned.narrow(&self.spec, narrower)
                }
                _ => verdict = Verdict::Class(ErrorClass::Rejected),
            }
        }
        let class = match verdict {
            Verdict::Capability(_) => ErrorClass::Capability,
            Verdict::Class(class) => class,
        };
        let now = self.clock.now();
        let retry_after = if class == ErrorClass::Exhausted {
            headers::known_reset(&exchange.headers, now)
        } else {
            headers::retry_after(&exchange.headers, now)
        };
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

    /// An entry that fixes how the reply is asked for has said that it wants no other way.
    fn may_narrow(&self, field: request::Field) -> bool {
        field != request::Field::ResponseFormat || self.spec.entry().structured == Structured::Auto
    }
}

fn url(base: &str, path: &str) -> Result<reqwest::Url, String> {
    let address = format!("{base}/{}", path.trim_start_matches('/'));
    reqwest::Url::parse(&address).map_err(|error| format!("the address can't be used: {error}"))
}

#[async_trait]
impl Provider for OpenAi {
    async fn call(&self, request: &CallRequest) -> Result<ProviderReply, JudgeError> {
        let shape = self.learned.shape(&self.spec);
        let built = request::body(&self.spec, request, shape)
            .map_err(|error| unusable(&error.to_string()))
            .and_then(|body| self.request(body));
        let exchange = match built {
            Ok(http) => self.client.exchange(http, request.timeout).await,
            Err(unusable) => Err(unusable),
        }
        .map_err(|broken| self.error(broken.class, broken.status, &broken.message, None))?;
        if !(200..300).contains(&exchange.status) {
            return Err(self.refused(&exchange, shape));
        }
        match reply::read(&exchange.body, exchange.status, &self.spec) {
            Ok(reply) => Ok(reply),
            Err(reply::Unreadable::ErrorInside) => Err(self.refused(&exchange, shape)),
            Err(reply::Unreadable::BrokenOff) => Err(self.error(
                ErrorClass::Transient,
                Some(exchange.status),
                "broke off its answer in the middle of the JSON",
                None,
            )),
            Err(reply::Unreadable::Other(what)) => {
                Err(self.error(ErrorClass::Rejected, Some(exchange.status), what, None))
            }
        }
    }
}

fn unusable(message: &str) -> NoExchange {
    NoExchange {
        class: ErrorClass::Misconfigured,
        status: None,
        message: format!("can't be asked: {message}"),
    }
}
