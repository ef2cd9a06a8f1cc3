//! Buffer of fetched sessions that aren't stored yet, limited in sessions and bytes.

use uuid::Uuid;

use crate::store::SessionRecord;
use crate::wire::Quality;

const STEP_SESSIONS: usize = 100;
/// Maximum bytes of text buffered before they are stored.
const STEP_BYTES: usize = 16 * 1024 * 1024;

pub(super) enum Fetched {
    Session(Box<SessionRecord>, Option<Quality>),
    Failed(String, String),
}

#[derive(Default)]
pub(super) struct ImportBuffer {
    pub(super) sessions: Vec<SessionRecord>,
    pub(super) unchanged: Vec<String>,
    pub(super) failed: Vec<(String, String)>,
    /// Ratings of sessions that are stored, or will be by this step.
    pub(super) ratings: Vec<(Uuid, Quality)>,
    bytes: usize,
}

impl ImportBuffer {
    pub(super) fn add(&mut self, fetched: Fetched) {
        match fetched {
            Fetched::Session(session, quality) => {
                let rated = quality.map(|quality| (session.session_id, quality));
                self.ratings.extend(rated);
                let messages = session.conversation.iter();
                self.bytes += messages.map(|message| message.content.len()).sum::<usize>();
                self.bytes += session.final_analysis.as_ref().map_or(0, String::len);
                self.sessions.push(*session);
            }
            Fetched::Failed(id, reason) => self.failed.push((id, reason)),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.sessions.len() >= STEP_SESSIONS || self.bytes >= STEP_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.unchanged.is_empty() && self.failed.is_empty()
    }
}
