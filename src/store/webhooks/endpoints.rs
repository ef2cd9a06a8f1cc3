//! `webhook_endpoints`: who is told of what.

use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use crate::store::database::db::{Conn, retry_once};
use crate::store::database::sql::{DbRow, Sql, first, sql};
use crate::store::{StoreError, Webhooks};
use crate::wire::{NewWebhook, WebhookEvent, WebhookFormat};

/// Where events are sent.
#[derive(Clone, sqlx::FromRow)]
pub struct WebhookEndpoint {
    pub endpoint_id: Uuid,
    pub name: String,
    pub url: String,
    /// What it is signed with; `None`: nothing is.
    pub secret: Option<String>,
    #[sqlx(json)]
    pub events: Vec<WebhookEvent>,
    #[sqlx(try_from = "String")]
    pub format: WebhookFormat,
    /// Whether it is one of the workers' settings.
    pub from_settings: bool,
    /// Who made it.
    pub created_by: String,
    pub created_at: DateTime<Utc>,
}

const ENDPOINT: &str = "select e.endpoint_id, e.name, e.url, e.secret, e.events, e.format, e.from_settings, e.created_by, e.created_at
     from webhook_endpoints e";
const ADDING: &str = "adding a webhook";

impl Webhooks<'_> {
    /// The endpoints, by name; at most 1,000.
    pub async fn endpoints(self) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut statement = sql!("");
        statement.push(ENDPOINT).push(" order by e.name limit 1000");
        self.db
            .read_all("listing webhooks", &statement, DbRow::decode)
            .await
    }

    /// Those of them that something is due for.
    pub async fn due_endpoints(
        self,
        now: DateTime<Utc>,
    ) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut statement = sql!("");
        statement
            .push(ENDPOINT)
            .push(
                " where exists (select 1 from webhook_deliveries d
                    where d.endpoint_id = e.endpoint_id and d.ended_at is null and d.due_at <= ",
            )
            .push_arg(now)
            .push(") limit 1000");
        self.db
            .read_all(
                "looking for webhooks that are due",
                &statement,
                DbRow::decode,
            )
            .await
    }

    /// Adds an endpoint. `None`: another one has its name.
    pub async fn add(
        self,
        new: &NewWebhook,
        created_by: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let mut statement = insert_endpoint(new, Some(created_by), now);
        statement.push(" on conflict (name) do nothing returning endpoint_id, name, url, secret, events, format, from_settings, created_by, created_at");
        first(
            ADDING,
            &self.db.write(ADDING, &statement).await?,
            DbRow::decode,
        )
    }

    /// Stores those of the settings, in the place of others of their names. None is deleted: a worker with other settings has others.
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
        retry_once!("reading webhooks from the settings", async {
            let mut conn: Conn = self.db.writer().await?;
            let mut tx = conn.begin().await?;
            for one in &kept {
                tx.execute(one).await?;
            }
            tx.commit().await
        })
    }

    /// Deletes an endpoint; one of the settings comes back with the next worker that has it. Its deliveries go when the database is pruned. Whether there was one.
    pub async fn remove(self, id: Uuid) -> Result<bool, StoreError> {
        let statement = sql!("delete from webhook_endpoints where endpoint_id = $1", id);
        Ok(self.db.execute("deleting a webhook", &statement).await? > 0)
    }
}

/// `created_by`: `None` for the settings.
fn insert_endpoint(new: &NewWebhook, created_by: Option<&str>, now: DateTime<Utc>) -> Sql {
    sql!(
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
