//! Types of batch endpoints, which accept many calls in one chunk and answer within a day at a reduced price.

use uuid::Uuid;

use super::call::ProviderReply;
use crate::JudgeError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchForm {
    /// OpenAI: a file of calls, a batch of the file, and files of replies and of errors.
    Files,
    /// Anthropic: calls in one request, replies in one file. A batch has only the provider's id, so a lost response can't be recovered.
    Requests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSize {
    pub calls: usize,
    /// Bytes over the wire.
    pub bytes: usize,
}

/// Whether a chunk had room for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    In,
    /// The caller adds it to the next chunk.
    Full,
}

/// Calls of a chunk, as the text of its request.
pub struct Chunk {
    tag: Uuid,
    body: Vec<u8>,
    calls: usize,
    most: ChunkSize,
    separator: &'static str,
    /// Text between a call's id and its body.
    before_body: &'static str,
    end: String,
    content_type: String,
}

impl Chunk {
    /// Returns an empty chunk. Its limits are the smaller ones of `most` and the provider. `tag` is our id of it.
    pub(crate) fn new(form: BatchForm, tag: Uuid, most: ChunkSize) -> Self {
        // No prompt contains it, because the tag is random and new.
        let boundary = format!("gavel-{}", tag.simple());
        let at_most = |calls: usize, bytes: usize| ChunkSize {
            calls: most.calls.min(calls),
            bytes: most.bytes.min(bytes),
        };
        match form {
            BatchForm::Files => Self {
                tag,
                body: format!(
                    "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
                     --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"gavel-{tag}.jsonl\"\r\n\
                     Content-Type: application/jsonl\r\n\r\n"
                )
                .into_bytes(),
                calls: 0,
                most: at_most(50_000, 200_000_000),
                separator: "\n",
                before_body: r#""method":"POST","url":"/v1/chat/completions","body":"#,
                end: format!("\n\r\n--{boundary}--\r\n"),
                content_type: format!("multipart/form-data; boundary={boundary}"),
            },
            BatchForm::Requests => Self {
                tag,
                body: b"{\"requests\":[".to_vec(),
                calls: 0,
                most: at_most(100_000, 256_000_000),
                separator: ",",
                before_body: r#""params":"#,
                end: "]}".to_owned(),
                content_type: "application/json".to_owned(),
            },
        }
    }

    pub fn tag(&self) -> Uuid {
        self.tag
    }

    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Adds a call; its body must be JSON without line breaks.
    pub(super) fn add(&mut self, id: Uuid, body: &[u8]) -> Added {
        let separator = if self.calls == 0 { "" } else { self.separator };
        let head = format!("{separator}{{\"custom_id\":\"{id}\",{}", self.before_body);
        let bytes = self.body.len() + head.len() + body.len() + 1;
        // A call that is too large gets a separate chunk, so that the provider rejects it.
        if self.calls > 0 && (self.calls >= self.most.calls || bytes > self.most.bytes) {
            return Added::Full;
        }
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(body);
        self.body.push(b'}');
        self.calls += 1;
        Added::In
    }

    pub(super) fn ended(mut self) -> (Vec<u8>, String) {
        self.body.extend_from_slice(self.end.as_bytes());
        (self.body, self.content_type)
    }
}

/// A chunk that is ready to submit: the body of that request.
pub struct Uploaded(pub(super) Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkLookup {
    /// The provider's id of it.
    As(String),
    Nowhere,
    /// The provider can't search by our id.
    CantTell,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Number of its calls that have ended.
    Running {
        done: u64,
    },
    /// The replies can be read.
    Ended,
    Refused(String),
    /// The provider's error. The account has a limit of waiting tokens, so a later or smaller chunk may be accepted.
    NoRoom(String),
}

/// The reply to one call of a chunk, unchecked.
#[derive(Debug)]
pub struct CollectedAnswer {
    /// The id passed when the call was added.
    pub asked_for: Uuid,
    pub(crate) ended: Result<ProviderReply, JudgeError>,
}
