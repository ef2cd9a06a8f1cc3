//! The batch endpoint: a file of calls, a batch of the file, files of answers and of errors.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::JudgeError;
use crate::error::ErrorClass;
use crate::provider::batch::{Chunk, ChunkLookup, ChunkSize, Line, LineSays, Progress, Uploaded};
use crate::provider::endpoint::batch::BatchApi;
use crate::provider::endpoint::{Endpoint, JSON};

/// Where a batch's calls go, whatever the server's own address is.
const ENDPOINT: &str = "/v1/chat/completions";
/// The only time that servers offer.
const WINDOW: &str = "24h";
/// Under this key a batch holds our name for it.
const TAG: &str = "gavel";
/// The code of a batch with which more would wait than the account may have waiting.
const NO_ROOM: &str = "token_limit_exceeded";
/// A batch is looked for among so many pages of 100, the newest first.
const PAGES: usize = 10;

pub(super) struct Batches;

#[derive(Deserialize)]
struct File {
    id: String,
}

#[derive(Deserialize)]
struct Batch {
    id: String,
    status: Option<String>,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    request_counts: Option<Counts>,
    errors: Option<Errors>,
    metadata: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Counts {
    completed: Option<u64>,
    failed: Option<u64>,
}

#[derive(Deserialize)]
struct Errors {
    data: Option<Vec<Fault>>,
}

#[derive(Deserialize)]
struct Fault {
    code: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Batch>,
    has_more: Option<bool>,
}

#[derive(Deserialize)]
struct Answer {
    custom_id: String,
    response: Option<Response>,
    error: Option<Fault>,
}

#[derive(Deserialize)]
struct Response {
    status_code: u16,
    body: Box<RawValue>,
}

impl Fault {
    fn says_no_room(&self) -> bool {
        self.code.as_deref() == Some(NO_ROOM)
    }

    fn words(self) -> String {
        let said = [self.message, self.code];
        let said = said.into_iter().flatten().find(|words| !words.is_empty());
        said.unwrap_or_else(|| "no reason given".to_owned())
    }
}

impl Batch {
    fn is_tagged(&self, tag: &str) -> bool {
        let said = self
            .metadata
            .as_ref()
            .and_then(|all| all.get(TAG)?.as_str());
        said == Some(tag)
    }
}

#[async_trait]
impl BatchApi for Batches {
    fn most(&self) -> ChunkSize {
        ChunkSize {
            calls: 50_000,
            bytes: 200_000_000,
        }
    }

    fn open(&self, chunk: &mut Chunk) {
        let boundary = boundary(chunk.tag);
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"gavel-{}.jsonl\"\r\n\
             Content-Type: application/jsonl\r\n\r\n",
            chunk.tag
        );
        chunk.body.extend_from_slice(head.as_bytes());
    }

    fn add(&self, chunk: &mut Chunk, id: Uuid, body: &[u8]) {
        let head = format!(
            "{{\"custom_id\":\"{id}\",\"method\":\"POST\",\"url\":\"{ENDPOINT}\",\"body\":"
        );
        chunk.body.extend_from_slice(head.as_bytes());
        chunk.body.extend_from_slice(body);
        chunk.body.extend_from_slice(b"}\n");
    }

    async fn upload(&self, endpoint: &Endpoint, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        let Chunk { tag, mut body, .. } = chunk;
        let boundary = boundary(tag);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={boundary}");
        let files = endpoint.address("files");
        let file: File = endpoint.post(&files, &kind, body).await?;
        let rest = file.id.into_bytes();
        Ok(Uploaded { tag, rest })
    }

    async fn submit(&self, endpoint: &Endpoint, chunk: Uploaded) -> Result<String, JudgeError> {
        let wanted = json!({
            "input_file_id": String::from_utf8_lossy(&chunk.rest),
            "endpoint": ENDPOINT,
            "completion_window": WINDOW,
            "metadata": { TAG: chunk.tag.to_string() },
        });
        let (batches, wanted) = (endpoint.address("batches"), wanted.to_string());
        let batch: Batch = endpoint.post(&batches, JSON, wanted.into()).await?;
        Ok(batch.id)
    }

    async fn find(&self, endpoint: &Endpoint, tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        let tag = tag.to_string();
        let first = endpoint.address("batches?limit=100");
        let mut address = first.clone();
        for _ in 0..PAGES {
            let page: Page = endpoint.get(&address).await?;
            if let Some(batch) = page.data.iter().find(|batch| batch.is_tagged(&tag)) {
                return Ok(ChunkLookup::As(batch.id.clone()));
            }
            match page.data.last() {
                Some(last) if page.has_more == Some(true) => {
                    address = format!("{first}&after={}", Endpoint::segment(&last.id));
                }
                Some(_) | None => break,
            }
        }
        Ok(ChunkLookup::Nowhere)
    }

    async fn look(&self, endpoint: &Endpoint, batch: &str) -> Result<Progress, JudgeError> {
        let batch = named(endpoint, batch).await?;
        Ok(match batch.status.as_deref() {
            Some("completed" | "expired" | "cancelled") => Progress::Ended,
            Some("failed") => refused(endpoint, batch.errors),
            // Validating, in progress, finalizing, cancelling; and what is unknown.
            Some(_) | None => running(batch.request_counts.as_ref()),
        })
    }

    async fn results(&self, endpoint: &Endpoint, batch: &str) -> Result<Vec<String>, JudgeError> {
        let batch = named(endpoint, batch).await?;
        let files = [batch.output_file_id, batch.error_file_id];
        let files = files.into_iter().flatten().filter(|id| !id.is_empty());
        Ok(files
            .map(|id| endpoint.address(&format!("files/{}/content", Endpoint::segment(&id))))
            .collect())
    }

    fn line(&self, text: &[u8]) -> Option<Line> {
        let answer: Answer = serde_json::from_slice(text).ok()?;
        let said = match (answer.response, answer.error) {
            (Some(response), _) => LineSays::Answered(response.status_code, response.body),
            (None, Some(fault)) => LineSays::Unanswered(fault.words()),
            (None, None) => LineSays::Unanswered("no reason given".to_owned()),
        };
        Some(Line {
            id: answer.custom_id,
            said,
        })
    }

    async fn cancel(&self, endpoint: &Endpoint, batch: &str) -> Result<(), JudgeError> {
        let address = endpoint.address(&format!("batches/{}/cancel", Endpoint::segment(batch)));
        let _cancelled: Batch = endpoint.post(&address, JSON, b"{}".to_vec()).await?;
        Ok(())
    }
}

async fn named(endpoint: &Endpoint, batch: &str) -> Result<Batch, JudgeError> {
    let address = endpoint.address(&format!("batches/{}", Endpoint::segment(batch)));
    endpoint.get(&address).await
}

fn running(counts: Option<&Counts>) -> Progress {
    let count = |of: fn(&Counts) -> Option<u64>| counts.and_then(of).unwrap_or(0);
    Progress::Running {
        done: count(|counts| counts.completed).saturating_add(count(|counts| counts.failed)),
    }
}

fn refused(endpoint: &Endpoint, errors: Option<Errors>) -> Progress {
    let faults = errors.and_then(|errors| errors.data).unwrap_or_default();
    let no_room = faults.iter().any(Fault::says_no_room);
    let first = faults.into_iter().next();
    let why = first.map_or_else(|| "no reason given".to_owned(), Fault::words);
    let words = format!("refused a batch: {why}");
    let why = endpoint.batch_error(ErrorClass::Rejected, &words).message;
    match no_room {
        true => Progress::NoRoom(why),
        false => Progress::Refused(why),
    }
}

/// No prompt holds it: the tag is random, and made when the chunk is begun.
fn boundary(tag: Uuid) -> String {
    format!("gavel-{}", tag.simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_answer_of_any_status_or_says_why_there_is_none() {
        let answered = br#"{"id":"r","custom_id":"a","response":{"status_code":400,"request_id":"q","body":{"error":{}}},"error":null}"#;
        let line = Batches.line(answered).unwrap();
        assert_eq!(line.id, "a");
        let LineSays::Answered(status, body) = line.said else {
            panic!("expected an answer");
        };
        assert_eq!((status, body.get()), (400, r#"{"error":{}}"#));

        for (error, expected) in [
            (
                r#"{"code":"batch_expired","message":"too late"}"#,
                "too late",
            ),
            (r#"{"code":"batch_expired","message":""}"#, "batch_expired"),
            ("null", "no reason given"),
        ] {
            let text = format!(r#"{{"custom_id":"a","response":null,"error":{error}}}"#);
            let said = Batches.line(text.as_bytes()).unwrap().said;
            let LineSays::Unanswered(why) = said else {
                panic!("expected none");
            };
            assert_eq!(why, expected);
        }
        for rubbish in ["", "<html>", "{}", r#"{"custom_id":7}"#] {
            assert!(Batches.line(rubbish.as_bytes()).is_none(), "{rubbish}");
        }
    }
}
