//! Checks the service of `--server`: its health, and whether it has a worker and a judge for new jobs.

use super::super::outcome::CliError;
use super::super::output::after_colon;
use super::Check;
use crate::client::{Client, ClientError};
use crate::wire::{Hold, Judge, WaitReason};

/// Runs the checks over HTTP. If the service doesn't respond, there is only that error.
pub(super) async fn check(client: &Client) -> Vec<Check> {
    let what = format!("service {}", client.address(""));
    let ready = match client.ready().await {
        Ok(ready) => ready,
        Err(error) => return vec![failed_check(what, error)],
    };
    let found = match ready.reasons.is_empty() {
        true => Ok("is ready".to_owned()),
        false => Err(ready.reasons.join("; ")),
    };
    let mut checks = vec![Check::new(what, found)];
    checks.push(match client.queue().await {
        Ok(queue) => Check::new("queue", flows(queue.hold.as_ref())),
        Err(error) => failed_check("queue", error),
    });
    match client.judges().await {
        Ok(judges) => {
            let in_use = judges.items.iter().filter(|judge| !judge.kinds.is_empty());
            let check = |judge: &Judge| Check::new(format!("judge {}", judge.name), state(judge));
            checks.extend(in_use.map(check));
        }
        Err(error) => checks.push(failed_check("judges", error)),
    }
    checks.push(match client.workers().await {
        Ok(workers) => {
            let alive = workers.items.iter().filter(|worker| worker.alive).count();
            let found = match alive {
                0 => Err("no worker is alive: start one with `gavel worker`"),
                alive => Ok(format!("{alive} alive")),
            };
            Check::new("workers", found)
        }
        Err(error) => failed_check("workers", error),
    });
    checks
}

fn flows(hold: Option<&Hold>) -> Result<String, String> {
    match hold {
        None => Ok("is open".to_owned()),
        Some(hold) => Err(format!(
            "is {} {}; `gavel queue resume` lets jobs start again",
            hold.reason,
            hold.text()
        )),
    }
}

fn state(judge: &Judge) -> Result<String, String> {
    let (state, detail) = judge.state_text();
    let text = format!("{state}{}", after_colon(&detail));
    match &judge.hold {
        Some(hold) if hold.reason == WaitReason::Budget => Err(text),
        Some(_) => Err(format!(
            "{text}; `gavel judges resume {}` once that is fixed",
            judge.name
        )),
        None if !judge.configured => Err(text),
        None => match judge.gates.iter().any(|gate| gate.breaker == "open") {
            true => Err(format!(
                "its breaker is open: {}",
                judge
                    .last_error()
                    .map_or("its calls fail", |(error, _)| error)
            )),
            false => Ok("available".to_owned()),
        },
    }
}

fn failed_check(what: impl Into<String>, error: ClientError) -> Check {
    Check::new(what, Err(CliError::from(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stopped_judge_is_an_error_with_remedy() {
        let judge = |breaker: &str| -> Judge {
            let gate = json!({"worker_id": uuid::Uuid::nil(), "breaker": breaker, "reason": null, "until": null, "failures_in_row": 5,
                "in_flight": 0, "last_error": "500 from the judge", "last_error_at": null, "pace": null, "updated_at": "2026-01-01T00:00:00Z"});
            let spent = json!({"today_usd": 0.0, "month_usd": 0.0, "today_unpriced_calls": 0, "unpriced_calls": 0});
            serde_json::from_value(json!({"name": "main", "configured": true, "remedy": null, "simulated": false, "kinds": ["session"],
                "hold": null, "gates": [gate], "spent": spent, "cap": null}))
            .unwrap()
        };
        assert_eq!(state(&judge("closed")), Ok("available".to_owned()));
        assert_eq!(
            state(&judge("open")),
            Err("its breaker is open: 500 from the judge".to_owned())
        );
        for (reason, remedy) in [
            ("budget", "raise the cap"),
            ("exhausted", "gavel judges resume main"),
        ] {
            let hold = json!({"reason": reason, "message": "", "set_by": "gavel", "since": "2026-01-01T00:00:00Z", "until": null});
            let held = Judge {
                hold: serde_json::from_value(hold).unwrap(),
                ..judge("closed")
            };
            let said = state(&held).unwrap_err();
            assert!(said.contains(remedy), "{said}");
        }
    }
}
