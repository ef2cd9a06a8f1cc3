//! Opens the resources of a process by its settings: store and schema, queue, and the options of gate and retries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{AppError, Migrations, Mode};
use crate::api::{SpendingCap, SpendingCaps};
use crate::clock::Clock;
use crate::config::{RetentionSettings, Settings, redacted_url};
use crate::events::{Feed, RedisEvents};
use crate::judge::gate::{Gate, GateOptions, shared_gate};
use crate::judge::{Cap, Caps, Providers, RetryOptions};
use crate::outbound::Targets;
use crate::queue::Queue;
use crate::queue::memory::MemoryQueue;
use crate::queue::redis::{RedisOptions, RedisQueue};
use crate::redis_client::RedisClient;
use crate::store::{Outage, Store, StoreError, StoreOptions};
use crate::worker::{RetentionPeriods, WebhookOptions};

/// Opens the store of a mode. An error names the address and the setting.
pub async fn open_store(settings: &Settings, mode: &Mode) -> Result<Store, AppError> {
    let url = match mode {
        Mode::Embedded { data_dir } => format!("sqlite://{}", data_dir.join("gavel.db").display()),
        Mode::Shared if settings.database.url.is_empty() => {
            return Err(AppError::Config(
                "no database: set DATABASE_URL to postgres://user:password@host/name, or run everything in one process with `gavel up`".to_owned(),
            ));
        }
        Mode::Shared => settings.database.url.to_string(),
    };
    let options = StoreOptions {
        url,
        password_file: Some(&settings.database.password_file)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
        max_connections: settings.database.max_connections,
        connect_timeout: Duration::from_secs(settings.database.connect_timeout_s),
    };
    Store::connect(options).await.map_err(|error| {
        let name = redacted_url(&settings.database.url);
        let said = match (mode, &error) {
            (Mode::Embedded { .. }, _) => error.to_string(),
            (
                Mode::Shared,
                StoreError::SharedSessions
                | StoreError::Unavailable {
                    outage: Outage::Rejected,
                    ..
                },
            ) => format!("{name}: {error}"),
            (Mode::Shared, _) => format!(
                "{name}: {error}; check DATABASE_URL (database.url), that the database exists, and that its server runs"
            ),
        };
        match error {
            StoreError::Unavailable {
                outage: Outage::Rejected,
                ..
            } => AppError::Config(said),
            StoreError::Unavailable { .. } => AppError::Unreachable(said),
            StoreError::Schema(_)
            | StoreError::Unexpected { .. }
            | StoreError::SharedSessions
            | StoreError::BadCursor(_) => AppError::Config(said),
        }
    })
}

pub(super) async fn migrate(store: &Store, migrations: Migrations) -> Result<(), AppError> {
    let broken = |error: StoreError| AppError::Broken(error.to_string());
    match migrations {
        Migrations::Apply => {
            let applied = store.migrate().await.map_err(broken)?;
            if !applied.is_empty() {
                tracing::info!(?applied, "migrations applied");
            }
            Ok(())
        }
        Migrations::Require => {
            let missing = store.missing_grants().await.map_err(broken)?;
            if !missing.is_empty() {
                return Err(AppError::MissingGrants(missing.join("; ")));
            }
            let pending = store.pending_migrations().await.map_err(broken)?.len();
            if pending == 0 {
                Ok(())
            } else {
                Err(AppError::Unmigrated { pending })
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct SharedRedis {
    pub(super) client: RedisClient,
    /// Name of the queue and id of the installation, so that two databases share no lanes or breakers.
    namespace: String,
}

pub(super) async fn open_redis(
    settings: &Settings,
    mode: &Mode,
    store: &Store,
) -> Result<Option<SharedRedis>, AppError> {
    match mode {
        Mode::Embedded { .. } => Ok(None),
        Mode::Shared if settings.redis.url.is_empty() => Err(AppError::Config(
            "no queue: set REDIS_URL to redis://host:6379, or run everything in one process with `gavel up`".to_owned(),
        )),
        Mode::Shared => {
            let client = RedisClient::new(&settings.redis.url)
                .map_err(|error| AppError::Config(format!("REDIS_URL: {error}")))?;
            let id = store.installation_id().await;
            let id = id.map_err(|error| AppError::Unreachable(error.to_string()))?;
            let namespace = format!("{}:{}", settings.redis.queue, id.simple());
            Ok(Some(SharedRedis { client, namespace }))
        }
    }
}

pub(super) fn open_queue(
    settings: &Settings,
    redis: Option<&SharedRedis>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Queue>, AppError> {
    let lease = Duration::from_secs_f64(settings.worker.lease_s);
    let Some(redis) = redis else {
        return Ok(Arc::new(MemoryQueue::new(lease, clock)));
    };
    let options = RedisOptions {
        client: redis.client.clone(),
        queue: redis.namespace.clone(),
        lease,
    };
    let queue = RedisQueue::new(options, clock)
        .map_err(|error| AppError::Config(format!("redis.queue: {error}")))?;
    Ok(Arc::new(queue))
}

pub(super) fn open_events(redis: Option<&SharedRedis>) -> (Arc<Feed>, Option<RedisEvents>) {
    match redis {
        None => (Arc::new(Feed::new()), None),
        Some(redis) => {
            let stream = RedisEvents::new(redis.client.clone(), &redis.namespace);
            (Arc::new(Feed::unfilled()), Some(stream))
        }
    }
}

/// Opens the gate and starts its synchronization with the gates of other processes until `stop`.
pub(super) fn open_gate(
    settings: &Settings,
    redis: Option<&SharedRedis>,
    providers: &Providers,
    stop: CancellationToken,
) -> (Arc<Gate>, BoxFuture<'static, ()>) {
    let options = gate_options(settings, providers);
    match redis {
        None => (Arc::new(Gate::new(options)), std::future::ready(()).boxed()),
        Some(redis) => {
            let (gate, keeping) = shared_gate(&redis.client, &redis.namespace, options, stop);
            (gate, keeping.boxed())
        }
    }
}

/// A process calls Redis four times a second, and may have to wait for a response.
const LEAST_GATE_LEASE: Duration = Duration::from_secs(2);

fn gate_options(settings: &Settings, providers: &Providers) -> GateOptions {
    GateOptions {
        failures_to_open: settings.judge.breaker_failures,
        cool_down: Duration::from_secs_f64(settings.judge.breaker_cooldown_s),
        lease: Duration::from_secs_f64(settings.worker.lease_s).max(LEAST_GATE_LEASE),
        max_concurrency: providers.concurrency(),
        paces: providers.paces(),
        ..GateOptions::default()
    }
}

pub(super) fn retry_options(settings: &Settings) -> RetryOptions {
    RetryOptions {
        max_retries: settings.judge.max_retries,
        first_delay: Duration::from_secs_f64(settings.judge.retry_base_s),
        longest_in_slot: Duration::from_secs_f64(settings.judge.max_slot_wait_s),
        ..RetryOptions::default()
    }
}

pub(super) fn spending_caps(caps: &Caps) -> SpendingCaps {
    let figures = |cap: Cap| SpendingCap {
        daily_usd: cap.daily_usd,
        monthly_usd: cap.monthly_usd,
    };
    let by_entry = caps.by_entry().into_iter();
    SpendingCaps {
        total: caps.total.is_set().then(|| figures(caps.total)),
        entries: by_entry.map(|(entry, cap)| (entry, figures(cap))).collect(),
    }
}

pub(super) fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "localhost".to_owned());
    format!("{host}:{}", std::process::id())
}

pub(super) fn kept(retention: &RetentionSettings) -> RetentionPeriods {
    let some = |days: u32| (days > 0).then(|| TimeDelta::days(days.into()));
    RetentionPeriods {
        calls: TimeDelta::days(retention.judge_calls_days.into()),
        jobs: some(retention.jobs_days),
        sessions: some(retention.sessions_days),
        deliveries: TimeDelta::days(retention.webhook_deliveries_days.into()),
    }
}

pub(super) fn webhook_options(settings: &Settings) -> WebhookOptions {
    let webhooks = &settings.webhooks;
    WebhookOptions {
        endpoints: webhooks.endpoints.clone(),
        targets: match webhooks.allow_private {
            true => Targets::Any,
            false => Targets::Public,
        },
        mean_drop: webhooks.mean_drop,
    }
}
