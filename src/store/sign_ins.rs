//! `sign_ins`: signed-in browsers, until they sign out or expire. Contains hashes only, neither ids nor tokens.

use chrono::{DateTime, Utc};

use super::StoreError;
use super::database::db::Db;
use super::database::sql::sql;

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct SignIn {
    /// Hash of the id in the cookie, 64 hex digits.
    pub id_hash: String,
    pub token_name: String,
    /// Hash of the id together with the token, 64 hex digits.
    pub token_hash: String,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
}

#[derive(Clone, Copy)]
pub struct SignIns<'a> {
    pub(super) db: &'a Db,
}

impl SignIns<'_> {
    pub async fn add(self, new: &SignIn) -> Result<(), StoreError> {
        let statement = sql!(
            "storing a sign-in",
            "insert into sign_ins (id_hash, token_name, token_hash, created_at, expires_at) values ($1, $2, $3, $4, $5)
             on conflict (id_hash) do nothing",
            &new.id_hash,
            &new.token_name,
            &new.token_hash,
            new.created_at,
            new.expires_at
        );
        let added = self.db.execute(&statement);
        added.await.map(drop)
    }

    /// Returns an unexpired sign-in.
    pub async fn find(
        self,
        id_hash: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<SignIn>, StoreError> {
        let statement = sql!(
            "reading a sign-in",
            "select id_hash, token_name, token_hash, created_at, expires_at from sign_ins where id_hash = $1 and expires_at > $2",
            id_hash,
            now
        );
        self.db.read_one(&statement).await
    }

    pub async fn end(self, id_hash: &str) -> Result<(), StoreError> {
        let statement = sql!(
            "ending a sign-in",
            "delete from sign_ins where id_hash = $1",
            id_hash
        );
        let ended = self.db.execute(&statement);
        ended.await.map(drop)
    }
}
