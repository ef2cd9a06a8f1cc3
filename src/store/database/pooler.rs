//! Whether a pooler stands before Postgres that gives each transaction of a session to whichever server session is free.
//!
//! A pooler doesn't say so. But a session of one's own is always the same process of the server, and no other session's.
//! Asks by plain statements and sets nothing, so that nothing is left behind in a session that others use.

use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::time::timeout;

use super::connect::PgAddress;
use super::error::{is_passing, timed_out};
use super::session::CONNECT;

/// One is enough while nobody else uses the pooler. Others may happen to put everything back in its place.
const ROUNDS: usize = 3;

/// Whether two sessions were seen on one process of the server, or one session on two. Opens two, and closes them. Where the
/// second isn't to be had, it can't be seen.
pub(in crate::store) async fn shares_sessions(address: &PgAddress) -> sqlx::Result<bool> {
    let mut one = in_time(address.connect()).await?;
    let mut other = match in_time(address.connect()).await {
        Ok(other) => other,
        Err(error) if is_passing(&error) => {
            tracing::debug!(%error, "no second connection: can't tell whether a pooler shares sessions");
            one.close().await?;
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    // A pool that gives out what came back last, or has only one, answers both from the same.
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

/// On which processes the first is, the second, and the first again. A pool that gives out what rested longest changes
/// its order while one is held.
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
    timeout(CONNECT, work)
        .await
        .unwrap_or_else(|_| Err(timed_out("connecting")))
}
