//! Database, migrations, clock, Redis and TARSy.

use super::Check;
use crate::app::{App, AppError, Migrations, Mode, clocks_apart, history_options, open_store};
use crate::clock::ClockSkew;
use crate::config::{Settings, redacted_url};
use crate::history::tarsy::TarsyError;
use crate::store::Store;

/// Database timeout, seconds.
const TIMEOUT_S: u64 = 5;

pub(super) async fn check(settings: &Settings) -> Vec<Check> {
    let name = redacted_url(&settings.database.url);
    let mut impatient = settings.clone();
    impatient.database.connect_timeout_s = TIMEOUT_S;
    let store = open_store(&impatient, &Mode::Shared).await;
    let mut checks = Vec::new();
    let mut usable = false;
    match store {
        Err(error) => checks.push(Check::new("database", Err(error))),
        Ok(store) => {
            let answers = Ok::<_, String>(format!("{name} answers"));
            checks.push(Check::new("database", answers));
            let found = match store.pending_migrations().await {
                Ok(pending) if pending.is_empty() => Ok("up to date".to_owned()),
                Ok(pending) => Err(format!("{} pending: run `gavel migrate`", pending.len())),
                Err(error) => Err(error.to_string()),
            };
            let privileges = privileges(&store).await;
            usable = found.is_ok() && privileges.is_ok();
            checks.push(Check::new("migrations", found));
            checks.push(Check::new("privileges", privileges));
            checks.push(Check::new("clock", clock(&store).await));
            if usable {
                checks.push(Check::new("workers", workers(&store).await));
            }
            store.close().await;
        }
    }
    checks.push(Check::new("redis", redis(settings, usable).await));
    checks
}

async fn privileges(store: &Store) -> Result<String, String> {
    let missing = store.missing_grants().await;
    let missing = missing.map_err(|error| error.to_string())?;
    match missing.is_empty() {
        true => Ok("the role has all that it needs".to_owned()),
        false => Err(AppError::MissingGrants(missing.join("; ")).to_string()),
    }
}

async fn clock(store: &Store) -> Result<String, String> {
    let time = store
        .database_time()
        .await
        .map_err(|error| error.to_string())?;
    let Some(time) = time else {
        return Ok("the database is on this machine".to_owned());
    };
    let skew = ClockSkew::of(time);
    match skew.is_too_large() {
        true => Err(clocks_apart(skew)),
        false => Ok(format!("{skew}; the database's clock decides due times")),
    }
}

/// No workers is not an error, because doctor also runs before the first start.
async fn workers(store: &Store) -> Result<String, String> {
    let listed = store.workers().list().await;
    let workers = listed.map_err(|error| error.to_string())?;
    Ok(match workers.iter().filter(|worker| worker.alive).count() {
        0 => "no worker is alive: jobs wait until you start one (`gavel worker`)".to_owned(),
        alive => format!("{alive} alive"),
    })
}

async fn redis(settings: &Settings, database_usable: bool) -> Result<String, String> {
    let name = redacted_url(&settings.redis.url);
    if settings.redis.url.is_empty() {
        return Err(
            "not set: `serve` and `worker` need REDIS_URL (redis.url), such as redis://host:6379/0"
                .to_owned(),
        );
    }
    if !database_usable {
        return Ok("not checked, because the checks of the database failed".to_owned());
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

/// Returns `None` if no TARSy is configured.
pub(super) async fn check_tarsy(settings: &Settings) -> Option<Check> {
    if settings.history.base_url.is_empty() {
        return None;
    }
    Some(Check::new("history", tarsy(settings).await))
}

async fn tarsy(settings: &Settings) -> Result<String, String> {
    let mut options = history_options(settings).map_err(|error| error.to_string())?;
    // No retries, because a user is waiting.
    options.max_retries = 0;
    let name = redacted_url(&settings.history.base_url);
    let Some(base) = options.base.clone() else {
        return Err("not set".to_owned());
    };
    let tarsy = options.tarsy(base, options.requests_per_second);
    match tarsy.generation().await {
        Ok(generation) => Ok(format!(
            "{name} answers, a TARSy of the {generation} generation"
        )),
        Err(error @ TarsyError::Denied(_)) => Err(error.to_string()),
        Err(error) => Err(format!(
            "{error}; check history.base_url (GAVEL_HISTORY_BASE_URL) and that it can be reached from here"
        )),
    }
}
