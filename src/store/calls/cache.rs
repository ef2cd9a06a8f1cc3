//! Reply cache on `judge_calls`: a call with a key can be reused. A database error counts as a miss.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{JudgeCallRow, call, columns};
use crate::judge::{CacheKey, CallRecord};
use crate::store::database::sql::{Sql, long_sql, step};
use crate::store::{Calls, Dialect, StoreError};

const NEWEST: &str = "looking for the call of a question";

impl Calls<'_> {
    /// Returns the newest call with a key that was sent after `since`; `None` also if the log can't be read.
    pub(in crate::store) async fn find(
        self,
        key: CacheKey,
        since: DateTime<Utc>,
    ) -> Option<JudgeCallRow> {
        if self.call_log.unwritten.holds(key) {
            // Makes calls of this process visible.
            self.call_log.flush().await;
        }
        match self.newest(key).await {
            Ok(call) => call.filter(|call| call.at > since),
            Err(error) => {
                tracing::warn!(%error, "failed to read the call log: a reply that may be stored is requested again");
                None
            }
        }
    }

    async fn newest(self, key: CacheKey) -> Result<Option<JudgeCallRow>, StoreError> {
        let row = match self.db.dialect() {
            Dialect::Postgres => self.reader.call(key.0).await?,
            Dialect::Sqlite => {
                let statement = long_sql!(
                    NEWEST,
                    concat!(
                        "select ",
                        columns!(),
                        " from judge_calls where cache_key = $1 order by called_at desc limit 1"
                    ),
                    key.0
                );
                self.db.rows(&statement).await?.into_iter().next()
            }
        };
        row.as_ref()
            .map(call)
            .transpose()
            .map_err(|e| StoreError::of(NEWEST, &e))
    }
}

/// Statement for the newest calls of keys, Postgres only.
pub(in crate::store) fn statement(keys: Vec<Uuid>) -> Sql {
    let mut statement = step!(concat!(
        "select distinct on (cache_key) ",
        columns!(),
        " from judge_calls where cache_key in "
    ));
    statement.push_list(keys);
    statement.push(" order by cache_key, called_at desc");
    statement
}

/// Number of logged calls by key that aren't written yet.
#[derive(Clone, Default)]
pub(super) struct Unwritten(Arc<Mutex<HashMap<CacheKey, usize>>>);

impl Unwritten {
    fn holds(&self, key: CacheKey) -> bool {
        self.lock().contains_key(&key)
    }

    pub(super) fn add(&self, call: &CallRecord) {
        if let Some(key) = call.cache_key {
            *self.lock().entry(key).or_default() += 1;
        }
    }

    /// The call is written or lost.
    pub(super) fn remove(&self, call: &CallRecord) {
        let Some(key) = call.cache_key else { return };
        let mut keys = self.lock();
        if let Some(times) = keys.get_mut(&key) {
            *times -= 1;
            if *times == 0 {
                keys.remove(&key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CacheKey, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
