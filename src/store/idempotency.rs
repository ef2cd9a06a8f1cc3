//! `idempotency_keys`: the request, holder and stored response of a key.
//!
//! Independent of HTTP: keys and requests are hashes, a response is a number, pairs of text and a text. A row is locked (a
//! holder works on it), open (its holder died or failed; the same request may continue) or complete (it has a response). After
//! `expires_at` it is ignored.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::StoreError;
use super::database::db::Db;
use super::database::row::{Int, Nullable};
use super::database::sql::sql;

/// Number of tries to reserve a key if the conflicting row disappears in between.
const ROUNDS: usize = 3;

#[derive(Debug, Clone)]
pub struct KeyUse {
    /// Hash of the key and its scope.
    pub key_hash: String,
    pub request_hash: String,
    /// Unique per request.
    pub holder: Uuid,
    /// Id of the created resource, if the key is new.
    pub effect_id: Uuid,
    pub now: DateTime<Utc>,
    /// End of the lock, unless it is renewed.
    pub locked_until: DateTime<Utc>,
    /// Expiry of the key, if it is new.
    pub expires_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    Mine(KeyReservation),
    Kept(KeptAnswer),
    /// Another request has locked it.
    InUse,
    /// The key was used with another request.
    OtherRequest,
}

/// A key that the caller holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyReservation {
    /// Id of the created resource, from the first try.
    pub effect_id: Uuid,
    /// Time of the first try.
    pub since: DateTime<Utc>,
    /// Whether an earlier try died or failed, and may have had an effect.
    pub repeated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

#[derive(Clone, Copy)]
pub struct IdempotencyKeys<'a> {
    pub(super) db: &'a Db,
}

impl IdempotencyKeys<'_> {
    /// Reserves a key. A key with an expired lock is taken over, with the effect id of the first try.
    pub async fn reserve(self, wish: &KeyUse) -> Result<Reserved, StoreError> {
        let take = sql!(
            "reserving an idempotency key",
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
            "reserving an idempotency key",
            "select request_hash, effect_id, holder, created_at, status, headers, body
             from idempotency_keys where key_hash = $1",
            &wish.key_hash
        );
        for _ in 0..ROUNDS {
            let mut key = self.db.write_one::<StoredKey>(&take).await?;
            if key.is_none() {
                // Reads on a writing connection, so that recent commits are visible.
                key = self.db.write_one(&look).await?;
            }
            if let Some(key) = key {
                return Ok(key.reserved(wish));
            }
        }
        Ok(Reserved::InUse)
    }

    /// Stores the response, unless another request has taken over the key. The response is deleted with the session
    /// `session_id`.
    pub async fn keep_answer(
        self,
        key_hash: &str,
        holder: Uuid,
        answer: &KeptAnswer,
        session_id: Option<Uuid>,
    ) -> Result<(), StoreError> {
        let headers =
            serde_json::to_value(&answer.headers).map_err(|error| StoreError::Unexpected {
                attempted: "keeping an answer for its idempotency key",
                reason: error.to_string(),
            })?;
        let statement = sql!(
            "keeping an answer for its idempotency key",
            "update idempotency_keys set status = $3, headers = $4, body = $5, subject_id = $6 where key_hash = $1 and holder = $2",
            key_hash,
            holder,
            answer.status,
            headers,
            &answer.body,
            session_id
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Extends the locks of keys, each for its holder.
    pub async fn renew(
        self,
        held: &[(String, Uuid)],
        locked_until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut statement = sql!(
            "renewing idempotency keys",
            "update idempotency_keys set locked_until = $1 where status is null and key_hash in ",
            locked_until
        );
        statement.push_list(held.iter().map(|(key, _)| key.as_str()));
        statement.push(" and holder in ");
        statement.push_list(held.iter().map(|(_, holder)| *holder));
        let renewed = self.db.execute(&statement);
        renewed.await.map(drop)
    }

    /// Unlocks a key without a response, so that the same request may continue.
    pub async fn release(self, key_hash: &str, holder: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "releasing an idempotency key",
            "update idempotency_keys set locked_until = created_at where key_hash = $1 and holder = $2 and status is null",
            key_hash,
            holder
        );
        let released = self.db.execute(&statement);
        released.await.map(drop)
    }

    /// Unlocks all locked keys. Only if no other process works on them.
    pub async fn release_all(self) -> Result<(), StoreError> {
        let statement = sql!(
            "releasing idempotency keys",
            "update idempotency_keys set locked_until = created_at where status is null and locked_until > created_at"
        );
        let released = self.db.execute(&statement).await;
        released.map(drop)
    }

    /// Deletes a key whose request had no effect.
    pub async fn free(self, key_hash: &str, holder: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "freeing an idempotency key",
            "delete from idempotency_keys where key_hash = $1 and holder = $2 and status is null",
            key_hash,
            holder
        );
        let freed = self.db.execute(&statement);
        freed.await.map(drop)
    }
}

#[derive(sqlx::FromRow)]
struct StoredKey {
    request_hash: String,
    effect_id: Uuid,
    holder: Uuid,
    created_at: DateTime<Utc>,
    #[sqlx(flatten, try_from = "AnswerColumns")]
    answer: Option<KeptAnswer>,
}

#[derive(sqlx::FromRow)]
struct AnswerColumns {
    #[sqlx(try_from = "Nullable<Int>")]
    status: Option<u16>,
    #[sqlx(json(nullable))]
    headers: Option<Vec<(String, String)>>,
    body: Option<String>,
}

impl From<AnswerColumns> for Option<KeptAnswer> {
    fn from(columns: AnswerColumns) -> Self {
        Some(KeptAnswer {
            status: columns.status?,
            headers: columns.headers?,
            body: columns.body?,
        })
    }
}

impl StoredKey {
    fn reserved(self, wish: &KeyUse) -> Reserved {
        if self.request_hash != wish.request_hash {
            return Reserved::OtherRequest;
        }
        match self.answer {
            Some(answer) => Reserved::Kept(answer),
            // Also if the first try of the statement was committed and its response lost.
            None if self.holder == wish.holder => Reserved::Mine(KeyReservation {
                effect_id: self.effect_id,
                since: self.created_at,
                repeated: self.effect_id != wish.effect_id,
            }),
            None => Reserved::InUse,
        }
    }
}
