//! The batch endpoint of one entry and model, in the forms of all providers. Sends each request once, without retries. An error is about
//! a chunk, not about one of its calls.

use futures::FutureExt as _;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Endpoint, JSON, unlearned};
use crate::JudgeError;
use crate::error::ErrorClass;
use crate::provider::batch::{Added, BatchForm, Chunk, ChunkLookup, LineSays, Progress, Uploaded};
use crate::provider::call::CallRequest;
use crate::provider::error_body::ErrorBody;
use crate::provider::http::{Exchange, read_body, within};
use gavel_outbound::percent_encoded;

const LOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of requests with content: a chunk may have many MB.
const SEND_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Key of our chunk id in a batch's metadata.
const TAG: &str = "gavel";
/// Error code of a batch that exceeds the account's limit of waiting tokens.
const NO_ROOM: &str = "token_limit_exceeded";
/// Limit of the pages of 100 batches, newest first, in which a chunk is searched.
const MAX_PAGES: usize = 10;

/// A batch, or only the id of a file.
#[derive(Deserialize)]
struct Batch {
    id: String,
    #[serde(alias = "processing_status")]
    status: Option<String>,
    request_counts: Option<BTreeMap<String, Value>>,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    results_url: Option<String>,
    errors: Option<Value>,
    metadata: Option<Value>,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Batch>,
    has_more: Option<bool>,
}

/// A line. OpenAI's has `response` or `error`, Anthropic's `result`.
#[derive(Deserialize)]
struct Answer {
    custom_id: Uuid,
    response: Option<Response>,
    error: Option<Value>,
    result: Option<Outcome>,
}

#[derive(Deserialize)]
struct Response {
    status_code: u16,
    body: Box<RawValue>,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

/// Reads one line of replies; `None` if it is invalid.
pub(super) fn line(text: &[u8]) -> Option<(Uuid, LineSays)> {
    let answer: Answer = serde_json::from_slice(text).ok()?;
    let said = match (answer.response, answer.result) {
        (Some(response), _) => Ok((response.status_code, response.body)),
        (None, Some(outcome)) => match (outcome.kind.as_str(), outcome.message, outcome.error) {
            ("succeeded", Some(message), _) => Ok((200, message)),
            // The type in the error determines its status.
            ("errored", _, Some(error)) => Ok((200, error)),
            _ => Err(outcome.kind),
        },
        (None, None) => Err(ErrorBody::of(&answer.error.unwrap_or_default()).summary()),
    };
    Some((answer.custom_id, said))
}

#[derive(Clone, Copy)]
pub(crate) struct Batches<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) form: BatchForm,
}

impl Endpoint {
    /// Returns the form of the batch endpoint if the provider has one and the entry has its price.
    pub(crate) fn batch_form(&self) -> Option<BatchForm> {
        let priced = self.spec.entry().batch_price_factor;
        priced.and(self.format.batches)
    }
}

impl Batches<'_> {
    pub(crate) fn add(
        self,
        chunk: &mut Chunk,
        id: Uuid,
        request: &CallRequest,
    ) -> Result<Added, JudgeError> {
        let body = self.endpoint.body(request, self.endpoint.shape());
        Ok(chunk.add(id, &self.endpoint.named(body)?))
    }

    /// Completes the text, and uploads it if the provider needs it before the batch. This is free.
    pub(crate) async fn upload(self, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        let tag = chunk.tag();
        let (body, kind) = chunk.ended();
        match self.form {
            BatchForm::Requests => Ok(Uploaded(body)),
            BatchForm::Files => {
                let files = self.endpoint.below("files");
                let file: Batch = self.json(&files, Some((&kind, body))).await?;
                // The endpoint doesn't depend on the server's address, and 24 h is the only window.
                let wanted = json!({
                    "input_file_id": file.id, "endpoint": "/v1/chat/completions",
                    "completion_window": "24h", "metadata": { TAG: tag.to_string() },
                });
                Ok(Uploaded(wanted.to_string().into_bytes()))
            }
        }
    }

    /// Submits the chunk and returns the provider's id of it.
    pub(crate) async fn submit(self, chunk: Uploaded) -> Result<String, JudgeError> {
        let batch: Batch = self.json(&self.at(""), Some((JSON, chunk.0))).await?;
        Ok(batch.id)
    }

    pub(crate) async fn find(self, tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        if self.form == BatchForm::Requests {
            return Ok(ChunkLookup::CantTell);
        }
        let is_it = |batch: &&Batch| {
            let metadata = batch.metadata.as_ref();
            metadata.is_some_and(|metadata| metadata[TAG] == json!(tag.to_string()))
        };
        let first = self.at("?limit=100");
        let mut address = first.clone();
        for _ in 0..MAX_PAGES {
            let page: Page = self.json(&address, None).await?;
            if let Some(found) = page.data.iter().find(is_it) {
                return Ok(ChunkLookup::As(found.id.clone()));
            }
            let last = page.data.last().filter(|_| page.has_more == Some(true));
            let Some(last) = last else { break };
            address = format!("{first}&after={}", percent_encoded(&last.id));
        }
        Ok(ChunkLookup::Nowhere)
    }

    pub(crate) async fn look(self, batch: &str) -> Result<Progress, JudgeError> {
        let batch = self.named(batch).await?;
        Ok(match batch.status.as_deref() {
            Some("completed" | "expired" | "cancelled" | "ended") => Progress::Ended,
            Some("failed") => self.batch_error(batch.errors),
            // Validating, in progress, finalizing, cancelling, and unknown ones.
            Some(_) | None => {
                let mut counts = batch.request_counts.unwrap_or_default();
                counts.retain(|name, _| name != "total" && name != "processing");
                let done = counts.values().filter_map(Value::as_u64);
                let done = done.fold(0, u64::saturating_add);
                Progress::Running { done }
            }
        })
    }

    /// Returns the addresses of a chunk's replies, which are JSON lines.
    pub(super) async fn results(self, batch: &str) -> Result<Vec<String>, JudgeError> {
        let named = self.named(batch).await?;
        Ok(match self.form {
            BatchForm::Files => {
                let files = [named.output_file_id, named.error_file_id];
                let files = files.into_iter().flatten().filter(|id| !id.is_empty());
                let address = |id: String| format!("files/{}/content", percent_encoded(&id));
                files.map(|id| self.endpoint.below(&address(id))).collect()
            }
            BatchForm::Requests => {
                // Another server than the entry's must not get the key.
                let named = named.results_url.filter(|url| self.is_same_server(url));
                let own = || self.at(&format!("/{}/results", percent_encoded(batch)));
                vec![named.unwrap_or_else(own)]
            }
        })
    }

    /// Cancels a chunk. Its replies can be read once it has ended.
    pub(crate) async fn cancel(self, batch: &str) -> Result<(), JudgeError> {
        let address = self.at(&format!("/{}/cancel", percent_encoded(batch)));
        let _cancelled: Batch = self.json(&address, Some((JSON, b"{}".to_vec()))).await?;
        Ok(())
    }

    async fn named(self, batch: &str) -> Result<Batch, JudgeError> {
        let address = self.at(&format!("/{}", percent_encoded(batch)));
        self.json(&address, None).await
    }

    fn batch_error(self, errors: Option<Value>) -> Progress {
        let errors = errors.as_ref().and_then(|errors| errors.get("data"));
        let errors = ErrorBody::of(errors.unwrap_or(&Value::Null));
        let words = format!("refused a batch: {}", errors.summary());
        let error = self.endpoint.error(ErrorClass::Rejected, None, &words);
        match errors.has_code(NO_ROOM) {
            true => Progress::NoRoom(error.message),
            false => Progress::Refused(error.message),
        }
    }

    /// Returns the address of batches, or of a path below it. Anthropic's is below that of single messages.
    fn at(self, below: &str) -> String {
        let messages = self.endpoint.spec.entry().path.split('?').next();
        let messages = messages.unwrap_or_default().trim_end_matches('/');
        self.endpoint.below(&match self.form {
            BatchForm::Files => format!("batches{below}"),
            BatchForm::Requests => format!("{messages}/batches{below}"),
        })
    }

    fn is_same_server(self, address: &str) -> bool {
        let origin = |address: &str| reqwest::Url::parse(address).ok().map(|url| url.origin());
        origin(address).is_some_and(|it| Some(it) == origin(&self.endpoint.spec.entry().base_url))
    }

    async fn json<T: DeserializeOwned>(
        self,
        address: &str,
        content: Option<(&str, Vec<u8>)>,
    ) -> Result<T, JudgeError> {
        let Self { endpoint, .. } = self;
        let limit = content.as_ref().map_or(LOOK_TIMEOUT, |_| SEND_TIMEOUT);
        let request = endpoint.named(endpoint.request(address, content))?;
        let exchange = endpoint.named(endpoint.client.exchange(request, limit).await)?;
        if !exchange.is_success() {
            return Err(self.rejection(&exchange));
        }
        serde_json::from_slice(&exchange.body).map_err(|_| {
            // Probably a gateway's page. The state of the chunk is unknown, so the caller retries.
            let words = "answered with something that no batch endpoint says";
            endpoint.error(ErrorClass::Transient, None, words)
        })
    }

    /// Returns the response at an address; the caller reads its body.
    pub(super) async fn stream(self, address: &str) -> Result<reqwest::Response, JudgeError> {
        let Self { endpoint, .. } = self;
        let request = endpoint.named(endpoint.request(address, None))?;
        let response = endpoint.client.execute(request);
        let response = endpoint.named(within(LOOK_TIMEOUT, response.boxed()).await)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let exchange = endpoint.named(read_body(response).await)?;
        Err(self.rejection(&exchange))
    }

    fn rejection(self, exchange: &Exchange) -> JudgeError {
        let body = ErrorBody::read(&exchange.body);
        let class = unlearned(ErrorClass::Misconfigured);
        let shape = self.endpoint.shape();
        self.endpoint.rejection(exchange, body, shape, class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0198a2b4-0000-7000-8000-000000000001";

    fn says(rest: &str) -> Result<(u16, String), String> {
        let text = format!(r#"{{"id":"r","custom_id":"{ID}",{rest}}}"#);
        let (id, said) = line(text.as_bytes()).unwrap();
        assert_eq!(id.to_string(), ID);
        said.map(|(status, body)| (status, body.get().to_owned()))
    }

    #[test]
    fn line_is_a_reply_of_any_status_or_an_error() {
        let answered = |status, body: &str| Ok((status, body.to_owned()));
        let unanswered = |why: &str| Err(why.to_owned());
        let table = [
            (
                r#""response":{"status_code":400,"request_id":"q","body":{"error":{}}},"error":null"#,
                answered(400, r#"{"error":{}}"#),
            ),
            (
                r#""response":null,"error":{"code":"batch_expired","message":"too late"}"#,
                unanswered("too late"),
            ),
            (
                r#""response":null,"error":{"code":"batch_expired","message":""}"#,
                unanswered("batch_expired"),
            ),
            (
                r#""response":null,"error":null"#,
                unanswered("no reason given"),
            ),
            (
                r#""result":{"type":"succeeded","message":{"content":[]}}"#,
                answered(200, r#"{"content":[]}"#),
            ),
            (
                r#""result":{"type":"errored","error":{"type":"error","error":{"type":"api_error"}}}"#,
                answered(200, r#"{"type":"error","error":{"type":"api_error"}}"#),
            ),
            (r#""result":{"type":"expired"}"#, unanswered("expired")),
            (r#""result":{"type":"canceled"}"#, unanswered("canceled")),
            (r#""result":{"type":"succeeded"}"#, unanswered("succeeded")),
        ];
        for (rest, expected) in table {
            assert_eq!(says(rest), expected, "{rest}");
        }
        for rubbish in ["", "<html>", "{}", r#"{"custom_id":7}"#] {
            assert!(line(rubbish.as_bytes()).is_none(), "{rubbish}");
        }
    }
}
