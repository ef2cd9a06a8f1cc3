//! A log of Inspect in JSON: each sample of each epoch is a session. What Inspect's own scorers said, and the target, are left out:
//! they would sway the judge.

use serde_json::Value;

use super::calls::tool_names;
use super::field::{moment, rfc3339, text};
use super::messages::failure;
use super::parts::{NO_MESSAGE, read_message};
use super::transcript::conversation;
use super::{Placed, fault, identify};
use crate::history::ingest::input::{SessionFault, SessionInput};
use crate::wire::{SessionFormat, SessionStatus};

pub(super) fn read(log: &Value) -> Result<Vec<Placed>, Vec<SessionFault>> {
    let Some(samples) = log["samples"]
        .as_array()
        .filter(|samples| !samples.is_empty())
    else {
        let message = "holds no sample; write the log whole and as JSON: inspect log convert LOG --to json --output-dir DIR";
        return Err(vec![fault("/samples", message)]);
    };
    let (mut sessions, mut faults) = (Vec::new(), Vec::new());
    for (n, sample) in samples.iter().enumerate() {
        match session(&log["eval"], sample) {
            Ok(session) => sessions.push((format!("sample {n}"), session)),
            Err((pointer, message)) => {
                faults.push(fault(format!("/samples/{n}{pointer}"), message))
            }
        }
    }
    if faults.is_empty() {
        Ok(sessions)
    } else {
        Err(faults)
    }
}

fn session(eval: &Value, sample: &Value) -> Result<SessionInput, (String, &'static str)> {
    let Some(messages) = sample["messages"]
        .as_array()
        .filter(|messages| !messages.is_empty())
    else {
        let message = "holds no message; a sample's whole conversation is expected";
        return Err(("/messages".to_owned(), message));
    };
    let mut said = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let read = read_message(message, "assistant");
        said.extend(read.ok_or_else(|| (format!("/messages/{n}"), NO_MESSAGE))?);
    }
    said.extend(failure(&sample["error"]));
    let (conversation, final_analysis) = conversation(said);
    let offered = sample["events"].as_array().into_iter().flatten();
    let offered = offered
        .filter(|event| event["event"] == "model")
        .find_map(|event| event.get("tools"));
    let failed = !sample["error"].is_null();
    let status = if failed {
        SessionStatus::Failed
    } else {
        SessionStatus::Completed
    };
    let time = |name: &str| moment(&sample[name]).map(rfc3339);
    let mut session = SessionInput {
        status: Some(status.as_str().to_owned()),
        alert_type: text(eval, "task"),
        agent: text(eval, "model"),
        conversation,
        final_analysis,
        tools: offered.map(tool_names).unwrap_or_default(),
        started_at: time("started_at"),
        completed_at: time("completed_at"),
        ..SessionInput::default()
    };
    let within = || {
        let run = text(eval, "eval_id run_id")?;
        let (id, epoch) = (
            text(sample, "id")?,
            text(sample, "epoch").unwrap_or_default(),
        );
        Some(format!("{run}/{id}/{epoch}"))
    };
    identify(
        &mut session,
        SessionFormat::Inspect,
        text(sample, "uuid").or_else(within),
        sample,
    );
    Ok(session)
}
