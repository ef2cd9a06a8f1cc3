//! Message batches: calls in one request, answers in one file.
//!
//! A batch has no name but the provider's: whether one that was handed over arrived can't be asked.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::JudgeError;
use crate::provider::batch::{Chunk, ChunkLookup, ChunkSize, Line, LineSays, Progress, Uploaded};
use crate::provider::endpoint::batch::BatchApi;
use crate::provider::endpoint::{Endpoint, JSON};

/// What a batch's text begins with.
const OPENING: &[u8] = b"{\"requests\":[";

pub(super) struct Batches;

#[derive(Deserialize)]
struct Batch {
    id: String,
    processing_status: Option<String>,
    request_counts: Option<Counts>,
    results_url: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    succeeded: Option<u64>,
    errored: Option<u64>,
    canceled: Option<u64>,
    expired: Option<u64>,
}

#[derive(Deserialize)]
struct Answer {
    custom_id: String,
    result: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

#[async_trait]
impl BatchApi for Batches {
    fn most(&self) -> ChunkSize {
        ChunkSize {
            calls: 100_000,
            bytes: 256_000_000,
        }
    }

    fn open(&self, chunk: &mut Chunk) {
        chunk.body.extend_from_slice(OPENING);
    }

    fn add(&self, chunk: &mut Chunk, id: Uuid, body: &[u8]) {
        let comma = if chunk.calls == 0 { "" } else { "," };
        let head = format!("{comma}{{\"custom_id\":\"{id}\",\"params\":");
        chunk.body.extend_from_slice(head.as_bytes());
        chunk.body.extend_from_slice(body);
        chunk.body.push(b'}');
    }

    async fn upload(&self, _: &Endpoint, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        let Chunk { tag, mut body, .. } = chunk;
        body.extend_from_slice(b"]}");
        Ok(Uploaded { tag, rest: body })
    }

    async fn submit(&self, endpoint: &Endpoint, chunk: Uploaded) -> Result<String, JudgeError> {
        let batch: Batch = endpoint
            .post(&batches(endpoint, ""), JSON, chunk.rest)
            .await?;
        Ok(batch.id)
    }

    async fn find(&self, _: &Endpoint, _tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        Ok(ChunkLookup::CantTell)
    }

    async fn look(&self, endpoint: &Endpoint, batch: &str) -> Result<Progress, JudgeError> {
        let batch = named(endpoint, batch).await?;
        Ok(match batch.processing_status.as_deref() {
            Some("ended") => Progress::Ended,
            // In progress or canceling; and what is unknown.
            Some(_) | None => running(batch.request_counts.as_ref()),
        })
    }

    async fn results(&self, endpoint: &Endpoint, batch: &str) -> Result<Vec<String>, JudgeError> {
        let named = named(endpoint, batch).await?;
        // Where the provider says, unless the key would leave the entry's server for it.
        let theirs = named.results_url.filter(|url| endpoint.is_ours(url));
        let results = format!("/{}/results", Endpoint::segment(batch));
        Ok(vec![theirs.unwrap_or_else(|| batches(endpoint, &results))])
    }

    fn line(&self, text: &[u8]) -> Option<Line> {
        let answer: Answer = serde_json::from_slice(text).ok()?;
        let Outcome {
            kind,
            message,
            error,
        } = answer.result;
        let said = match (kind.as_str(), message, error) {
            ("succeeded", Some(message), _) => LineSays::Answered(200, message),
            // An error's body as a call's: its type says the status.
            ("errored", _, Some(error)) => LineSays::Answered(200, error),
            _ => LineSays::Unanswered(kind),
        };
        Some(Line {
            id: answer.custom_id,
            said,
        })
    }

    async fn cancel(&self, endpoint: &Endpoint, batch: &str) -> Result<(), JudgeError> {
        let address = batches(endpoint, &format!("/{}/cancel", Endpoint::segment(batch)));
        let _cancelled: Batch = endpoint.post(&address, JSON, b"{}".to_vec()).await?;
        Ok(())
    }
}

/// The address of batches, and of what lies below it: beside that of single messages.
fn batches(endpoint: &Endpoint, below: &str) -> String {
    let messages = endpoint.spec.entry().path.split('?').next();
    let messages = messages.unwrap_or_default().trim_end_matches('/');
    endpoint.address(&format!("{messages}/batches{below}"))
}

async fn named(endpoint: &Endpoint, batch: &str) -> Result<Batch, JudgeError> {
    let address = batches(endpoint, &format!("/{}", Endpoint::segment(batch)));
    endpoint.get(&address).await
}

fn running(counts: Option<&Counts>) -> Progress {
    let ended = counts.map(|c| [c.succeeded, c.errored, c.canceled, c.expired]);
    let done = ended.into_iter().flatten().flatten();
    Progress::Running {
        done: done.fold(0, u64::saturating_add),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_an_error_or_says_that_there_is_neither() {
        let line = |result: &str| {
            let text = format!(r#"{{"custom_id":"a","result":{result}}}"#);
            Batches.line(text.as_bytes()).unwrap().said
        };
        for (result, expected) in [
            (
                r#"{"type":"succeeded","message":{"content":[]}}"#,
                r#"{"content":[]}"#,
            ),
            (
                r#"{"type":"errored","error":{"type":"error","error":{"type":"api_error"}}}"#,
                r#"{"type":"error","error":{"type":"api_error"}}"#,
            ),
        ] {
            let LineSays::Answered(200, body) = line(result) else {
                panic!("expected an answer to {result}");
            };
            assert_eq!(body.get(), expected);
        }
        for kind in ["expired", "canceled", "succeeded"] {
            let LineSays::Unanswered(why) = line(&format!(r#"{{"type":"{kind}"}}"#)) else {
                panic!("expected none for {kind}");
            };
            assert_eq!(why, kind);
        }
        assert!(Batches.line(b"{}").is_none());
    }
}
