//! Body of a webhook: the event as JSON, or a sentence for Slack.

use chrono::SecondsFormat;
use serde_json::{Value, json};

use crate::store::DeliveryRow;
use crate::wire::{WebhookEvent, WebhookFormat, words};

pub(super) fn body(format: WebhookFormat, delivery: &DeliveryRow) -> String {
    match format {
        WebhookFormat::Standard => json!({
            "type": delivery.event,
            "timestamp": delivery.happened_at.to_rfc3339_opts(SecondsFormat::Micros, true),
            "data": delivery.data,
        }),
        WebhookFormat::Slack => json!({ "text": sentence(delivery) }),
    }
    .to_string()
}

/// Returns the event as a sentence. Names are escaped so that they can't contain Slack markup.
fn sentence(delivery: &DeliveryRow) -> String {
    let field = |name: &str| match delivery.data.get(name) {
        None => String::new(),
        Some(Value::String(text)) => text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;"),
        Some(other) => other.to_string(),
    };
    let percent = |name: &str| words::percent(delivery.data[name].as_f64().unwrap_or_default());
    let batch = match field("name") {
        name if name.is_empty() => format!("Batch {}", field("batch_id")),
        name => format!("Batch {name} ({})", field("batch_id")),
    };
    match delivery.event {
        WebhookEvent::JobSucceeded => match field("total_score") {
            total if total.is_empty() => format!("Job {} succeeded.", field("job_id")),
            total => format!(
                "Job {} succeeded: session {} has {total} of 100 points.",
                field("job_id"),
                field("session_id")
            ),
        },
        WebhookEvent::JobFailed => format!(
            "Job {} failed: {}.",
            field("job_id"),
            field("class").replace('_', " ")
        ),
        WebhookEvent::JobCancelled => format!("Job {} was cancelled.", field("job_id")),
        WebhookEvent::BatchCompleted => format!("{batch} is completed: {} items.", field("items")),
        WebhookEvent::BatchCancelled => format!("{batch} was cancelled."),
        WebhookEvent::BatchMeanDropped => format!(
            "{batch}: the mean dropped from {} to {} (before: batch {}).",
            percent("mean_before"),
            percent("mean"),
            field("batch_before")
        ),
        WebhookEvent::JudgeClosed => {
            format!(
                "Judge {} is closed: {}. Its jobs wait.",
                field("judge"),
                field("reason").replace('_', " ")
            )
        }
        WebhookEvent::JudgeOpened => format!("Judge {} is open again.", field("judge")),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;
    use crate::wire::DeliveryState;

    #[test]
    fn slack_sentence_escapes_markup() {
        let delivery = |event, data| DeliveryRow {
            delivery_no: 1,
            delivery_id: Uuid::nil(),
            endpoint_id: Uuid::nil(),
            endpoint: "ops".to_owned(),
            event,
            data,
            happened_at: DateTime::UNIX_EPOCH,
            state: DeliveryState::Pending,
            attempts: 0,
            due_at: DateTime::UNIX_EPOCH,
            ended_at: None,
            status: None,
            error: None,
        };
        for (event, data, text) in [
            (
                WebhookEvent::BatchMeanDropped,
                json!({"batch_id": "b", "name": "<!channel> & co", "mean": 0.5, "mean_before": 0.75, "batch_before": "a"}),
                "Batch &lt;!channel&gt; &amp; co (b): the mean dropped from 75% to 50% (before: batch a).",
            ),
            (
                WebhookEvent::JobFailed,
                json!({"job_id": "j", "class": "wait_expired"}),
                "Job j failed: wait expired.",
            ),
            (
                WebhookEvent::JobSucceeded,
                json!({"job_id": "j", "session_id": "s", "total_score": 70}),
                "Job j succeeded: session s has 70 of 100 points.",
            ),
            (
                WebhookEvent::BatchCompleted,
                json!({"batch_id": "b", "items": 3}),
                "Batch b is completed: 3 items.",
            ),
        ] {
            let body: Value =
                serde_json::from_str(&body(WebhookFormat::Slack, &delivery(event, data))).unwrap();
            assert_eq!(body, json!({ "text": text }));
        }
    }
}
