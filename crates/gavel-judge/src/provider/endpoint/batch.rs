//! The batch endpoint of one entry and model.
//!
//! It asks once, waits for no gate and keeps nothing: a chunk's text, which may be many MB, goes out as it was built.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Endpoint, HttpFailure, unusable};
use crate::JudgeError;
use crate::error::ErrorClass;
use crate::provider::batch::{Added, Chunk, ChunkLookup, ChunkSize, Line, Progress, Uploaded};
use crate::provider::call::{CallRequest, ProviderReply};
use crate::provider::http::{Exchange, read_whole};
use crate::provider::meaning::Meaning;
use gavel_outbound::percent_encoded;

/// How long a question about a chunk may take.
const LOOK: Duration = Duration::from_secs(60);
/// How long it may take until a chunk of many MB is there and taken.
const HAND_OVER: Duration = Duration::from_secs(15 * 60);

/// How one kind of provider words its batch endpoint. Like a call, each method asks once. An error is about the chunk, never
/// about one of its calls.
#[async_trait]
pub(crate) trait BatchApi: Send + Sync {
    fn most(&self) -> ChunkSize;

    fn open(&self, chunk: &mut Chunk);

    /// Adds one call, whose body is JSON without line breaks.
    fn add(&self, chunk: &mut Chunk, id: Uuid, body: &[u8]);

    /// Ends the text, and sends it where the provider takes it beforehand; nothing is answered or billed yet.
    async fn upload(&self, endpoint: &Endpoint, chunk: Chunk) -> Result<Uploaded, JudgeError>;

    /// Hands the chunk over; the provider's name for it.
    async fn submit(&self, endpoint: &Endpoint, chunk: Uploaded) -> Result<String, JudgeError>;

    /// Looks for a chunk by its tag.
    async fn find(&self, endpoint: &Endpoint, tag: Uuid) -> Result<ChunkLookup, JudgeError>;

    /// How far a chunk is.
    async fn look(&self, endpoint: &Endpoint, batch: &str) -> Result<Progress, JudgeError>;

    /// The addresses of the answers, each JSON by lines.
    async fn results(&self, endpoint: &Endpoint, batch: &str) -> Result<Vec<String>, JudgeError>;

    /// Reads one line of them; `None` for what isn't one.
    fn line(&self, text: &[u8]) -> Option<Line>;

    /// Asks to answer no more. What was answered can be collected once the chunk has ended.
    async fn cancel(&self, endpoint: &Endpoint, batch: &str) -> Result<(), JudgeError>;
}

/// What a [`BatchApi`] sends and reads: by the entry's address, headers and key.
impl Endpoint {
    /// The address of a path below the entry's.
    pub(in crate::provider) fn address(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        format!("{}/{path}", self.spec.entry().base_url)
    }

    /// A provider's name for something, as one segment of a path.
    pub(in crate::provider) fn segment(name: &str) -> String {
        percent_encoded(name)
    }

    /// Whether an address is at the entry's own server, so that the key may go there.
    pub(in crate::provider) fn is_ours(&self, address: &str) -> bool {
        let origin = |address: &str| reqwest::Url::parse(address).map(|url| url.origin());
        match (origin(address), origin(&self.spec.entry().base_url)) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    pub(in crate::provider) async fn get<T: DeserializeOwned>(
        &self,
        address: &str,
    ) -> Result<T, JudgeError> {
        let request = self.to(address, |client, url| client.get(url))?;
        self.json(request, LOOK).await
    }

    /// Sends content of a type to an address and reads the JSON that comes back.
    pub(in crate::provider) async fn post<T: DeserializeOwned>(
        &self,
        address: &str,
        content_type: &str,
        content: Vec<u8>,
    ) -> Result<T, JudgeError> {
        let request = self.to(address, |client, url| {
            let request = client.post(url).header("content-type", content_type);
            request.body(content)
        })?;
        self.json(request, HAND_OVER).await
    }

    pub(in crate::provider) fn batch_error(&self, class: ErrorClass, words: &str) -> JudgeError {
        self.error(class, None, words, None)
    }

    /// The answer at an address, to be read in pieces.
    pub(super) async fn stream(&self, address: &str) -> Result<reqwest::Response, JudgeError> {
        let request = self.to(address, |client, url| client.get(url))?;
        let head = self.client.head(request, LOOK).await;
        let response = head.map_err(|broken| self.broken(&broken))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let exchange = read_whole(response).await;
        let exchange = exchange.map_err(|broken| self.broken(&broken))?;
        Err(self.unlearned_refusal(&exchange, ErrorClass::Misconfigured))
    }

    /// What one call came to, of the status and the body that its line holds.
    pub(super) fn reply(&self, status: u16, body: &[u8]) -> Result<ProviderReply, JudgeError> {
        let exchange = Exchange {
            status,
            headers: reqwest::header::HeaderMap::new(),
            body: body.to_vec(),
        };
        // Other lines of the chunk have answers: a refusal is one of this line.
        self.read(&exchange, |exchange| {
            self.unlearned_refusal(exchange, ErrorClass::Rejected)
        })
    }

    fn to(
        &self,
        address: &str,
        with: impl FnOnce(&reqwest::Client, reqwest::Url) -> RequestBuilder,
    ) -> Result<reqwest::Request, JudgeError> {
        let built = || -> Result<_, HttpFailure> {
            let url = reqwest::Url::parse(address)
                .map_err(|error| unusable(&format!("the address can't be used: {error}")))?;
            self.with_headers(with(self.client.inner()?, url))
        };
        built().map_err(|broken| self.broken(&broken))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        request: reqwest::Request,
        limit: Duration,
    ) -> Result<T, JudgeError> {
        let exchange = self.client.exchange(request, limit).await;
        let exchange = exchange.map_err(|broken| self.broken(&broken))?;
        if !(200..300).contains(&exchange.status) {
            return Err(self.unlearned_refusal(&exchange, ErrorClass::Misconfigured));
        }
        serde_json::from_slice(&exchange.body).map_err(|_| {
            // A gateway's page in the place of an answer: nothing is known of the chunk, so that it is asked for again.
            let words = "answered with something that no batch endpoint says";
            self.batch_error(ErrorClass::Transient, words)
        })
    }

    /// Returns a refusal from which nothing is learned, because a chunk of thousands of calls would narrow the requests of each of
    /// them; `unclear`: the class where it may be meant for every request.
    fn unlearned_refusal(&self, exchange: &Exchange, unclear: ErrorClass) -> JudgeError {
        self.refusal(exchange, self.shape(), |meaning| match meaning {
            Meaning::Class(class) => class,
            Meaning::Field(_) => ErrorClass::Rejected,
            Meaning::Unclear => unclear,
        })
    }
}

impl Endpoint {
    /// Its batch endpoint, where the entry gives a price for it and the provider has one.
    pub(crate) fn batches(&self) -> Option<&'static dyn BatchApi> {
        let priced = self.spec.entry().batch_price_factor;
        priced.and(self.format.batches)
    }

    /// An empty chunk. `tag` is its name among ours.
    pub(crate) fn chunk(api: &dyn BatchApi, tag: Uuid, most: ChunkSize) -> Chunk {
        let theirs = api.most();
        let mut chunk = Chunk {
            tag,
            body: Vec::new(),
            calls: 0,
            most: ChunkSize {
                calls: most.calls.min(theirs.calls),
                bytes: most.bytes.min(theirs.bytes),
            },
        };
        api.open(&mut chunk);
        chunk
    }

    /// Adds a call under an id of its own; `Full` leaves the chunk as it was.
    pub(crate) fn add(
        &self,
        api: &dyn BatchApi,
        chunk: &mut Chunk,
        id: Uuid,
        request: &CallRequest,
    ) -> Result<Added, JudgeError> {
        let body = (self.format.body)(&self.spec, request, self.shape());
        let body = body.map_err(|error| self.broken(&unusable(&error.to_string())))?;
        let before = chunk.body.len();
        api.add(chunk, id, &body);
        // One that is too large by itself goes alone: the provider says what it thinks of it.
        let full = chunk.calls >= chunk.most.calls || chunk.body.len() > chunk.most.bytes;
        if full && chunk.calls > 0 {
            chunk.body.truncate(before);
            return Ok(Added::Full);
        }
        chunk.calls += 1;
        Ok(Added::In)
    }
}
