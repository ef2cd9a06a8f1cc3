//! `webhook_deliveries`: events to send and their state. Triggers insert the events of ended jobs and batches in the same
//! transaction. Does not send.

mod endpoints;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::job::WaitReason;
use crate::store::database::db::{Db, transact};
use crate::store::database::page::{Cursor, Page, bounded};
use crate::store::database::row::{DbRow, Decoded, decode};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, long_sql, sql, step};
use crate::store::{Batches, StoreError};
use crate::wire::{DeliveryState, WebhookEvent};

pub use endpoints::WebhookEndpoint;

#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRow {
    /// Order of all deliveries.
    pub delivery_no: i64,
    /// Same for all tries.
    pub delivery_id: Uuid,
    pub endpoint_id: Uuid,
    pub endpoint: String,
    pub event: WebhookEvent,
    /// Payload without null fields.
    pub data: Value,
    pub happened_at: DateTime<Utc>,
    pub state: DeliveryState,
    pub attempts: i32,
    /// Time of the next try, while it is pending.
    pub due_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    pub status: Option<i32>,
    /// Error of the last try.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryTry {
    pub state: DeliveryState,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub at: DateTime<Utc>,
    /// Time of the next try, if it is pending.
    pub due_at: DateTime<Utc>,
}

/// Filter of the list; set fields are combined by AND.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryFilter {
    pub endpoint_id: Option<Uuid>,
    pub state: Option<DeliveryState>,
}

/// Means of a batch and of the one before, if the mean dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanDrop {
    /// 0-1, of the batch and of the one before.
    pub mean: f64,
    pub mean_before: f64,
    pub batch_before: Uuid,
}

const DELIVERY: &str = "select d.delivery_no, d.delivery_id, d.endpoint_id, e.name as endpoint, d.event, d.data, d.happened_at, d.state,
        d.attempts, d.due_at, d.ended_at, d.status, d.error
     from webhook_deliveries d join webhook_endpoints e on e.endpoint_id = d.endpoint_id";
/// Prefix of the list's cursors.
const LIST: char = 'w';

#[derive(Clone, Copy)]
pub struct Webhooks<'a> {
    pub(super) db: &'a Db,
    pub(super) batches: Batches<'a>,
}

impl Webhooks<'_> {
    /// Returns the due deliveries of an endpoint: the first of each subject, so that events of one job arrive in order.
    pub async fn due(
        self,
        endpoint_id: Uuid,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        let mut statement = sql!("reading due deliveries of a webhook", "");
        statement
            .push(DELIVERY)
            .push(" where d.endpoint_id = ")
            .push_arg(endpoint_id);
        statement
            .push(" and d.ended_at is null and d.due_at <= ")
            .push_arg(now);
        statement
            .push(
                " and not exists (select 1 from webhook_deliveries b where b.endpoint_id = d.endpoint_id and b.subject = d.subject
                    and b.ended_at is null and b.delivery_no < d.delivery_no)
                 order by d.due_at, d.delivery_no limit ",
            )
            .push_arg(limit);
        self.db.read(&statement).await
    }

    /// Stores the result of a try, unless another worker's try has ended the delivery.
    pub async fn tried(self, delivery_id: Uuid, tried: &DeliveryTry) -> Result<(), StoreError> {
        let ended_at = match tried.state {
            DeliveryState::Pending => None,
            DeliveryState::Delivered | DeliveryState::Failed => Some(tried.at),
        };
        let statement = sql!(
            "writing down a delivery",
            "update webhook_deliveries set attempts = attempts + 1, state = $2, ended_at = $3, due_at = $4, status = $5, error = $6
             where delivery_id = $1 and ended_at is null",
            delivery_id,
            tried.state.as_str(),
            ended_at,
            tried.due_at,
            tried.status.map(i32::from),
            tried.error.as_deref()
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Sends a delivery again, now and with a new try count; returns whether it exists.
    pub async fn resend(self, delivery_id: Uuid, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let statement = sql!(
            "sending a delivery again",
            "update webhook_deliveries set state = 'pending', ended_at = null, attempts = 0, due_at = $2
             where delivery_id = $1 and endpoint_id in (select endpoint_id from webhook_endpoints)",
            delivery_id,
            now
        );
        Ok(self.db.execute(&statement).await? > 0)
    }

    pub async fn delivery(self, delivery_id: Uuid) -> Result<Option<DeliveryRow>, StoreError> {
        let mut statement = sql!("reading a delivery", "");
        statement
            .push(DELIVERY)
            .push(" where d.delivery_id = ")
            .push_arg(delivery_id);
        self.db.read_one(&statement).await
    }

    /// Lists deliveries, newest first. `limit` 1-500.
    ///
    /// # Errors
    /// `BadCursor` for a cursor of another list.
    pub async fn deliveries(
        self,
        filter: DeliveryFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<DeliveryRow>, StoreError> {
        let limit = bounded(limit);
        let mut statement = long_sql!("listing deliveries", "");
        statement.push(DELIVERY).push(" where true");
        statement.and("d.endpoint_id = ", filter.endpoint_id);
        statement.and("d.state = ", filter.state.map(|state| state.as_str()));
        if let Some(cursor) = after {
            statement
                .push(" and d.delivery_no < ")
                .push_arg(cursor.number(LIST)?.0);
        }
        statement
            .push(" order by d.delivery_no desc limit ")
            .push_arg(limit + 1);
        let rows = self.db.read(&statement).await?;
        Ok(Page::of(rows, limit, |row: &DeliveryRow| {
            Cursor::of_number(LIST, row.delivery_no, row.delivery_id)
        }))
    }

    /// Inserts deliveries about a judge that closed or opened, if its endpoints haven't been notified of that state.
    pub async fn judge_is(
        self,
        judge: &str,
        closed: Option<WaitReason>,
        told: &[Uuid],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let change = match closed {
            Some(reason) => step!(
                "insert into webhook_judges (judge, reason) values ($1, $2)
                 on conflict (judge) do update set reason = excluded.reason where webhook_judges.reason is null returning judge",
                judge,
                reason.as_str()
            ),
            None => step!("update webhook_judges set reason = null where judge = $1 and reason is not null returning judge", judge),
        };
        let event = match closed {
            Some(_) => WebhookEvent::JudgeClosed,
            None => WebhookEvent::JudgeOpened,
        };
        let data = json!({ "judge": judge, "reason": closed.map(WaitReason::as_str) });
        let insert = |endpoint_id: &Uuid| {
            step!(
                "insert into webhook_deliveries (delivery_id, endpoint_id, event, subject, data, happened_at, due_at)
                 values ($1, $2, $3, $4, $5, $6, $6)",
                Uuid::now_v7(),
                *endpoint_id,
                event.as_str(),
                judge,
                &data,
                now
            )
        };
        let deliveries: Vec<Sql> = told.iter().map(insert).collect();
        transact!(
            self.db,
            "notifying webhooks of a judge",
            Purpose::Any,
            |tx| {
                if tx.fetch(&change).await?.is_empty() {
                    return Ok(());
                }
                for delivery in &deliveries {
                    tx.execute(delivery).await?;
                }
            }
        )
    }

    /// Returns the means if the mean of a completed batch is lower by `least` (0-1) or more than that of the previously
    /// completed batch with the same kind and name. Ignores the commit after the last `@`, which `gavel evaluate` appends to
    /// the name. Excludes simulated scores and items without a score.
    pub async fn mean_drop(
        self,
        batch_id: Uuid,
        least: f64,
    ) -> Result<Option<MeanDrop>, StoreError> {
        let Some(batch) = self.batches.get(batch_id).await? else {
            return Ok(None);
        };
        let (Some(name), Some(finished_at)) = (&batch.name, batch.finished_at) else {
            return Ok(None);
        };
        let stem = name
            .rsplit_once('@')
            .map_or(name.as_str(), |(stem, _)| stem);
        let before = long_sql!(
            "looking for the batch before one",
            "select batch_id from scoring_batches
             where kind = $1 and state = 'completed' and batch_id <> $2 and finished_at <= $3
               and (name = $4 or (substr(name, 1, length($5)) = $5 and substr(name, length($5) + 1) not like '%@%'))
             order by finished_at desc, batch_id desc limit 1",
            batch.kind.as_str(),
            batch_id,
            finished_at,
            stem,
            format!("{stem}@")
        );
        let Some(before) = self.db.read_value(&before).await? else {
            return Ok(None);
        };
        let (mean, mean_before) = (self.mean(batch_id).await?, self.mean(before).await?);
        Ok(mean
            .zip(mean_before)
            // Tolerates rounding, so that a drop of exactly five points is reported.
            .filter(|(now, then)| then - now >= least - 1e-9)
            .map(|(mean, mean_before)| MeanDrop {
                mean,
                mean_before,
                batch_before: before,
            }))
    }

    async fn mean(self, batch_id: Uuid) -> Result<Option<f64>, StoreError> {
        let statement = long_sql!(
            "reading a batch's mean",
            "select avg(total) as mean from (
                select total from evaluation_scores where batch_id = $1 and not simulated
                union all
                select s.total_score / 100.0e0 from session_scores s join scoring_jobs j on j.job_id = s.job_id
                where j.batch_id = $1 and not s.simulated) scores",
            batch_id
        );
        let mean: Option<(Option<f64>,)> = self.db.read_one(&statement).await?;
        Ok(mean.and_then(|(mean,)| mean))
    }

    /// Adds fields to a payload.
    pub async fn tell(self, delivery_id: Uuid, data: &Value) -> Result<(), StoreError> {
        let statement = sql!(
            "adding to a delivery",
            "update webhook_deliveries set data = $2 where delivery_id = $1",
            delivery_id,
            data
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Deletes a delivery whose event became irrelevant.
    pub async fn forget(self, delivery_id: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "forgetting a delivery",
            "delete from webhook_deliveries where delivery_id = $1",
            delivery_id
        );
        self.db.execute(&statement).await.map(drop)
    }
}

impl Decoded for DeliveryRow {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        let Some(Value::Object(mut data)) = row.json("data")? else {
            return Err(decode("data", "it is no object"));
        };
        data.retain(|_, value| !value.is_null());
        // SQLite's trigger stores ids as hex digits.
        for (name, value) in &mut data {
            let id = value.as_str().filter(|_| name.ends_with("_id"));
            if let Some(Ok(id)) = id.map(Uuid::try_parse) {
                *value = json!(id);
            }
        }
        Ok(DeliveryRow {
            delivery_no: row.get("delivery_no")?,
            delivery_id: row.get("delivery_id")?,
            endpoint_id: row.get("endpoint_id")?,
            endpoint: row.get("endpoint")?,
            event: row.text_enum("event")?,
            data: Value::Object(data),
            happened_at: row.get("happened_at")?,
            state: row.text_enum("state")?,
            attempts: row.int("attempts")?,
            due_at: row.get("due_at")?,
            ended_at: row.get("ended_at")?,
            status: row
                .get::<Option<i64>>("status")?
                .and_then(|status| i32::try_from(status).ok()),
            error: row.get("error")?,
        })
    }
}
