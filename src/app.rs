//! Connects the parts of a process: store, queue, judges.

mod clock;
mod data_dir;
mod descriptors;
mod error;
mod files;
mod health;
mod history;
mod metrics;
mod open;
mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::data_dir::DataDir;
pub use self::data_dir::hold_data_folder;
pub use self::error::AppError;
use self::files::Files;
use self::health::ProcessHealth;
use self::metrics::MeteredCalls;
use self::open::{
    SharedRedis, migrate, open_events, open_gate, open_queue, open_redis, retry_options,
    spending_caps,
};
use crate::api;
use crate::clock::{Clock, SystemClock};
use crate::config::criteria_file;
use crate::config::{ConfigError, Settings};
use crate::enqueue::{Enqueue, EnqueueParts, ScorableStatus};
use crate::events::{Announcer, Events, Feed, RedisEvents, announcer};
use crate::history::imports::Imports;
use crate::history::on_demand::OnDemand;
use crate::job::{Kind, Lane};
use crate::judge::gate::Gate;
use crate::judge::{self, Caps, JudgeWiring, Judges};
use crate::memory::MemoryBudget;
use crate::queue::{Depth, Queue, QueueError};
use crate::score::Criteria;
use crate::store::{Store, StoreError};

// Used by commands without an open `App`.
pub use self::files::{criteria_of, model_of, only_judge, read_providers};
pub(crate) use self::health::clocks_apart;
pub use self::history::history_options;
pub use self::open::open_store;
pub use crate::api::openapi_json;
pub use crate::judge::provider::simulated;
pub use crate::judge::{JudgeError, Probed, Providers};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// SQLite and the in-process queue, in a folder locked by this process.
    Embedded {
        data_dir: PathBuf,
    },
    Shared,
}

/// Timeout for closing the database connections, so that an unavailable database doesn't block the exit.
const CLOSING: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrations {
    Apply,
    Require,
}

/// Shutdown signals. After `soft`, no new work starts and running work finishes. After `hard`, running work is released.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    pub soft: CancellationToken,
    pub hard: CancellationToken,
}

pub struct App {
    settings: Settings,
    mode: Mode,
    clock: Arc<dyn Clock>,
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    gate: Arc<Gate>,
    judges: Arc<Judges>,
    providers: Providers,
    caps: Caps,
    enqueue: Arc<Enqueue>,
    imports: Arc<Imports>,
    events: Announcer,
    memory: MemoryBudget,
    feed: Arc<Feed>,
    redis: Option<SharedRedis>,
    /// Stream that fills the feed; `None`: events are added to the feed directly.
    stream: Option<RedisEvents>,
    tokens: api::Tokens,
    /// Errors of the last reload, as shown by `/readyz`.
    not_reloaded: Arc<parking_lot::Mutex<BTreeMap<&'static str, String>>>,
    few_descriptors: Option<String>,
    worker: Arc<Mutex<Option<Uuid>>>,
    pushing: Mutex<Option<JoinHandle<()>>>,
    stop_pushing: CancellationToken,
    _data_dir: Option<DataDir>,
}

impl App {
    /// Reads the files named by the settings, opens the store, and creates queue and judges.
    pub async fn open(
        mut settings: Settings,
        mode: Mode,
        migrations: Migrations,
    ) -> Result<Self, AppError> {
        metrics::install();
        let limit = descriptors::raise_limit();
        let few_descriptors = limit.and_then(|limit| descriptors::bound(&mut settings, limit));
        if let Some(why) = &few_descriptors {
            tracing::warn!("{why}");
        }
        let files = Files::read(&settings)?;
        let history = history_options(&settings)?;
        let data_dir = hold_data_folder(&mode)?;
        let store = Arc::new(open_store(&settings, &mode).await?);
        migrate(&store, migrations).await?;
        let stop_pushing = CancellationToken::new();
        let (clock, following) = clock::open(&store, stop_pushing.clone()).await?;
        if data_dir.is_some() {
            let broken = |error: StoreError| AppError::Broken(error.to_string());
            release_everything(&store).await.map_err(broken)?;
        }
        let redis = open_redis(&settings, &mode, &store).await?;
        let queue = open_queue(&settings, redis.as_ref(), clock.clone())?;
        let (gate, keep_in_step) = open_gate(
            &settings,
            redis.as_ref(),
            &files.providers,
            stop_pushing.clone(),
        );
        let judges = Arc::new(Judges::wired(
            &files.providers,
            JudgeWiring {
                gate: gate.clone(),
                log: Arc::new(MeteredCalls::new(store.clone())),
                clock: clock.clone(),
                retry: retry_options(&settings),
            },
        ));
        let (feed, stream) = open_events(redis.as_ref());
        let log: Arc<dyn Events> = match &stream {
            Some(stream) => Arc::new(stream.clone()),
            None => feed.clone(),
        };
        let (events, announce) = announcer(log, clock.clone(), stop_pushing.clone());
        let on_demand = history
            .base
            .clone()
            .map(|base| OnDemand::new(store.clone(), clock.clone(), &history, base));
        let (enqueue, push) = Enqueue::new(
            EnqueueParts {
                store: store.clone(),
                queue: queue.clone(),
                clock: clock.clone(),
                events: events.clone(),
                providers: files.providers.clone(),
                history: on_demand,
            },
            files.criteria,
            if settings.scoring.score_only_completed {
                ScorableStatus::Completed
            } else {
                ScorableStatus::Ended
            },
            stop_pushing.clone(),
        );
        let unread = |error: StoreError| AppError::Unreachable(error.to_string());
        if let Some(simulated) = settings.only_simulated {
            enqueue.follow_only(simulated);
        }
        enqueue.take_over_choices().await.map_err(unread)?;
        warn_of_overruled(&enqueue, &settings);
        let choices = follow_choices(enqueue.clone(), stop_pushing.clone());
        let imports = Imports::new(store.clone(), clock.clone(), history);
        Ok(Self {
            memory: MemoryBudget::new(settings.memory_budget_bytes),
            settings,
            mode,
            clock,
            store,
            queue,
            gate,
            judges,
            providers: files.providers,
            caps: files.caps,
            enqueue,
            imports,
            events,
            feed,
            redis,
            stream,
            tokens: api::Tokens::default(),
            not_reloaded: Arc::default(),
            few_descriptors,
            worker: Arc::default(),
            pushing: Mutex::new(Some(tokio::spawn(async {
                tokio::join!(push, announce, following, keep_in_step, choices);
            }))),
            stop_pushing,
            _data_dir: data_dir,
        })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn enqueue(&self) -> &Arc<Enqueue> {
        &self.enqueue
    }

    pub fn criteria(&self) -> Arc<Criteria> {
        self.enqueue.current_criteria()
    }

    /// Returns the judge of the current criteria and its concurrency limit, if the limit is below the worker's.
    pub fn capped_judge(&self) -> Option<(String, u32)> {
        let judge = self.criteria().judge.clone();
        let cap = self.providers.spec(&judge).ok()?.max_concurrency()?;
        (usize::try_from(cap).is_ok_and(|cap| cap < self.settings().worker.concurrency))
            .then_some((judge, cap))
    }

    /// Returns the judges' names, each with `None` if it is configured, otherwise the remedy.
    pub fn judges(&self) -> Vec<(String, Option<String>)> {
        self.providers
            .names()
            .into_iter()
            .map(|name| {
                let checked = self.providers.check(&name);
                (name, checked.err().map(|error| error.to_string()))
            })
            .collect()
    }

    pub async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError> {
        self.queue.depth(lane).await
    }

    pub async fn ping_queue(&self) -> Result<(), QueueError> {
        self.queue.ping().await
    }

    /// Returns the eviction policy of Redis if it could evict keys of the queue.
    pub async fn queue_eviction(&self) -> Option<String> {
        let policy = self.redis.as_ref()?.client.maxmemory_policy().await?;
        policy.starts_with("allkeys-").then_some(policy)
    }

    /// Requests one token from a judge. Returns `None` if it isn't configured.
    pub async fn probe_judge(
        providers: &Providers,
        name: &str,
    ) -> Option<Result<Probed, JudgeError>> {
        let spec = providers.spec(name).ok()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Some(judge::probe(&spec, &clock).await)
    }

    /// Checks whether the API may serve at that address: a public one needs tokens.
    pub fn check_access(settings: &Settings, bind: std::net::SocketAddr) -> Result<(), AppError> {
        api::check_access(&settings.auth, &settings.http, bind).map_err(AppError::Config)
    }

    /// Fails with the missing settings if the worker has no configured judge.
    pub fn require_judge(&self) -> Result<(), AppError> {
        let judge = &self.criteria().judge;
        self.providers
            .check(judge)
            .map_err(|error| AppError::NoJudge(error.to_string()))
    }

    /// Reads the criteria files again. If one is invalid, the previous criteria stay, and `/readyz?verbose` shows the error.
    pub fn reload_criteria(&self) -> Result<(), AppError> {
        const WHAT: &str = "criteria";
        match files::read_criteria(&self.settings) {
            Ok(criteria) => {
                for kind in Kind::ALL {
                    let hash = &criteria.for_kind(*kind).hash;
                    tracing::info!(%kind, criteria_hash = %hash, "criteria loaded");
                }
                self.enqueue.set_current(criteria);
                warn_of_overruled(&self.enqueue, &self.settings);
                self.not_reloaded.lock().remove(WHAT);
                Ok(())
            }
            Err(error) => {
                let why =
                    format!("failed to reload the criteria, keeping the previous ones: {error}");
                self.not_reloaded.lock().insert(WHAT, why);
                Err(error)
            }
        }
    }

    /// Replaces the tokens by those of reloaded settings and returns their number. If the settings are invalid, the previous tokens stay,
    /// and `/readyz?verbose` shows the error without details that belong in the log only.
    pub fn reload_tokens(&self, read: Result<Settings, ConfigError>) -> Result<usize, AppError> {
        const WHAT: &str = "tokens";
        let read = read.map_err(|error| error.to_string());
        let taken = read.and_then(|settings| self.tokens.reload(&settings.auth));
        let mut not_reloaded = self.not_reloaded.lock();
        match &taken {
            Ok(_) => not_reloaded.remove(WHAT),
            Err(_) => not_reloaded.insert(
                WHAT,
                "failed to reload the tokens, keeping the previous ones: the log has the error; fix it and send SIGHUP again"
                    .to_owned(),
            ),
        };
        taken.map_err(AppError::Config)
    }

    /// Writes and announces buffered data, closes the store, unlocks the data folder.
    pub async fn close(self) {
        self.stop_pushing.cancel();
        let pushing = self
            .pushing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let closing = async {
            if let Some(pushing) = pushing
                && let Err(error) = pushing.await
            {
                tracing::error!(%error, "push task panicked");
            }
            self.store.close().await;
        };
        match self.mode {
            // The database belongs to this process, so closing it has no timeout.
            Mode::Embedded { .. } => closing.await,
            Mode::Shared => {
                if tokio::time::timeout(CLOSING, closing).await.is_err() {
                    tracing::warn!("failed to close the database connections in time");
                }
            }
        }
    }

    fn askable_judges(&self) -> Vec<String> {
        let mut names = self.providers.names();
        names.retain(|name| self.providers.check(name).is_ok());
        names
    }

    fn health(&self, draining: CancellationToken) -> Arc<ProcessHealth> {
        Arc::new(ProcessHealth {
            store: self.store.clone(),
            enqueue: self.enqueue.clone(),
            queue: matches!(self.mode, Mode::Shared).then(|| self.queue.clone()),
            not_reloaded: self.not_reloaded.clone(),
            few_descriptors: self.few_descriptors.clone(),
            draining,
            clock: self.clock.clone(),
        })
    }

    fn api_state(&self, bind: std::net::SocketAddr, draining: CancellationToken) -> api::ApiParts {
        api::ApiParts {
            store: self.store.clone(),
            enqueue: self.enqueue.clone(),
            imports: self.imports.clone(),
            clock: self.clock.clone(),
            http: self.settings.http.clone(),
            auth: self.settings.auth.clone(),
            tokens: self.tokens.clone(),
            events: self.events.clone(),
            streams: api::Streams::new(
                self.feed.clone(),
                self.settings.http.max_streams,
                draining.clone(),
            ),
            keyed: TaskTracker::new(),
            memory: self.memory.clone(),
            health: self.health(draining),
            metrics: metrics::renderer(&self.store),
            judges: {
                let providers = self.providers.clone();
                Arc::new(move || providers.names())
            },
            fallback_of: {
                let providers = self.providers.clone();
                Arc::new(move |name| providers.fallback(name))
            },
            caps: spending_caps(&self.caps),
            max_wait: Duration::from_secs(self.settings.worker.max_wait_s),
            bind,
        }
    }
}

/// Releases jobs, imports and idempotency keys at once, because the lock on the data folder proves that their process has ended.
async fn release_everything(store: &Store) -> Result<(), StoreError> {
    store.workers().forget().await?;
    store.imports().release_all().await?;
    store.idempotency_keys().release_all().await
}

/// Warns if the criteria of a configured file aren't current, because a user who names a file expects that. Built-in files are exempt.
fn warn_of_overruled(enqueue: &Enqueue, settings: &Settings) {
    for (file, current) in enqueue.overruled() {
        let (path, ..) = criteria_file(settings, file.kind);
        if let Err(problem) = enqueue.check_judge(&current.judge) {
            tracing::warn!(
                kind = %file.kind, current = %current.hash,
                "{}", problem.remedy
            );
        } else if !path.is_empty() {
            tracing::warn!(
                kind = %file.kind, file = path, criteria_hash = %file.hash, current = %current.hash,
                "the criteria of this file aren't current, because another version was made current on its page; \
                 to use the file, make its version current on /criteria/{}",
                file.hash
            );
        }
    }
}

/// Interval of reads of the criteria made current by other processes.
const CHOICES_POLL_INTERVAL: Duration = Duration::from_secs(5);

async fn follow_choices(enqueue: Arc<Enqueue>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHOICES_POLL_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = enqueue.take_over_choices().await {
            tracing::debug!(%error, "failed to read the current criteria");
        }
    }
}
