//! Signed-in browsers. A random id in a cookie represents a token in all APIs of the same database, until sign-out,
//! expiry, or a change of the token. Only hashes of id and token are stored.

use std::fmt;
use std::sync::Arc;

use chrono::TimeDelta;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::problem::ApiError;
use crate::clock::Clock;
use crate::store::{SignIn, Store};

pub(crate) struct Browsers {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Lifetime of a sign-in.
    pub(crate) lasts: TimeDelta,
}

impl fmt::Debug for Browsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browsers")
            .field("lasts", &self.lasts)
            .finish_non_exhaustive()
    }
}

impl Browsers {
    /// Signs a browser in by the token's name and digest. Returns the id for its cookie.
    pub(super) async fn add(&self, name: &str, digest: &[u8]) -> Result<String, ApiError> {
        let id = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let now = self.clock.now();
        let new = SignIn {
            id_hash: hash(&[id.as_bytes()]),
            token_name: name.to_owned(),
            token_hash: hash(&[id.as_bytes(), digest]),
            created_at: now,
            expires_at: now + self.lasts,
        };
        self.store.sign_ins().add(&new).await?;
        Ok(id)
    }

    /// Returns the sign-in of an id, unless expired.
    pub(super) async fn find(&self, id: &str) -> Result<Option<SignIn>, ApiError> {
        let hashed = hash(&[id.as_bytes()]);
        let found = self.store.sign_ins().find(&hashed, self.clock.now());
        Ok(found.await?)
    }

    pub(super) async fn end(&self, id: &str) -> Result<(), ApiError> {
        let hashed = hash(&[id.as_bytes()]);
        Ok(self.store.sign_ins().end(&hashed).await?)
    }
}

/// Returns whether the token with this digest signed in the browser with this id.
pub(super) fn is_by(sign_in: &SignIn, id: &str, digest: &[u8]) -> bool {
    let expected = hash(&[id.as_bytes(), digest]);
    expected
        .as_bytes()
        .ct_eq(sign_in.token_hash.as_bytes())
        .into()
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hex::encode(hasher.finalize())
}
