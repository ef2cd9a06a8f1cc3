//! The batch endpoint of one entry and model: what the families have in common, and what a family words itself.
//!
//! It asks once, waits for no gate and keeps nothing: a chunk's text, which may be many MB, goes out as it was built.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::results::{Answers, Line};
use super::{Endpoint, NoExchange, unusable};
use crate::judge::JudgeError;
use crate::judge::error::ErrorClass;
use crate::judge::provider::http::{Exchange, read_whole};
use crate::judge::provider::{
    Added, CallRequest, Chunk, ChunkSize, Found, Progress, ProviderReply, Uploaded,
};
use crate::judge::providers::JudgeSpec;
use crate::outbound::percent_encoded;

/// How long a look may take.
const LOOK: Duration = Duration::from_secs(60);
/// How long it may take until a chunk of many MB is there and taken.
const HAND_OVER: Duration = Duration::from_secs(15 * 60);

/// How one family words its batch endpoint.
#[async_trait]
pub(in crate::judge::provider) trait BatchDialect: Send + Sync {
    /// The most that one chunk may hold.
    fn most(&self) -> ChunkSize;

    /// Begins a chunk's text.
    fn open(&self, chunk: &mut Chunk);

    /// Adds one call, whose body is JSON without line breaks.
    fn add(&self, chunk: &mut Chunk, id: Uuid, body: &[u8]);

    /// Ends the text, and sends it where the family takes it beforehand.
    async fn upload(&self, wire: &Wire<'_>, chunk: Chunk) -> Result<Uploaded, JudgeError>;

    /// Hands the chunk over; the provider's name for it.
    async fn submit(&self, wire: &Wire<'_>, chunk: Uploaded) -> Result<String, JudgeError>;

    /// Looks for a chunk by its tag.
    async fn find(&self, wire: &Wire<'_>, tag: Uuid) -> Result<Found, JudgeError>;

    /// How far a chunk is.
    async fn look(&self, wire: &Wire<'_>, batch: &str) -> Result<Progress, JudgeError>;

    /// The addresses of the answers, each JSON by lines.
    async fn results(&self, wire: &Wire<'_>, batch: &str) -> Result<Vec<String>, JudgeError>;

    /// Reads one line of them; `None` for what isn't one.
    fn line(&self, text: &[u8]) -> Option<Line>;

    /// Asks to answer no more.
    async fn cancel(&self, wire: &Wire<'_>, batch: &str) -> Result<(), JudgeError>;
}

/// What a family's words travel over: the entry's address, headers and key.
pub(in crate::judge::provider) struct Wire<'a>(&'a Endpoint);

/// What a request holds.
pub(in crate::judge::provider) struct Content {
    pub(in crate::judge::provider) kind: String,
    pub(in crate::judge::provider) body: Vec<u8>,
}

impl Content {
    /// JSON.
    pub(in crate::judge::provider) fn json(value: &serde_json::Value) -> Self {
        Self {
            kind: "application/json".to_owned(),
            body: value.to_string().into_bytes(),
        }
    }
}

impl<'a> Wire<'a> {
    pub(in crate::judge::provider) fn spec(&self) -> &'a JudgeSpec {
        &self.0.spec
    }

    /// The address of a path below the entry's.
    pub(in crate::judge::provider) fn address(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        format!("{}/{path}", self.spec().entry().base_url)
    }

    /// A provider's name for something, as one segment of a path.
    pub(in crate::judge::provider) fn segment(name: &str) -> String {
        percent_encoded(name)
    }

    /// Whether an address is at the entry's own server, so that the key may go there.
    pub(in crate::judge::provider) fn is_ours(&self, address: &str) -> bool {
        let origin = |address: &str| reqwest::Url::parse(address).map(|url| url.origin());
        match (origin(address), origin(&self.spec().entry().base_url)) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Reads JSON at an address.
    pub(in crate::judge::provider) async fn get<T: DeserializeOwned>(
        &self,
        address: &str,
    ) -> Result<T, JudgeError> {
        let request = self.to(address, |client, url| client.get(url))?;
        self.json(request, LOOK).await
    }

    /// Sends content to an address and reads the JSON that comes back.
    pub(in crate::judge::provider) async fn post<T: DeserializeOwned>(
        &self,
        address: &str,
        content: Content,
    ) -> Result<T, JudgeError> {
        let request = self.to(address, |client, url| {
            let request = client.post(url).header("content-type", content.kind);
            request.body(content.body)
        })?;
        self.json(request, HAND_OVER).await
    }

    /// The answer at an address, to be read in pieces.
    pub(super) async fn stream(&self, address: &str) -> Result<reqwest::Response, JudgeError> {
        let request = self.to(address, |client, url| client.get(url))?;
        let head = self.0.client.head(request, LOOK).await;
        let response = head.map_err(|broken| self.broken(&broken))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let exchange = read_whole(response)
            .await
            .map_err(|broken| self.broken(&broken))?;
        Err(self.0.refused_as_it_is(&exchange))
    }

    /// An error in the entry's name.
    pub(in crate::judge::provider) fn error(&self, class: ErrorClass, words: &str) -> JudgeError {
        self.0.error(class, None, words, None)
    }

    pub(super) fn broken(&self, broken: &NoExchange) -> JudgeError {
        self.0
            .error(broken.class, broken.status, &broken.message, None)
    }

    /// What one call came to, of the status and the body that its line holds.
    pub(super) fn reply(&self, status: u16, body: &[u8]) -> Result<ProviderReply, JudgeError> {
        let exchange = Exchange {
            status,
            headers: reqwest::header::HeaderMap::new(),
            body: body.to_vec(),
        };
        self.0
            .read(&exchange, |exchange| self.0.refused_as_it_is(exchange))
    }

    fn to(
        &self,
        address: &str,
        with: impl FnOnce(&reqwest::Client, reqwest::Url) -> RequestBuilder,
    ) -> Result<reqwest::Request, JudgeError> {
        let built = || {
            let url = reqwest::Url::parse(address)
                .map_err(|error| unusable(&format!("the address can't be used: {error}")))?;
            let request = with(self.0.client.inner()?, url);
            self.0.signed(request.header("accept", "application/json"))
        };
        built().map_err(|broken| self.broken(&broken))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        request: reqwest::Request,
        limit: Duration,
    ) -> Result<T, JudgeError> {
        let exchange = self.0.client.exchange(request, limit).await;
        let exchange = exchange.map_err(|broken| self.broken(&broken))?;
        if !(200..300).contains(&exchange.status) {
            return Err(self.0.refused_as_it_is(&exchange));
        }
        serde_json::from_slice(&exchange.body).map_err(|_| {
            // A gateway's page in the place of an answer: nothing is known of the chunk, so that it is asked for again.
            self.error(
                ErrorClass::Transient,
                "answered with something that no batch endpoint says",
            )
        })
    }
}

impl Endpoint {
    /// The words of its batch endpoint, where the entry has one.
    pub(super) fn batch_words(&self) -> Option<&'static dyn BatchDialect> {
        self.spec
            .entry()
            .batch_price_factor
            .and_then(|_| self.dialect.batches())
    }

    /// A refusal from which nothing is learned: a chunk of thousands of calls would narrow what is sent with each of them.
    fn refused_as_it_is(&self, exchange: &Exchange) -> JudgeError {
        let shape = self.learned.shape(&self.spec, self.clock.now());
        self.refusal(exchange, shape, |_| ErrorClass::Rejected)
    }

    fn words(&self) -> Result<&'static dyn BatchDialect, JudgeError> {
        self.batch_words().ok_or_else(|| {
            let words = "has no batch endpoint: batch_price_factor in llm_providers.yaml names one";
            self.error(ErrorClass::Misconfigured, None, words, None)
        })
    }
}

/// Like a call, each asks once. An error is about the chunk, never about one of its calls.
impl Endpoint {
    /// An empty chunk. `tag` is its name among ours.
    pub(in crate::judge) fn chunk(&self, tag: Uuid, most: ChunkSize) -> Chunk {
        let mut chunk = Chunk {
            tag,
            body: Vec::new(),
            calls: 0,
            most,
        };
        if let Some(words) = self.batch_words() {
            let theirs = words.most();
            chunk.most.calls = most.calls.min(theirs.calls);
            chunk.most.bytes = most.bytes.min(theirs.bytes);
            words.open(&mut chunk);
        }
        chunk
    }

    /// Adds a call under an id of its own; `Full` leaves the chunk as it was.
    pub(in crate::judge) fn add(
        &self,
        chunk: &mut Chunk,
        id: Uuid,
        request: &CallRequest,
    ) -> Result<Added, JudgeError> {
        let words = self.words()?;
        let shape = self.learned.shape(&self.spec, self.clock.now());
        let body = self
            .dialect
            .body(&self.spec, request, shape)
            .map_err(|error| {
                let words = unusable(&error.to_string()).message;
                self.error(ErrorClass::Misconfigured, None, &words, None)
            })?;
        let before = chunk.body.len();
        words.add(chunk, id, &body);
        // One that is too large by itself goes alone: the provider says what it thinks of it.
        let full = chunk.calls >= chunk.most.calls || chunk.body.len() > chunk.most.bytes;
        if full && chunk.calls > 0 {
            chunk.body.truncate(before);
            return Ok(Added::Full);
        }
        chunk.calls += 1;
        Ok(Added::In)
    }

    /// Brings the calls to the provider, as far as it takes them beforehand; nothing is answered or billed yet.
    pub(in crate::judge) async fn upload(&self, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        self.words()?.upload(&Wire(self), chunk).await
    }

    /// Hands the chunk over; the provider's own name for it.
    pub(in crate::judge) async fn submit(&self, chunk: Uploaded) -> Result<String, JudgeError> {
        self.words()?.submit(&Wire(self), chunk).await
    }

    /// Looks for a chunk that may have been handed over.
    pub(in crate::judge) async fn find(&self, tag: Uuid) -> Result<Found, JudgeError> {
        self.words()?.find(&Wire(self), tag).await
    }

    /// How far a chunk is.
    pub(in crate::judge) async fn look(&self, batch: &str) -> Result<Progress, JudgeError> {
        self.words()?.look(&Wire(self), batch).await
    }

    /// The answers of a chunk that has ended, in any order.
    pub(in crate::judge) async fn collect(&self, batch: &str) -> Result<Answers<'_>, JudgeError> {
        let words = self.words()?;
        let addresses = words.results(&Wire(self), batch).await?;
        Ok(Answers::new(Wire(self), words, addresses))
    }

    /// Asks to answer no more. What was answered can be collected once the chunk has ended.
    pub(in crate::judge) async fn cancel(&self, batch: &str) -> Result<(), JudgeError> {
        self.words()?.cancel(&Wire(self), batch).await
    }
}
