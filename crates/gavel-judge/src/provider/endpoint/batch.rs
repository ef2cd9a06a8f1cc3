//! The batch endpoint of one entry and model, in the forms of all providers.
//!
//! It asks once, waits for no gate and keeps nothing: a chunk's text, which may be many MB, goes out as it was built. An error is
//! about the chunk, never about one of its calls.

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
use crate::provider::http::{Exchange, read_whole, within};
use gavel_outbound::percent_encoded;

/// How long a question about a chunk may take.
const LOOK: Duration = Duration::from_secs(60);
/// How long it may take until a chunk of many MB is there and taken.
const HAND_OVER: Duration = Duration::from_secs(15 * 60);
/// Under this key a batch holds our name for it.
const TAG: &str = "gavel";
/// The code of a batch with which more would wait than the account may have waiting.
const NO_ROOM: &str = "token_limit_exceeded";
/// A batch is looked for among so many pages of 100, the newest first.
const PAGES: usize = 10;

/// A batch, or a file, of which the id alone counts.
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

/// A line: OpenAI's has `response` or `error`, Anthropic's `result`.
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

/// Reads one line of answers; `None` for what isn't one.
pub(super) fn line(text: &[u8]) -> Option<(Uuid, LineSays)> {
    let answer: Answer = serde_json::from_slice(text).ok()?;
    let said = match (answer.response, answer.result) {
        (Some(response), _) => Ok((response.status_code, response.body)),
        (None, Some(outcome)) => match (outcome.kind.as_str(), outcome.message, outcome.error) {
            ("succeeded", Some(message), _) => Ok((200, message)),
            // An error's body as a call's: its type says the status.
            ("errored", _, Some(error)) => Ok((200, error)),
            _ => Err(outcome.kind),
        },
        (None, None) => Err(ErrorBody::of(&answer.error.unwrap_or_default()).words()),
    };
    Some((answer.custom_id, said))
}

/// The batch endpoint of one entry and model.
#[derive(Clone, Copy)]
pub(crate) struct Batches<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) form: BatchForm,
}

impl Endpoint {
    /// The form of its batch endpoint, where the entry gives a price for it and the provider has one.
    pub(crate) fn batch_form(&self) -> Option<BatchForm> {
        let priced = self.spec.entry().batch_price_factor;
        priced.and(self.format.batches)
    }
}

impl Batches<'_> {
    /// Adds a call under an id of its own; `Full` leaves the chunk as it was.
    pub(crate) fn add(
        self,
        chunk: &mut Chunk,
        id: Uuid,
        request: &CallRequest,
    ) -> Result<Added, JudgeError> {
        let body = self.endpoint.body(request, self.endpoint.shape());
        Ok(chunk.add(id, &self.endpoint.told(body)?))
    }

    /// Ends the text, and sends it where the provider takes it beforehand; nothing is answered or billed yet.
    pub(crate) async fn upload(self, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        let tag = chunk.tag();
        let (body, kind) = chunk.ended();
        match self.form {
            BatchForm::Requests => Ok(Uploaded(body)),
            BatchForm::Files => {
                let files = self.endpoint.below("files");
                let file: Batch = self.json(&files, Some((&kind, body))).await?;
                // Whatever the server's own address is. Servers offer no other time.
                let wanted = json!({
                    "input_file_id": file.id, "endpoint": "/v1/chat/completions",
                    "completion_window": "24h", "metadata": { TAG: tag.to_string() },
                });
                Ok(Uploaded(wanted.to_string().into_bytes()))
            }
        }
    }

    /// Hands the chunk over; the provider's name for it.
    pub(crate) async fn submit(self, chunk: Uploaded) -> Result<String, JudgeError> {
        let batch: Batch = self.json(&self.at(""), Some((JSON, chunk.0))).await?;
        Ok(batch.id)
    }

    /// Looks for a chunk by its tag.
    pub(crate) async fn find(self, tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        if self.form == BatchForm::Requests {
            return Ok(ChunkLookup::CantTell);
        }
        let tag = json!(tag.to_string());
        let first = self.at("?limit=100");
        let mut address = first.clone();
        for _ in 0..PAGES {
            let page: Page = self.json(&address, None).await?;
            let name = |batch: &Batch| batch.metadata.as_ref()?.get(TAG).cloned();
            if let Some(found) = page
                .data
                .iter()
                .find(|batch| name(batch).as_ref() == Some(&tag))
            {
                return Ok(ChunkLookup::As(found.id.clone()));
            }
            let last = page.data.last().filter(|_| page.has_more == Some(true));
            let Some(last) = last else { break };
            address = format!("{first}&after={}", percent_encoded(&last.id));
        }
        Ok(ChunkLookup::Nowhere)
    }

    /// How far a chunk is.
    pub(crate) async fn look(self, batch: &str) -> Result<Progress, JudgeError> {
        let batch = self.named(batch).await?;
        Ok(match batch.status.as_deref() {
            Some("completed" | "expired" | "cancelled" | "ended") => Progress::Ended,
            Some("failed") => self.refused(batch.errors),
            // Validating, in progress, finalizing, cancelling; and what is unknown.
            Some(_) | None => {
                let mut counts = batch.request_counts.unwrap_or_default();
                counts.retain(|name, _| name != "total" && name != "processing");
                let done = counts.values().filter_map(Value::as_u64);
                let done = done.fold(0, u64::saturating_add);
                Progress::Running { done }
            }
        })
    }

    /// The addresses of a chunk's answers, each JSON by lines.
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
                // Where the provider says, unless the key would leave the entry's server for it.
                let theirs = named.results_url.filter(|url| self.is_ours(url));
                vec![
                    theirs.unwrap_or_else(|| {
                        self.at(&format!("/{}/results", percent_encoded(batch)))
                    }),
                ]
            }
        })
    }

    /// Asks to answer no more. What was answered can be collected once the chunk has ended.
    pub(crate) async fn cancel(self, batch: &str) -> Result<(), JudgeError> {
        let address = self.at(&format!("/{}/cancel", percent_encoded(batch)));
        let _cancelled: Batch = self.json(&address, Some((JSON, b"{}".to_vec()))).await?;
        Ok(())
    }

    async fn named(self, batch: &str) -> Result<Batch, JudgeError> {
        let address = self.at(&format!("/{}", percent_encoded(batch)));
        self.json(&address, None).await
    }

    fn refused(self, errors: Option<Value>) -> Progress {
        let errors = errors.as_ref().and_then(|errors| errors.get("data"));
        let errors = ErrorBody::of(errors.unwrap_or(&Value::Null));
        let words = format!("refused a batch: {}", errors.words());
        let error = self.endpoint.error(ErrorClass::Rejected, None, &words);
        match errors.has_code(NO_ROOM) {
            true => Progress::NoRoom(error.message),
            false => Progress::Refused(error.message),
        }
    }

    /// The address of batches, and of what lies below it: Anthropic's is beside that of single messages.
    fn at(self, below: &str) -> String {
        let messages = self.endpoint.spec.entry().path.split('?').next();
        let messages = messages.unwrap_or_default().trim_end_matches('/');
        self.endpoint.below(&match self.form {
            BatchForm::Files => format!("batches{below}"),
            BatchForm::Requests => format!("{messages}/batches{below}"),
        })
    }

    /// Whether an address is at the entry's own server, so that the key may go there.
    fn is_ours(self, address: &str) -> bool {
        let origin = |address: &str| reqwest::Url::parse(address).ok().map(|url| url.origin());
        let theirs = origin(address);
        theirs.is_some() && theirs == origin(&self.endpoint.spec.entry().base_url)
    }

    async fn json<T: DeserializeOwned>(
        self,
        address: &str,
        content: Option<(&str, Vec<u8>)>,
    ) -> Result<T, JudgeError> {
        let Self { endpoint, .. } = self;
        let limit = content.as_ref().map_or(LOOK, |_| HAND_OVER);
        let request = endpoint.told(endpoint.request(address, content))?;
        let exchange = endpoint.told(endpoint.client.exchange(request, limit).await)?;
        if !exchange.is_success() {
            return Err(self.refusal(&exchange));
        }
        serde_json::from_slice(&exchange.body).map_err(|_| {
            // A gateway's page in the place of an answer: nothing is known of the chunk, so that it is asked for again.
            let words = "answered with something that no batch endpoint says";
            endpoint.error(ErrorClass::Transient, None, words)
        })
    }

    /// The answer at an address, to be read in pieces.
    pub(super) async fn stream(self, address: &str) -> Result<reqwest::Response, JudgeError> {
        let Self { endpoint, .. } = self;
        let request = endpoint.told(endpoint.request(address, None))?;
        let response = endpoint.told(within(LOOK, endpoint.client.execute(request)).await)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let exchange = endpoint.told(read_whole(response).await)?;
        Err(self.refusal(&exchange))
    }

    fn refusal(self, exchange: &Exchange) -> JudgeError {
        let body = ErrorBody::read(&exchange.body);
        let class = unlearned(ErrorClass::Misconfigured);
        let shape = self.endpoint.shape();
        self.endpoint.refusal(exchange, body, shape, class)
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
    fn a_line_is_an_answer_of_any_status_or_says_why_there_is_none() {
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
