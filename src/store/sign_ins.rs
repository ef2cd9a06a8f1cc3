//! `sign_ins`: browsers that somebody signed in, until they sign out or their time is over. Knows hashes alone, neither ids nor tokens.

use chrono::{DateTime, Utc};

use super::StoreError;
use super::database::db::Db;
use super::database::sql::{DbRow, first, sql};

/// A browser that is signed in.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct SignIn {
    /// Hash of the id in its cookie, 64 hex digits.
    pub id_hash: String,
    pub token_name: String,
    /// Hash of the id and the token together, 64 hex digits.
    pub token_hash: String,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
}

/// Browsers that are signed in.
#[derive(Clone, Copy)]
pub struct SignIns<'a> {
    pub(super) db: &'a Db,
}

impl SignIns<'_> {
    pub async fn add(self, new: &SignIn) -> Result<(), StoreError> {
        let statement = sql!(
            "insert into sign_ins (id_hash, token_name, token_hash, created_at, expires_at) values ($1, $2, $3, $4, $5)
             on conflict (id_hash) do nothing",
            &new.id_hash,
            &new.token_name,
            &new.token_hash,
            new.created_at,
            new.expires_at
        );
        let added = self.db.execute("storing a sign-in", &statement);
        added.await.map(drop)
    }

    /// One whose time isn't over.
    pub async fn find(
        self,
        id_hash: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<SignIn>, StoreError> {
        const ATTEMPTED: &str = "reading a sign-in";
        let statement = sql!(
            "select id_hash, token_name, token_hash, created_at, expires_at from sign_ins where id_hash = $1 and expires_at > $2",
            id_hash,
            now
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, DbRow::decode)
    }

    /// Ends one, if it is there.
    pub async fn end(self, id_hash: &str) -> Result<(), StoreError> {
        let statement = sql!("delete from sign_ins where id_hash = $1", id_hash);
        let ended = self.db.execute("ending a sign-in", &statement);
        ended.await.map(drop)
    }
}
