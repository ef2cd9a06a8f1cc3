//! Webhooks: where events are sent, and what became of that, as `/api/v1/webhooks` tells of them.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::text_enum;

text_enum! {
    /// What a webhook tells.
    pub enum WebhookEvent {
        /// A job ended with a score.
        JobSucceeded = "job.succeeded",
        JobFailed = "job.failed",
        JobCancelled = "job.cancelled",
        /// Each item of a batch has ended.
        BatchCompleted = "batch.completed",
        BatchCancelled = "batch.cancelled",
        /// A batch was completed with a mean that is lower than that of the one before by `webhooks.mean_drop` or more.
        BatchMeanDropped = "batch.mean_dropped",
        /// No job of a judge starts any more, on any worker.
        JudgeClosed = "judge.closed",
        /// Jobs of the judge start again.
        JudgeOpened = "judge.opened",
    }
}

text_enum! {
    /// The form of what is sent.
    pub enum WebhookFormat {
        /// As the Standard Webhooks specification says: type, timestamp and data.
        Standard = "standard",
        /// A text, as Slack and Mattermost take it.
        Slack = "slack",
    }
}

text_enum! {
    /// Where a delivery stands.
    pub enum DeliveryState {
        /// It is sent, or sent again, when its time comes.
        Pending = "pending",
        /// The receiver took it.
        Delivered = "delivered",
        /// It was given up.
        Failed = "failed",
    }
}

/// Where events are to be sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// What people call it, 1-80 characters; no two have the same.
    #[schema(min_length = 1, max_length = 80)]
    pub name: String,
    /// http or https, without a user.
    pub url: String,
    /// `whsec_` and the Base64 of 24 to 64 bytes; left out by the API: one is made.
    #[serde(default)]
    pub secret: Option<String>,
    /// Which events; left out: all.
    #[schema(min_items = 1)]
    #[serde(default = "all_events")]
    pub events: Vec<WebhookEvent>,
    /// What is sent; left out: `standard`.
    #[serde(default = "standard")]
    pub format: WebhookFormat,
}

fn all_events() -> Vec<WebhookEvent> {
    WebhookEvent::ALL.to_vec()
}

fn standard() -> WebhookFormat {
    WebhookFormat::Standard
}

// Neither the secret nor the address, which is a secret where it is Slack's.
impl fmt::Debug for NewWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewWebhook")
            .field("name", &self.name)
            .field("events", &self.events)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// Where events are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Webhook {
    pub webhook_id: Uuid,
    /// What people call it.
    pub name: String,
    pub url: String,
    pub events: Vec<WebhookEvent>,
    pub format: WebhookFormat,
    /// Whether a worker's settings have it: deleted, it comes back with the next start of such a worker.
    pub from_settings: bool,
    pub created_by: String,
    pub created_at: DateTime<Utc>,
}

/// A webhook that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookCreated {
    #[serde(flatten)]
    pub webhook: Webhook,
    /// What its receiver checks signatures with. It isn't shown again.
    pub secret: String,
}

/// The webhooks, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Webhooks {
    /// At most 1,000.
    pub items: Vec<Webhook>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// One event on its way to one webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookDelivery {
    /// The header `webhook-id`, the same at each try.
    pub delivery_id: Uuid,
    /// Whom it is for.
    pub webhook_id: Uuid,
    /// What that is called.
    pub webhook: String,
    pub event: WebhookEvent,
    pub happened_at: DateTime<Utc>,
    /// What is told of it.
    #[schema(value_type = Object)]
    pub data: Value,
    /// Where it stands.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempts: i32,
    /// When it is tried next, while it is pending.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it was delivered or given up.
    pub ended_at: Option<DateTime<Utc>>,
    /// The HTTP status of the last answer; null: none came.
    pub status: Option<i32>,
    /// Why the last try failed.
    pub error: Option<String>,
}

/// A page of deliveries, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookDeliveries {
    pub items: Vec<WebhookDelivery>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}
