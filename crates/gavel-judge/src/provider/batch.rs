//! The nouns of a provider's batch endpoint: many calls handed over in one chunk, answered within a day, at a fraction of the
//! price.

use serde_json::value::RawValue;
use uuid::Uuid;

use super::call::ProviderReply;
use crate::JudgeError;

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
    pub(super) tag: Uuid,
    pub(super) body: Vec<u8>,
    pub(super) calls: usize,
    pub(super) most: ChunkSize,
}

impl Chunk {
    /// Its name among ours.
    pub fn tag(&self) -> Uuid {
        self.tag
    }

    pub fn calls(&self) -> usize {
        self.calls
    }
}

/// A chunk that only needs to be handed over.
pub struct Uploaded {
    pub(super) tag: Uuid,
    /// What is still to be sent: its text, or the provider's name for it.
    pub(super) rest: Vec<u8>,
}

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

/// One line of a chunk's answers.
pub(crate) struct Line {
    /// The id under which the call was added.
    pub(super) id: String,
    pub(super) said: LineSays,
}

pub(crate) enum LineSays {
    /// With this status and body.
    Answered(u16, Box<RawValue>),
    /// Without an answer: why.
    Unanswered(String),
}

/// One question's answer as it came, not checked yet.
#[derive(Debug)]
pub struct CollectedAnswer {
    /// Who asked: the id under which the question was added.
    pub asked_for: Uuid,
    pub(crate) ended: Result<ProviderReply, JudgeError>,
}
