//! The batch endpoint of one entry and model, in the forms of all providers. Sends each request once, without retries. An error is about
//! a chunk, not about one of its calls.

use futures::FutureExt as _;
use std::collections::VecDeque;
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Endpoint, JSON, unlearned};
use crate::JudgeError;
use crate::error::ErrorClass;
use crate::json as lenient;
use crate::provider::batch::{Added, BatchForm, Chunk, ChunkLookup, Progress, Uploaded};
use crate::provider::call::CallRequest;
use crate::provider::error_body::ErrorBody;
use crate::provider::http::{Exchange, read_body, within};
use crate::provider::reply::{given, text_at};
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
    #[serde(flatten)]
    rest: Value,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Batch>,
    has_more: Option<bool>,
}

/// Reads one line of replies, a response or the reason for its absence: OpenAI's has `response` or `error`, Anthropic's
/// `result`. `None` if it is invalid.
pub(super) fn line(text: &[u8]) -> Option<(Uuid, Result<Exchange, String>)> {
    let lenient::Leading { value, length } = lenient::leading_object(text).ok()?;
    let asked_for = value.get("custom_id")?.as_str()?.parse().ok()?;
    let answered = |status, body: &Value| Exchange {
        status,
        headers: HeaderMap::new(),
        body: body.to_string().into_bytes(),
    };
    let said = if let Some(response) = given(&value, "/response") {
        let status = response.get("status_code")?.as_u64()?.try_into().ok()?;
        Ok(answered(status, response.get("body")?))
    } else if let Some(outcome) = given(&value, "/result") {
        let kind = outcome.get("type")?.as_str()?;
        let body = match kind {
            "succeeded" => given(outcome, "/message"),
            // The type in the error determines its status.
            "errored" => given(outcome, "/error"),
            _ => None,
        };
        body.map(|body| answered(200, body)).ok_or(kind.to_owned())
    } else {
        Err(ErrorBody::of(&value["error"]).summary())
    };
    (length == text.trim_ascii_end().len()).then_some((asked_for, said))
}

impl Endpoint {
    pub(crate) fn add(
        &self,
        chunk: &mut Chunk,
        id: Uuid,
        request: &CallRequest,
    ) -> Result<Added, JudgeError> {
        let body = self.body(request, &self.shape());
        Ok(chunk.add(id, &self.named(body)?))
    }

    /// Completes the text, and uploads it if the provider needs it before the batch. This is free.
    pub(crate) async fn upload(&self, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        let tag = chunk.tag();
        let (body, kind) = chunk.ended();
        if !self.has_files() {
            return Ok(Uploaded(body));
        }
        let file: Batch = self.json(&self.below("files"), Some((&kind, body))).await?;
        // The endpoint doesn't depend on the server's address, and 24 h is the only window.
        let wanted = json!({
            "input_file_id": file.id, "endpoint": "/v1/chat/completions",
            "completion_window": "24h", "metadata": { TAG: tag.to_string() },
        });
        Ok(Uploaded(wanted.to_string().into_bytes()))
    }

    /// Submits the chunk and returns the provider's id of it.
    pub(crate) async fn submit(&self, chunk: Uploaded) -> Result<String, JudgeError> {
        let batch: Batch = self.json(&self.batches(""), Some((JSON, chunk.0))).await?;
        Ok(batch.id)
    }

    pub(crate) async fn find(&self, tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        if !self.has_files() {
            return Ok(ChunkLookup::CantTell);
        }
        let tag = json!(tag.to_string());
        let is_it = |batch: &&Batch| batch.rest["metadata"][TAG] == tag;
        let first = self.batches("?limit=100");
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

    pub(crate) async fn look(&self, batch: &str) -> Result<Progress, JudgeError> {
        let batch = self.batch(batch).await?;
        let mut names = ["/status", "/processing_status"].into_iter();
        Ok(match names.find_map(|at| text_at(&batch.rest, at)) {
            Some("completed" | "expired" | "cancelled" | "ended") => Progress::Ended,
            Some("failed") => self.batch_error(&ErrorBody::of(&batch.rest["errors"]["data"])),
            // Validating, in progress, finalizing, cancelling, and unknown ones.
            Some(_) | None => {
                let counts = batch.rest["request_counts"].as_object();
                let counts = counts.into_iter().flatten();
                let done = counts.filter(|(name, _)| *name != "total" && *name != "processing");
                let done = done.filter_map(|(_, count)| count.as_u64());
                let done = done.fold(0, u64::saturating_add);
                Progress::Running { done }
            }
        })
    }

    /// Returns the addresses of a chunk's replies, which are JSON lines.
    pub(super) async fn results(&self, batch: &str) -> Result<VecDeque<String>, JudgeError> {
        let named = self.batch(batch).await?;
        if self.has_files() {
            let files = ["/output_file_id", "/error_file_id"].into_iter();
            let files = files.filter_map(|at| text_at(&named.rest, at));
            let address = |id| format!("files/{}/content", percent_encoded(id));
            return Ok(files.map(|id| self.below(&address(id))).collect());
        }
        // Another server than the entry's must not get the key.
        let origin = |address: &str| reqwest::Url::parse(address).ok().map(|url| url.origin());
        let ours = origin(&self.spec.entry().base_url);
        let is_ours = |url: &&str| ours.is_some() && origin(url) == ours;
        let named = text_at(&named.rest, "/results_url").filter(is_ours);
        let own = || self.batches(&format!("/{}/results", percent_encoded(batch)));
        Ok([named.map_or_else(own, str::to_owned)].into())
    }

    /// Cancels a chunk. Its replies can be read once it has ended.
    pub(crate) async fn cancel(&self, batch: &str) -> Result<(), JudgeError> {
        let address = self.batches(&format!("/{}/cancel", percent_encoded(batch)));
        let _cancelled: Batch = self.json(&address, Some((JSON, b"{}".to_vec()))).await?;
        Ok(())
    }

    async fn batch(&self, id: &str) -> Result<Batch, JudgeError> {
        let address = self.batches(&format!("/{}", percent_encoded(id)));
        self.json(&address, None).await
    }

    fn batch_error(&self, errors: &ErrorBody) -> Progress {
        let words = format!("refused a batch: {}", errors.summary());
        let error = self.error(ErrorClass::Rejected, None, &words);
        match errors.has_code(NO_ROOM) {
            true => Progress::NoRoom(error.message),
            false => Progress::Refused(error.message),
        }
    }

    fn has_files(&self) -> bool {
        self.format.batches == Some(BatchForm::Files)
    }

    /// Returns the address of batches, or of a path below it. Anthropic's is below that of single messages.
    fn batches(&self, below: &str) -> String {
        let messages = self.spec.entry().path.split('?').next();
        let messages = messages.unwrap_or_default().trim_end_matches('/');
        self.below(&match self.has_files() {
            true => format!("batches{below}"),
            false => format!("{messages}/batches{below}"),
        })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        address: &str,
        content: Option<(&str, Vec<u8>)>,
    ) -> Result<T, JudgeError> {
        let limit = content.as_ref().map_or(LOOK_TIMEOUT, |_| SEND_TIMEOUT);
        let request = self.named(self.request(address, content))?;
        let exchange = self.named(self.client.exchange(request, limit).await)?;
        if !(200..300).contains(&exchange.status) {
            return Err(self.batch_rejection(&exchange));
        }
        serde_json::from_slice(&exchange.body).map_err(|_| {
            // Probably a gateway's page. The state of the chunk is unknown, so the caller retries.
            let words = "answered with something that no batch endpoint says";
            self.error(ErrorClass::Transient, None, words)
        })
    }

    /// Returns the response at an address; the caller reads its body.
    pub(super) async fn stream(&self, address: &str) -> Result<reqwest::Response, JudgeError> {
        let request = self.named(self.request(address, None))?;
        let response = self.client.execute(request);
        let response = self.named(within(LOOK_TIMEOUT, response.boxed()).await)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let exchange = self.named(read_body(response).await)?;
        Err(self.batch_rejection(&exchange))
    }

    fn batch_rejection(&self, exchange: &Exchange) -> JudgeError {
        let body = ErrorBody::read(&exchange.body);
        let class = unlearned(ErrorClass::Misconfigured);
        self.rejection(exchange, body, &self.shape(), class)
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
        said.map(|it| (it.status, String::from_utf8(it.body).unwrap()))
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
            // The model wrote half of an emoji.
            (
                r#""result":{"type":"succeeded","message":{"content":"\ud83d"}}"#,
                answered(200, "{\"content\":\"\u{fffd}\"}"),
            ),
            (r#""result":{"type":"expired"}"#, unanswered("expired")),
            (r#""result":{"type":"canceled"}"#, unanswered("canceled")),
            (r#""result":{"type":"succeeded"}"#, unanswered("succeeded")),
        ];
        for (rest, expected) in table {
            assert_eq!(says(rest), expected, "{rest}");
        }
        let two = format!(r#"{{"custom_id":"{ID}","error":null}}"#).repeat(2);
        for rubbish in ["", "<html>", "{}", r#"{"custom_id":7}"#, &two] {
            assert!(line(rubbish.as_bytes()).is_none(), "{rubbish}");
        }
    }
}
