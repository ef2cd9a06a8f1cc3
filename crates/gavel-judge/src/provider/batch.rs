//! The nouns of a provider's batch endpoint: many calls handed over in one chunk, answered within a day, at a fraction of the
//! price.

use serde_json::value::RawValue;
use uuid::Uuid;

use super::call::ProviderReply;
use crate::JudgeError;

/// How a kind of provider takes batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchForm {
    /// OpenAI: a file of calls, a batch of the file, files of answers and of errors.
    Files,
    /// Anthropic: calls in one request, answers in one file. A batch has no name but the provider's: whether one that was handed
    /// over arrived can't be asked.
    Requests,
}

/// How large a chunk may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSize {
    pub calls: usize,
    /// Bytes over the wire.
    pub bytes: usize,
}

/// Whether a call found room in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    In,
    /// It goes into the next one.
    Full,
}

/// Calls on their way into a provider's batch: their text as it is sent, held once.
pub struct Chunk {
    tag: Uuid,
    body: Vec<u8>,
    calls: usize,
    most: ChunkSize,
    /// What stands between two calls, between a call's id and its body, and behind the last call.
    separator: &'static str,
    before_body: &'static str,
    end: String,
    /// The type of the text.
    kind: String,
}

impl Chunk {
    /// An empty one, no larger than `most` and than the provider takes. `tag` is its name among ours.
    pub(crate) fn new(form: BatchForm, tag: Uuid, most: ChunkSize) -> Self {
        // No prompt holds it: the tag is random, and made when the chunk is begun.
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
                kind: format!("multipart/form-data; boundary={boundary}"),
            },
            BatchForm::Requests => Self {
                tag,
                body: b"{\"requests\":[".to_vec(),
                calls: 0,
                most: at_most(100_000, 256_000_000),
                separator: ",",
                before_body: r#""params":"#,
                end: "]}".to_owned(),
                kind: "application/json".to_owned(),
            },
        }
    }

    /// Its name among ours.
    pub fn tag(&self) -> Uuid {
        self.tag
    }

    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Adds one call, whose body is JSON without line breaks. A chunk that is full stays as it is.
    pub(super) fn add(&mut self, id: Uuid, body: &[u8]) -> Added {
        let separator = if self.calls == 0 { "" } else { self.separator };
        let head = format!("{separator}{{\"custom_id\":\"{id}\",{}", self.before_body);
        let bytes = self.body.len() + head.len() + body.len() + 1;
        // One that is too large by itself goes alone: the provider says what it thinks of it.
        if self.calls > 0 && (self.calls >= self.most.calls || bytes > self.most.bytes) {
            return Added::Full;
        }
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(body);
        self.body.push(b'}');
        self.calls += 1;
        Added::In
    }

    /// Its whole text, and the type of that.
    pub(super) fn ended(mut self) -> (Vec<u8>, String) {
        self.body.extend_from_slice(self.end.as_bytes());
        (self.body, self.kind)
    }
}

/// A chunk that only needs to be handed over: the body of the request that does so.
pub struct Uploaded(pub(super) Vec<u8>);

/// What a provider knows of a chunk that may have been handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkLookup {
    /// It has it, under this name.
    As(String),
    /// It never got it.
    Nowhere,
    /// It can't be asked by our name.
    CantTell,
}

/// How far a chunk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// So many of its calls have ended.
    Running {
        /// Those that have.
        done: u64,
    },
    /// Whatever was answered can be collected.
    Ended,
    /// The provider finds fault with it: what.
    Refused(String),
    /// The provider holds as much of ours as it takes: its words. Later, or smaller, it may take it.
    NoRoom(String),
}

/// What a line of a chunk's answers says of one call: a status with a body, or why there is none.
pub(super) type LineSays = Result<(u16, Box<RawValue>), String>;

/// One question's answer as it came, not checked yet.
#[derive(Debug)]
pub struct CollectedAnswer {
    /// Who asked: the id under which the question was added.
    pub asked_for: Uuid,
    pub(crate) ended: Result<ProviderReply, JudgeError>,
}
