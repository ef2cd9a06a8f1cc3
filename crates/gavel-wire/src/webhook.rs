//! Types of `/api/v1/webhooks`: endpoints and deliveries.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::text_enum;

text_enum! {
    pub enum WebhookEvent {
        JobSucceeded = "job.succeeded",
        JobFailed = "job.failed",
        JobCancelled = "job.cancelled",
        /// All items of a batch have ended.
        BatchCompleted = "batch.completed",
        BatchCancelled = "batch.cancelled",
        /// A batch completed with a mean at least `webhooks.mean_drop` below the mean of the previous batch.
        BatchMeanDropped = "batch.mean_dropped",
        /// No worker starts jobs of the judge any more.
        JudgeClosed = "judge.closed",
        /// Jobs of the judge start again.
        JudgeOpened = "judge.opened",
    }
}

text_enum! {
    pub enum WebhookFormat {
        /// Standard Webhooks specification: type, timestamp and data.
        Standard = "standard",
        /// A text for Slack and Mattermost.
        Slack = "slack",
    }
}

text_enum! {
    pub enum DeliveryState {
        Pending = "pending",
        /// The receiver accepted it.
        Delivered = "delivered",
        /// All attempts failed.
        Failed = "failed",
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Unique name, 1-80 characters.
    #[schema(min_length = 1, max_length = 80)]
    pub name: String,
    /// http or https, without user info.
    pub url: String,
    /// `whsec_` and the Base64 of 24 to 64 bytes. The API generates one if absent.
    #[serde(default)]
    pub secret: Option<String>,
    /// Default: all events.
    #[schema(min_items = 1)]
    #[serde(default = "all_events")]
    pub events: Vec<WebhookEvent>,
    /// Default: `standard`.
    #[serde(default = "standard")]
    pub format: WebhookFormat,
}

fn all_events() -> Vec<WebhookEvent> {
    WebhookEvent::ALL.to_vec()
}

fn standard() -> WebhookFormat {
    WebhookFormat::Standard
}

// Omits the secret and the URL, because a Slack URL is a secret.
impl fmt::Debug for NewWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewWebhook")
            .field("name", &self.name)
            .field("events", &self.events)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Webhook {
    pub webhook_id: Uuid,
    pub name: String,
    pub url: String,
    pub events: Vec<WebhookEvent>,
    pub format: WebhookFormat,
    /// Whether a worker's settings define it. If deleted, the next start of such a worker creates it again.
    pub from_settings: bool,
    pub created_by: String,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookCreated {
    #[serde(flatten)]
    pub webhook: Webhook,
    /// Key for verifying signatures. It isn't shown again.
    pub secret: String,
}

/// Webhooks, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Webhooks {
    /// At most 1,000.
    pub items: Vec<Webhook>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

/// Delivery of one event to one webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookDelivery {
    /// Value of the header `webhook-id`, the same in all attempts.
    pub delivery_id: Uuid,
    pub webhook_id: Uuid,
    pub webhook: String,
    pub event: WebhookEvent,
    pub happened_at: DateTime<Utc>,
    #[schema(value_type = Object)]
    pub data: Value,
    pub state: DeliveryState,
    pub attempts: i32,
    /// Time of the next attempt while pending.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Time of success or final failure.
    pub ended_at: Option<DateTime<Utc>>,
    /// HTTP status of the last response. Null without a response.
    pub status: Option<i32>,
    pub error: Option<String>,
}

/// A page of deliveries, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookDeliveries {
    pub items: Vec<WebhookDelivery>,
    pub next_cursor: Option<String>,
}
