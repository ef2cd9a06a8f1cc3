//! What a provider's batch endpoint can be asked for, and the nouns of it.
//!
//! It says nothing of families: `endpoint` speaks for all of them.

use async_trait::async_trait;
use uuid::Uuid;

use super::{CallRequest, ProviderReply, Results};
use crate::judge::JudgeError;

/// A provider's batch endpoint: many calls handed over in one chunk, answered within a day, at a fraction of the price.
///
/// Like a call, each method asks once. An error is about the chunk, never about one of its calls.
#[async_trait]
pub(in crate::judge) trait Batches: Send + Sync {
    /// An empty chunk. `tag` is its name among ours.
    fn chunk(&self, tag: Uuid, most: ChunkSize) -> Chunk;

    /// Adds a call under an id of its own; `Full` leaves the chunk as it was.
    fn add(&self, chunk: &mut Chunk, id: Uuid, request: &CallRequest) -> Result<Added, JudgeError>;

    /// Brings the chunk's calls to the provider, as far as it takes them beforehand; nothing is answered or billed yet.
    async fn upload(&self, chunk: Chunk) -> Result<Uploaded, JudgeError>;

    /// Hands the chunk over; the provider's own name for it.
    async fn submit(&self, chunk: Uploaded) -> Result<String, JudgeError>;

    /// Looks for a chunk that may have been handed over.
    async fn find(&self, tag: Uuid) -> Result<Found, JudgeError>;

    /// How far a chunk is.
    async fn look(&self, batch: &str) -> Result<Progress, JudgeError>;

    /// The answers of a chunk that has ended, in any order.
    async fn collect(&self, batch: &str) -> Result<Results<'_>, JudgeError>;

    /// Asks the provider to answer no more of it. What was answered can be collected once it has ended.
    async fn cancel(&self, batch: &str) -> Result<(), JudgeError>;
}

/// How large a chunk may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSize {
    /// Calls.
    pub calls: usize,
    /// Bytes over the wire.
    pub bytes: usize,
}

/// Whether a call found room in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is in.
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

    /// The calls in it.
    pub fn calls(&self) -> usize {
        self.calls
    }
}

/// A chunk that only needs to be handed over.
pub struct Uploaded {
    pub(super) tag: Uuid,
    pub(super) content: Sent,
}

/// What the provider has of a chunk by then.
pub(super) enum Sent {
    /// All of it, under this name.
    Whole(String),
    /// Nothing: its text goes out with the request.
    Nothing(Vec<u8>),
}

/// What a provider knows of a chunk that may have been handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
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
        /// All, as far as the provider has counted them.
        total: u64,
    },
    /// Whatever was answered can be collected.
    Ended,
    /// The provider finds fault with it: what.
    Refused(String),
    /// The provider holds as much of ours as it takes: its words. Later, or smaller, it may take it.
    NoRoom(String),
}

/// One call's end.
#[derive(Debug)]
pub(in crate::judge) struct Collected {
    /// The id under which it was added.
    pub(in crate::judge) id: Uuid,
    pub(in crate::judge) ended: Result<ProviderReply, JudgeError>,
}
