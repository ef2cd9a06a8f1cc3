//! Replies of a chunk, read line by line, because a file may have 200 MB.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use tokio::io::AsyncRead;
use tokio::time::timeout;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

use super::{Endpoint, batch::line};
use crate::JudgeError;
use crate::error::ErrorClass;
use crate::provider::batch::CollectedAnswer;
use crate::provider::http::broken;

/// Longer lines are skipped.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
/// Time without a line after which the connection counts as broken.
const SILENCE: Duration = Duration::from_secs(60);

type Lines = FramedRead<Box<dyn AsyncRead + Send + Unpin>, AnyDelimiterCodec>;

pub struct Answers<'a> {
    endpoint: &'a Endpoint,
    /// Files not read yet.
    addresses: VecDeque<String>,
    open: Option<Lines>,
}

impl<'a> Answers<'a> {
    /// Finds the files of a chunk that has ended.
    pub(crate) async fn of_batch(endpoint: &'a Endpoint, batch: &str) -> Result<Self, JudgeError> {
        Ok(Self {
            endpoint,
            addresses: endpoint.results(batch).await?,
            open: None,
        })
    }

    /// Returns the next reply; `None` at the end.
    ///
    /// # Errors
    /// If the connection breaks. The caller reads all replies again and skips those already stored.
    pub async fn next(&mut self) -> Result<Option<CollectedAnswer>, JudgeError> {
        loop {
            let Some(lines) = &mut self.open else {
                let Some(address) = self.addresses.pop_front() else {
                    return Ok(None);
                };
                self.open = Some(lines_of(self.endpoint.stream(&address).await?));
                continue;
            };
            let why = match timeout(SILENCE, lines.next()).await {
                Ok(None) => {
                    self.open = None;
                    continue;
                }
                Ok(Some(Ok(text))) => match self.read(&text) {
                    Some(collected) => return Ok(Some(collected)),
                    None => continue,
                },
                Ok(Some(Err(AnyDelimiterCodecError::MaxChunkLengthExceeded))) => {
                    // The codec's stream ends once after an error and then continues with the next line.
                    let _once = lines.next().await;
                    continue;
                }
                Ok(Some(Err(AnyDelimiterCodecError::Io(error)))) => error.to_string(),
                Err(_) => format!("no line came for {} s", SILENCE.as_secs()),
            };
            return Err(self.failed(&format!("broke off the answers of a batch: {why}")));
        }
    }

    /// Reads the reply to one call. A call with an invalid line counts as unanswered.
    fn read(&self, text: &[u8]) -> Option<CollectedAnswer> {
        if text.trim_ascii().is_empty() {
            return None;
        }
        let Some((asked_for, said)) = line(text) else {
            tracing::warn!(
                judge = self.endpoint.spec.name(),
                bytes = text.len(),
                "a line of a provider's batch can't be read; its call counts as unanswered"
            );
            return None;
        };
        let ended = match said {
            Ok(exchange) => self.endpoint.reply(exchange),
            Err(why) => Err(self.failed(&format!("left a call of a batch unanswered: {why}"))),
        };
        Some(CollectedAnswer { asked_for, ended })
    }

    fn failed(&self, words: &str) -> JudgeError {
        self.endpoint.error(ErrorClass::Transient, None, words)
    }
}

fn lines_of(response: reqwest::Response) -> Lines {
    let broke = |error| io::Error::other(broken(None, "the connection broke", &error).message);
    let reader = StreamReader::new(response.bytes_stream().map_err(broke).boxed());
    let newline = b"\n".to_vec();
    let codec = AnyDelimiterCodec::new_with_max_length(newline.clone(), newline, MAX_LINE_BYTES);
    FramedRead::new(Box::new(reader), codec)
}
