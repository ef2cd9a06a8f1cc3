//! Database, migrations, clock and Redis.

use super::Check;
use crate::app::{App, AppError, Migrations, Mode, open_store};
use crate::clock::{Clock as _, SystemClock};
use crate::config::{Settings, redacted_url};
use crate::store::Store;

/// How long the database may take to answer, seconds.
const TIMEOUT_S: u64 = 5;

pub(super) async fn check(settings: &Settings) -> Vec<Check> {
    let name = redacted_url(&settings.database.url);
    let mut impatient = settings.clone();
    impatient.database.connect_timeout_s = TIMEOUT_S;
    let store = open_store(&impatient, &Mode::Shared).await;
    let mut checks = Vec::new();
    let mut migrated = false;
    match store {
        Err(error) => checks.push(Check::new("database", Err(error.to_string()))),
        Ok(store) => {
            checks.push(Check::new("database", Ok(format!("{name} answers"))));
            let found = match store.pending_migrations().await {
                Ok(pending) if pending.is_empty() => Ok("up to date".to_owned()),
                Ok(pending) => Err(format!("{} pending: run `gavel migrate`", pending.len())),
                Err(error) => Err(error.to_string()),
            };
            migrated = found.is_ok();
            checks.push(Check::new("migrations", found));
            checks.push(Check::new("clock", clock(&store).await));
            store.close().await;
        }
    }
    checks.push(Check::new("redis", redis(settings, migrated).await));
    checks
}

/// No fault, however far: the database's clock decides what is due and who is alive.
async fn clock(store: &Store) -> Result<String, String> {
    let theirs = store
        .database_time()
        .await
        .map_err(|error| error.to_string())?;
    let Some(theirs) = theirs else {
        return Ok("the database is on this machine".to_owned());
    };
    let apart = (SystemClock.now() - theirs).abs();
    Ok(format!(
        "{:.1} s apart from the database's, which decides what is due",
        apart.as_seconds_f64()
    ))
}

async fn redis(settings: &Settings, migrated: bool) -> Result<String, String> {
    let name = redacted_url(&settings.redis.url);
    if settings.redis.url.is_empty() {
        return Err(
            "not set: `serve` and `worker` need REDIS_URL (redis.url), such as redis://host:6379/0"
                .to_owned(),
        );
    }
    if !migrated {
        return Ok("not looked at before the database is there and migrated".to_owned());
    }
    let fault = |error: String| {
        format!("{name}: {error}; check REDIS_URL (redis.url) and that the server runs")
    };
    let app = App::open(settings.clone(), Mode::Shared, Migrations::Require)
        .await
        .map_err(|error: AppError| fault(error.to_string()))?;
    let answered = app.ping_queue().await;
    let evicts = app.queue_eviction().await;
    app.close().await;
    if let (Ok(()), Some(policy)) = (&answered, evicts) {
        return Err(format!(
            "{name} answers, but throws keys away when it is full ({policy}): jobs then wait until they are found in the \
             database; set maxmemory-policy to noeviction"
        ));
    }
    answered
        .map(|()| format!("{name} answers"))
        .map_err(|error| fault(error.to_string()))
}
