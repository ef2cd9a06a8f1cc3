//! Set-up of a program under test: files, database, queue and settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gavel::app::Mode;
use gavel::config::{Settings, Sources};
use uuid::Uuid;

pub(crate) const JUDGE: &str = "judge";
pub(crate) const KEY: &str = "test-key-4711";

pub(crate) struct Home {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
    database: Option<String>,
}

impl Home {
    pub(crate) fn embedded() -> Self {
        let home = Self {
            dir: tempfile::tempdir().unwrap(),
            env: BTreeMap::new(),
            database: None,
        };
        home.with_defaults()
    }

    /// Separate database and queue on the configured servers; `None` without them.
    pub(crate) async fn shared() -> Option<Self> {
        let redis = super::redis_server()?;
        let database = super::postgres_database().await?;
        let mut home = Self::on(&database, &redis);
        home.database = Some(database);
        Some(home)
    }

    /// This database, with a separate queue on this Redis.
    pub(crate) fn on(database: &str, redis: &str) -> Self {
        let mut home = Self::embedded();
        home.set("DATABASE_URL", database);
        home.set("REDIS_URL", redis);
        let queue = format!("test-{}", Uuid::now_v7().simple());
        home.set("GAVEL_REDIS_QUEUE", queue);
        home
    }

    fn with_defaults(mut self) -> Self {
        let criteria = self.dir.path().join("scoring_config.yaml");
        std::fs::copy(built_in("config/scoring_config.yaml"), &criteria).unwrap();
        self.set("GAVEL_SCORING_CONFIG", criteria.display());
        self.set("GAVEL_BIND", "127.0.0.1:0");
        self.set("DEFAULT_LLM_PROVIDER", JUDGE);
        self.set("GAVEL_JUDGE_RETRY_BASE_S", "0.02");
        self.set("GAVEL_DATABASE_MAX_CONNECTIONS", "12");
        // No load balancer has to notice the shutdown.
        self.set("GAVEL_HTTP_DRAIN_DELAY_S", "0");
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.env.insert(name.to_owned(), value.to_string());
        self
    }

    pub(crate) fn unset(&mut self, name: &str) -> &mut Self {
        self.env.remove(name);
        self
    }

    /// Gives the program a wall clock with an offset, such as "+6s"; "" resets it. Returns `None`, with a message,
    /// without libfaketime.
    pub(crate) fn set_clock(&mut self, offset: &str) -> Option<&mut Self> {
        self.unset("LD_PRELOAD").unset("FAKETIME");
        self.env.extend(super::process::clock_at(offset)?);
        Some(self)
    }

    /// Writes the judges file: one judge at this address. `more` are further lines of the entry.
    pub(crate) fn judge_at(&mut self, base_url: &str, more: &str) -> &mut Self {
        let path = self.dir.path().join("llm_providers.yaml");
        std::fs::write(&path, providers(base_url, more)).unwrap();
        self.set("GAVEL_LLM_PROVIDERS", path.display())
    }

    pub(crate) fn judge_of(&mut self, family: &str, base_url: &str, more: &str) -> &mut Self {
        let path = self.dir.path().join("llm_providers.yaml");
        let text = providers(base_url, more).replace("type: openai", &format!("type: {family}"));
        std::fs::write(&path, text).unwrap();
        self.set("GAVEL_LLM_PROVIDERS", path.display())
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.env.get(name).map_or("", String::as_str)
    }

    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn replace_criteria(&self, with: &str) {
        std::fs::copy(built_in(with), self.get("GAVEL_SCORING_CONFIG")).unwrap();
    }

    pub(crate) fn settings(&self) -> Settings {
        let sources = Sources {
            env: self.env.clone(),
            ..Sources::default()
        };
        gavel::config::load(&sources).unwrap().settings
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.database {
            Some(_) => Mode::Shared,
            None => Mode::Embedded {
                data_dir: self.dir.path().join("data"),
            },
        }
    }

    /// Database address, for direct access by tests.
    pub(crate) fn database_url(&self) -> String {
        match &self.database {
            Some(url) => url.clone(),
            None => format!(
                "sqlite://{}",
                self.dir.path().join("data/gavel.db").display()
            ),
        }
    }

    pub(crate) async fn remove(self) {
        if let Some(url) = &self.database {
            super::drop_postgres_database(url).await;
        }
    }
}

pub(crate) fn built_in(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn providers(base_url: &str, more: &str) -> String {
    let model = super::judge_server::MODEL;
    let cap = match more.contains("max_concurrency:") {
        true => "",
        false => "  max_concurrency: 0\n",
    };
    format!(
        "{JUDGE}:\n  type: openai\n  base_url: {base_url}\n  key: {KEY}\n  model: {model}\n{cap}  \
         prices:\n    {model}: {{ input_per_mtok: 1.0, output_per_mtok: 2.0, as_of: 2026-01-01, source: a test }}\n{more}"
    )
}
