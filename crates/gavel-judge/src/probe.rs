//! Whether a judge answers: one call of one token, past gate, cache and call log.
//!
//! It finds a wrong address, key or model before the first job does. Never retries, except to leave out a field that the
//! server refuses.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::provider::{CallRequest, ProviderMaker, ProviderReply};
use super::{ErrorClass, JudgeError, JudgeSpec};
use gavel_clock::Clock;

/// A server that refuses field after field is asked so often.
const MOST_CALLS: u32 = 8;

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The model, as reported.
    pub model: String,
    /// How long the answer took.
    pub took: Duration,
    /// Whether the answer says that it is simulated.
    pub simulated: bool,
}

/// Asks a judge for one token. It costs about as much as that token and a dozen of input.
///
/// # Errors
/// What a job would meet: the class, and a message that names the judge and shows no secret.
pub async fn probe(spec: &JudgeSpec, clock: &Arc<dyn Clock>) -> Result<Probed, JudgeError> {
    let provider = ProviderMaker::default().make(spec, clock);
    let request = CallRequest::harmless(1);
    let mut calls = 0;
    loop {
        calls += 1;
        let sent = Instant::now();
        match provider.call(&request).await.ended {
            Ok(ProviderReply {
                error: Some(error), ..
            }) => return Err(error),
            // Cut off after its one token, as asked for; a refusal is an answer too.
            Ok(reply) => {
                return Ok(Probed {
                    model: reply.model,
                    took: sent.elapsed(),
                    simulated: reply.simulated || spec.simulated(),
                });
            }
            Err(error) if error.class == ErrorClass::Capability && calls < MOST_CALLS => {}
            // Reasoning models answer so where one token isn't enough for a thought.
            Err(error) if error.class == ErrorClass::Truncated => {
                return Ok(Probed {
                    model: spec.model().to_owned(),
                    took: sent.elapsed(),
                    simulated: spec.simulated(),
                });
            }
            Err(error) => return Err(error),
        }
    }
}
