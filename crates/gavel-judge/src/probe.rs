//! Probe of a judge: one call of one token that bypasses gate, cache and call log.
//!
//! Detects a wrong address, key or model before the first job. Retries only to omit a field that the server rejects.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::provider::{CallRequest, ProviderMaker, ProviderReply};
use super::{ErrorClass, JudgeError, JudgeSpec};
use gavel_clock::Clock;

/// Maximum calls to a server that rejects field after field.
const MAX_CALLS: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    pub model: String,
    pub took: Duration,
    /// Whether the reply is marked as simulated.
    pub simulated: bool,
}

/// Requests one token at the cost of about a dozen input tokens. Errors name the judge and contain no secret.
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
            // Truncated after one token as requested, or declined. Both show that the judge works.
            Ok(reply) => {
                return Ok(Probed {
                    model: reply.model,
                    took: sent.elapsed(),
                    simulated: reply.simulated || spec.simulated(),
                });
            }
            Err(error) if error.class == ErrorClass::Capability && calls < MAX_CALLS => {}
            // Reasoning models return this if one token is not enough for their reasoning.
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
