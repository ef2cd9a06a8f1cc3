//! `webhook_endpoints`: receivers of events.

use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use crate::store::database::db::transact;
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, Statement, sql, step};
use crate::store::{StoreError, Webhooks};
use crate::wire::{NewWebhook, WebhookEvent, WebhookFormat};

#[derive(Clone, sqlx::FromRow)]
pub struct WebhookEndpoint {
    pub endpoint_id: Uuid,
    pub name: String,
    pub url: String,
    /// Signing secret; `None`: unsigned.
    pub secret: Option<String>,
    #[sqlx(json)]
    pub events: Vec<WebhookEvent>,
    #[sqlx(try_from = "String")]
    pub format: WebhookFormat,
    /// Whether it is from the workers' settings.
    pub from_settings: bool,
    pub created_by: String,
    pub created_at: DateTime<Utc>,
}

const ENDPOINT: &str = "select e.endpoint_id, e.name, e.url, e.secret, e.events, e.format, e.from_settings, e.created_by, e.created_at
     from webhook_endpoints e";

impl Webhooks<'_> {
    /// Lists the endpoints by name; at most 1,000.
    pub async fn endpoints(self) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut statement = sql!("listing webhooks", "");
        statement.push(ENDPOINT).push(" order by e.name limit 1000");
        self.db.read(&statement).await
    }

    pub async fn due_endpoints(
        self,
        now: DateTime<Utc>,
    ) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut statement = sql!("looking for webhooks that are due", "");
        statement
            .push(ENDPOINT)
            .push(
                " where exists (select 1 from webhook_deliveries d
                    where d.endpoint_id = e.endpoint_id and d.ended_at is null and d.due_at <= ",
            )
            .push_arg(now)
            .push(") limit 1000");
        self.db.read(&statement).await
    }

    /// Adds an endpoint. `None`: the name exists.
    pub async fn add(
        self,
        new: &NewWebhook,
        created_by: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let mut statement = Statement::new(
            "adding a webhook",
            insert_endpoint(new, Some(created_by), now),
        );
        statement.push(" on conflict (name) do nothing returning endpoint_id, name, url, secret, events, format, from_settings, created_by, created_at");
        self.db.write_one(&statement).await
    }

    /// Stores the endpoints of the settings, replacing those with the same names. Deletes none, because another worker may have
    /// other settings.
    pub async fn keep_settings(
        self,
        settings: &[NewWebhook],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let kept: Vec<Sql> = settings
            .iter()
            .map(|new| {
                let mut statement = insert_endpoint(new, None, now);
                statement.push(
                    " on conflict (name) do update set url = excluded.url, secret = excluded.secret, events = excluded.events,
                        format = excluded.format, from_settings = true",
                );
                statement
            })
            .collect();
        transact!(
            self.db,
            "reading webhooks from the settings",
            Purpose::Any,
            |tx| {
                for one in &kept {
                    tx.execute(one).await?;
                }
            }
        )
    }

    /// Deletes an endpoint and returns whether it existed. An endpoint of the settings returns with the next worker that has
    /// it. Pruning deletes its deliveries.
    pub async fn remove(self, id: Uuid) -> Result<bool, StoreError> {
        let statement = sql!(
            "deleting a webhook",
            "delete from webhook_endpoints where endpoint_id = $1",
            id
        );
        Ok(self.db.execute(&statement).await? > 0)
    }
}

/// `created_by`: `None` for the settings.
fn insert_endpoint(new: &NewWebhook, created_by: Option<&str>, now: DateTime<Utc>) -> Sql {
    step!(
        "insert into webhook_endpoints (endpoint_id, name, url, secret, events, format, from_settings, created_by, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        Uuid::now_v7(),
        &new.name,
        &new.url,
        new.secret.as_deref(),
        json!(new.events),
        new.format.as_str(),
        created_by.is_none(),
        created_by.unwrap_or("settings"),
        now
    )
}
