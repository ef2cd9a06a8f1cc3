//! `idempotency_keys`: which request a key stands for, who works on it, and what came of it.
//!
//! Knows nothing of HTTP: a key and a request are hashes, an answer is a number, pairs of text and a text. A row is in
//! one of three conditions: locked (somebody works on it), open (that one died or failed; the same request may go on), or
//! kept (it has an answer). After `expires_at` it counts as not there.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::StoreError;
use super::database::db::Db;
use super::database::sql::{DbRow, decode, sql};

/// How often a reservation looks again when the row that was in its way is gone by then.
const ROUNDS: usize = 3;

/// A wish to work on a key.
#[derive(Debug, Clone)]
pub struct KeyUse {
    /// Hash of the key and of what it is scoped by.
    pub key_hash: String,
    pub request_hash: String,
    /// Who would work on it; new for each request.
    pub holder: Uuid,
    /// The id that its effect gets if the key is new.
    pub effect_id: Uuid,
    pub now: DateTime<Utc>,
    /// Until when nobody else may go on, unless it is renewed.
    pub locked_until: DateTime<Utc>,
    /// When the key is forgotten, if it is new.
    pub expires_at: DateTime<Utc>,
}

/// What became of a [`KeyUse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// The holder works on it.
    Mine(KeyReservation),
    Kept(KeptAnswer),
    /// Somebody works on it.
    InUse,
    /// The key stands for another request.
    OtherRequest,
}

/// A key that its holder works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyReservation {
    /// The id that the effect gets: of the first try.
    pub effect_id: Uuid,
    /// When the first try began.
    pub since: DateTime<Utc>,
    /// Whether an earlier try died or failed, and may have had its effect.
    pub repeated: bool,
}

/// An answer that is given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The HTTP status.
    pub status: u16,
    /// Names and values of headers.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Keys of requests that are sent again.
#[derive(Clone, Copy)]
pub struct IdempotencyKeys<'a> {
    pub(super) db: &'a Db,
}

impl IdempotencyKeys<'_> {
    /// Takes a key, or says why not. A key whose holder is past its time is taken over with the effect's id of the first
    /// try.
    pub async fn reserve(self, wish: &KeyUse) -> Result<Reserved, StoreError> {
        const ATTEMPTED: &str = "reserving an idempotency key";
        let take = sql!(
            "insert into idempotency_keys
                (key_hash, request_hash, effect_id, holder, locked_until, created_at, expires_at)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (key_hash) do update set
                request_hash = excluded.request_hash, holder = excluded.holder, locked_until = excluded.locked_until,
                effect_id = case when idempotency_keys.expires_at <= excluded.created_at
                    then excluded.effect_id else idempotency_keys.effect_id end,
                created_at = case when idempotency_keys.expires_at <= excluded.created_at
                    then excluded.created_at else idempotency_keys.created_at end,
                expires_at = case when idempotency_keys.expires_at <= excluded.created_at
                    then excluded.expires_at else idempotency_keys.expires_at end,
                status = null, headers = null, body = null
             where idempotency_keys.expires_at <= excluded.created_at
                or (idempotency_keys.status is null and idempotency_keys.locked_until <= excluded.created_at
                    and idempotency_keys.request_hash = excluded.request_hash)
             returning request_hash, effect_id, holder, created_at, status, headers, body",
            &wish.key_hash,
            &wish.request_hash,
            wish.effect_id,
            wish.holder,
            wish.locked_until,
            wish.now,
            wish.expires_at
        );
        let look = sql!(
            "select request_hash, effect_id, holder, created_at, status, headers, body
             from idempotency_keys where key_hash = $1",
            &wish.key_hash
        );
        for _ in 0..ROUNDS {
            let mut rows = self.db.write(ATTEMPTED, &take).await?;
            if rows.is_empty() {
                // Asked on the writing side: what was committed a moment ago must be seen.
                rows = self.db.write(ATTEMPTED, &look).await?;
            }
            if let Some(row) = rows.first() {
                return reserved(row, wish).map_err(|error| StoreError::of(ATTEMPTED, &error));
            }
        }
        Ok(Reserved::InUse)
    }

    /// Keeps the answer, unless somebody else has taken the key over meanwhile. `session_id`: it tells of this one, and goes with it.
    pub async fn keep_answer(
        self,
        key_hash: &str,
        holder: Uuid,
        answer: &KeptAnswer,
        session_id: Option<Uuid>,
    ) -> Result<(), StoreError> {
        const ATTEMPTED: &str = "keeping an answer for its idempotency key";
        let headers =
            serde_json::to_value(&answer.headers).map_err(|error| StoreError::Unexpected {
                attempted: ATTEMPTED,
                reason: error.to_string(),
            })?;
        let statement = sql!(
            "update idempotency_keys set status = $3, headers = $4, body = $5, subject_id = $6 where key_hash = $1 and holder = $2",
            key_hash,
            holder,
            i64::from(answer.status),
            headers,
            &answer.body,
            session_id
        );
        self.db.execute(ATTEMPTED, &statement).await.map(drop)
    }

    /// Locks keys for longer, each for its holder.
    pub async fn renew(
        self,
        held: &[(String, Uuid)],
        locked_until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut statement = sql!(
            "update idempotency_keys set locked_until = $1 where status is null and key_hash in ",
            locked_until
        );
        statement.push_list(held.iter().map(|(key, _)| key.as_str()));
        statement.push(" and holder in ");
        statement.push_list(held.iter().map(|(_, holder)| *holder));
        let renewed = self.db.execute("renewing idempotency keys", &statement);
        renewed.await.map(drop)
    }

    /// Unlocks a key without an answer, so that the same request may go on.
    pub async fn release(self, key_hash: &str, holder: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "update idempotency_keys set locked_until = created_at where key_hash = $1 and holder = $2 and status is null",
            key_hash,
            holder
        );
        let released = self.db.execute("releasing an idempotency key", &statement);
        released.await.map(drop)
    }

    /// Lets go of every key that somebody works on, so that the same requests may go on at once. Only for who knows that
    /// nobody does.
    pub async fn release_all(self) -> Result<(), StoreError> {
        let statement = sql!(
            "update idempotency_keys set locked_until = created_at where status is null and locked_until > created_at"
        );
        let released = self
            .db
            .execute("releasing idempotency keys", &statement)
            .await;
        released.map(drop)
    }

    /// Forgets a key whose request had no effect.
    pub async fn free(self, key_hash: &str, holder: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "delete from idempotency_keys where key_hash = $1 and holder = $2 and status is null",
            key_hash,
            holder
        );
        let freed = self.db.execute("freeing an idempotency key", &statement);
        freed.await.map(drop)
    }
}

fn reserved(row: &DbRow, wish: &KeyUse) -> sqlx::Result<Reserved> {
    let status: Option<i64> = row.get("status")?;
    if row.get::<String>("request_hash")? != wish.request_hash {
        return Ok(Reserved::OtherRequest);
    }
    if let Some(status) = status {
        return Ok(Reserved::Kept(KeptAnswer {
            status: u16::try_from(status).map_err(|_| decode("status", "not an HTTP status"))?,
            headers: row.json_as("headers")?,
            body: row.get("body")?,
        }));
    }
    // Also when the first try of the statement was committed and its answer lost.
    if row.get::<Uuid>("holder")? == wish.holder {
        let effect_id: Uuid = row.get("effect_id")?;
        return Ok(Reserved::Mine(KeyReservation {
            effect_id,
            since: row.get("created_at")?,
            repeated: effect_id != wish.effect_id,
        }));
    }
    Ok(Reserved::InUse)
}
