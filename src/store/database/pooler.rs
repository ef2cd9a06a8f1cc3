//! Detects a pooler that runs each transaction in any free server session.
//!
//! Poolers don't announce themselves, but a private session always has the same backend process, and no other session has it.
//! Uses plain statements and changes no settings, because the sessions may be shared.

use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::time::timeout;

use super::connect::PgAddress;
use super::error::{is_transient, timed_out};
use super::session::CONNECT_TIMEOUT;

/// One is enough if the pooler has no other clients. Others may restore the original assignment by chance.
const ROUNDS: usize = 3;

/// Whether two sessions were seen in one backend process, or one session in two. Opens and closes two sessions; `false` if the
/// second can't be opened.
pub(in crate::store) async fn shares_sessions(address: &PgAddress) -> sqlx::Result<bool> {
    let mut one = in_time(address.connect()).await?;
    let mut other = match in_time(address.connect()).await {
        Ok(other) => other,
        Err(error) if is_transient(&error) => {
            tracing::debug!(%error, "no second connection: can't detect whether a pooler shares sessions");
            one.close().await?;
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    // Run concurrently, because a pool with one session, or in LIFO order, serves sequential requests from the same session.
    let asking = async { Ok((process(&mut one).await?, process(&mut other).await?)) };
    let (first, second) = in_time(asking).await?;
    let mut shares = first == second;
    for _ in 0..ROUNDS {
        if !shares {
            let seen = in_time(seen(&mut one, &mut other)).await?;
            shares = seen != [&*first, &*second, &*first];
        }
    }
    one.close().await?;
    other.close().await?;
    Ok(shares)
}

/// Returns the backend processes of the first session, the second, and the first again. A FIFO pool changes its order while a
/// session is in use.
async fn seen(one: &mut PgConnection, other: &mut PgConnection) -> sqlx::Result<[String; 3]> {
    let mut held = one.begin().await?;
    let (first, second) = (process(&mut held).await?, process(other).await?);
    held.commit().await?;
    Ok([first, second, process(one).await?])
}

async fn process(conn: &mut PgConnection) -> sqlx::Result<String> {
    let asked = sqlx::raw_sql("select pg_backend_pid()::text");
    asked.fetch_one(conn).await?.try_get(0)
}

async fn in_time<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    timeout(CONNECT_TIMEOUT, work)
        .await
        .unwrap_or_else(|_| Err(timed_out("connecting")))
}
