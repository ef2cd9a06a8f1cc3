//! The answers of a chunk, line by line: a file of 200 MB is never held.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use super::Endpoint;
use super::batch::BatchApi;
use crate::JudgeError;
use crate::error::ErrorClass;
use crate::provider::batch::{CollectedAnswer, LineSays};
use crate::provider::http::broken;

/// A line that is longer holds no reply.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// A file of which nothing comes for so long has broken off.
const SILENCE: Duration = Duration::from_secs(60);

/// The answers of a chunk, in the provider's order.
pub struct Answers<'a> {
    endpoint: &'a Endpoint,
    api: &'static dyn BatchApi,
    /// Files that are still to be read.
    addresses: VecDeque<String>,
    open: Option<Lines>,
}

impl<'a> Answers<'a> {
    /// The answers of a chunk that has ended, in any order.
    pub(crate) async fn of_batch(
        endpoint: &'a Endpoint,
        api: &'static dyn BatchApi,
        batch: &str,
    ) -> Result<Self, JudgeError> {
        Ok(Self {
            endpoint,
            api,
            addresses: api.results(endpoint, batch).await?.into(),
            open: None,
        })
    }

    /// The next answer, in the provider's order; `None` at the end.
    ///
    /// # Errors
    /// Where the answers break off: collect them again, what was accepted is known.
    pub async fn next(&mut self) -> Result<Option<CollectedAnswer>, JudgeError> {
        loop {
            let Some(lines) = &mut self.open else {
                let Some(address) = self.addresses.pop_front() else {
                    return Ok(None);
                };
                let response = self.endpoint.stream(&address).await?;
                self.open = Some(Lines::new(response));
                continue;
            };
            match lines.next().await {
                Err(what) => {
                    return Err(self.trouble(&format!("broke off the answers of a batch: {what}")));
                }
                Ok(None) => self.open = None,
                Ok(Some(text)) => {
                    if let Some(collected) = self.read(&text) {
                        return Ok(Some(collected));
                    }
                }
            }
        }
    }

    /// What a line says of one of our calls. A line that says nothing leaves its call unanswered.
    fn read(&self, text: &[u8]) -> Option<CollectedAnswer> {
        let known = self
            .api
            .line(text)
            .and_then(|line| Some((Uuid::parse_str(&line.id).ok()?, line.said)));
        let Some((id, said)) = known else {
            tracing::warn!(
                judge = self.endpoint.spec.name(),
                bytes = text.len(),
                "a line of a provider's batch can't be read; its call counts as unanswered"
            );
            return None;
        };
        let ended = match said {
            LineSays::Answered(status, body) => self.endpoint.reply(status, body.get().as_bytes()),
            LineSays::Unanswered(why) => {
                Err(self.trouble(&format!("left a call of a batch unanswered: {why}")))
            }
        };
        Some(CollectedAnswer {
            asked_for: id,
            ended,
        })
    }

    fn trouble(&self, words: &str) -> JudgeError {
        self.endpoint.batch_error(ErrorClass::Transient, words)
    }
}

/// A body by lines.
struct Lines {
    response: reqwest::Response,
    /// What was read and not given yet.
    held: Vec<u8>,
    /// How far `held` was searched for a line's end.
    searched: usize,
    /// Whether the rest of a line is skipped, since it is too long.
    skipping: bool,
}

impl Lines {
    fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            held: Vec::new(),
            searched: 0,
            skipping: false,
        }
    }

    /// The next line that isn't empty; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let unsearched = self.held.get(self.searched..).unwrap_or_default();
            let end = unsearched.iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let rest = self.held.split_off(self.searched + end + 1);
                let line = std::mem::replace(&mut self.held, rest);
                self.searched = 0;
                if !std::mem::take(&mut self.skipping) && !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
                continue;
            }
            self.searched = self.held.len();
            if self.searched > LONGEST_LINE {
                self.skipping = true;
                self.held.clear();
                self.searched = 0;
            }
            match timeout(SILENCE, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.held.extend_from_slice(&chunk),
                Ok(Ok(None)) => {
                    // The last line may end with the file.
                    self.searched = 0;
                    let last = std::mem::take(&mut self.held);
                    return Ok(
                        Some(last).filter(|line| !line.trim_ascii().is_empty() && !self.skipping)
                    );
                }
                Ok(Err(error)) => return Err(broken(None, "the connection broke", &error).message),
                Err(_) => return Err(format!("nothing came for {} s", SILENCE.as_secs())),
            }
        }
    }
}
