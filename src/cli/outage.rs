//! Retries requests while the service is unavailable: restarting, behind a failing gateway, or without its database.

use std::time::Duration;

use tokio::time::Instant;

use super::progress::Progress;
use crate::client::ClientError;

const OUTAGE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);

/// Retries a request for a minute while the service is unavailable. The progress shows the reason.
pub(super) async fn retried<T>(
    progress: &Progress,
    send: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    retried_for(OUTAGE, progress, send).await
}

/// Like [`retried`], with another retry budget.
pub(super) async fn retried_for<T>(
    budget: Duration,
    progress: &Progress,
    send: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let begun = Instant::now();
    loop {
        match send().await {
            Err(error) if is_passing(&error) && begun.elapsed() < budget => {
                // The service is available and still processes an earlier attempt of this request.
                if error.problem() != Some("idempotency-key-in-use") {
                    progress.away(&error.to_string(), budget);
                }
                progress.print_if_due();
                tokio::time::sleep(PAUSE.min(budget / 4)).await;
            }
            done => {
                progress.back();
                return done;
            }
        }
    }
}

/// Whether a retry of the request may succeed.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::BrokeOff { .. }
        | ClientError::Away { .. } => true,
        ClientError::Refused(problem) => match problem.name() {
            "judge-not-configured" | "scoring-disabled" => false,
            "idempotency-key-in-use" => true,
            _ => matches!(problem.status, 429 | 500 | 502 | 503 | 504),
        },
        ClientError::Address(_) | ClientError::Unexpected { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_unavailable_service_but_not_other_programs() {
        let base = || "http://gavel".to_owned();
        assert!(is_passing(&ClientError::Away {
            base: base(),
            status: 502
        }));
        assert!(!is_passing(&ClientError::Unexpected {
            base: base(),
            what: "404 Not Found".to_owned()
        }));
    }
}
