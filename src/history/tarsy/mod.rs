//! A TARSy, read over its HTTP API: which generation it is, its list of sessions, and one session whole.
//!
//! Two generations exist, and [`Tarsy`] tells them apart by which of two lists answers. Only GET is ever sent. What a
//! session says is taken as it is: fields that aren't known are ignored, and kinds of event that aren't known are
//! kept as text. Nothing here is stored or scored.

mod address;
mod go;
mod http;
mod pace;
mod python;

use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

pub use self::address::{Address, BadAddress};
use self::http::Http;
use crate::history::ingest::{SessionInput, shortened};
use crate::job::text_enum;
use crate::wire::{Quality, SessionStatus};

/// Sessions of one page of the list; both generations give at most this many.
pub const PAGE_SIZE: u32 = 100;
/// What sessions of a TARSy are stored with as their source.
pub const SOURCE: &str = "tarsy";
/// How long the generation is believed: a TARSy may be replaced by the next generation at the same address.
const BELIEVED: Duration = Duration::from_secs(600);

text_enum! {
    /// Which of the two APIs a TARSy has.
    pub enum Generation {
        /// `/api/v1/history/sessions`, times in microseconds.
        Python = "python",
        /// `/api/v1/sessions`, a timeline of events.
        Go = "go",
    }
}

/// How a TARSy is asked.
#[derive(Debug, Clone)]
pub struct TarsyOptions {
    /// A bearer token.
    pub token: Option<SecretString>,
    /// HTTP requests a second, each one counted; 0: as fast as it goes.
    pub requests_per_second: f64,
    /// How long one request may take.
    pub timeout: Duration,
    /// Retries after a request that failed for a passing reason.
    pub max_retries: u32,
    /// The delay before the first retry; each further one doubles.
    pub first_delay: Duration,
}

/// Why a TARSy gave nothing, by what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TarsyError {
    /// It can't be reached, or doesn't answer well: try again later.
    #[error("{message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// When it asked to be tried again.
        retry_after: Option<Duration>,
    },
    /// It refuses our token, or the lack of one: nothing will work until somebody changes that.
    #[error("{0}")]
    Denied(String),
    /// It has no such thing.
    #[error("{0}")]
    Missing(String),
    /// What answers is no TARSy of either generation, or not with what was asked for.
    #[error("{0}")]
    Unusable(String),
}

/// Which sessions are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFilter {
    /// The statuses; empty: all.
    pub statuses: Vec<SessionStatus>,
    /// The beginning, inclusive.
    pub since: Option<DateTime<Utc>>,
    /// The end. One generation takes it as exclusive, the other as inclusive.
    pub until: DateTime<Utc>,
}

/// One session of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id, as the TARSy spells it.
    pub id: String,
    /// Where it stands, if the word is known.
    pub status: Option<SessionStatus>,
    /// When it began: what the list is filtered by.
    pub began_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// What a reviewer said of it; the newer generation alone asks reviewers.
    pub quality: Option<Quality>,
}

/// One session, as it would be put.
#[derive(Debug, Clone, PartialEq)]
pub struct TarsySession {
    pub input: SessionInput,
    /// What a reviewer said of it.
    pub quality: Option<Quality>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// The sessions, in the TARSy's order.
    pub items: Vec<Listed>,
    /// How many pages the window has, if it says.
    pub total_pages: Option<u64>,
    /// How many sessions the window has, if it says.
    pub total_items: Option<u64>,
}

/// A TARSy at an address.
pub struct Tarsy {
    http: Http,
    generation: Mutex<Option<(Generation, Instant)>>,
}

impl Tarsy {
    /// Prepares to ask the TARSy at `address`. Doesn't connect yet.
    pub fn new(address: Address, options: TarsyOptions) -> Self {
        Self {
            http: Http::new(address, options),
            generation: Mutex::new(None),
        }
    }

    pub fn address(&self) -> &Address {
        self.http.address()
    }

    /// Which generation answers there. The answer is believed for ten minutes; of many that ask at once, one finds out.
    ///
    /// # Errors
    /// `Unusable` when neither does; `Denied` and `Unavailable` as they are.
    pub async fn generation(&self) -> Result<Generation, TarsyError> {
        let mut known = self.generation.lock().await;
        if let Some((generation, at)) = *known
            && at.elapsed() < BELIEVED
        {
            return Ok(generation);
        }
        let generation = self.detect().await?;
        *known = Some((generation, Instant::now()));
        Ok(generation)
    }

    /// From now on so many requests a second; 0: as fast as it goes.
    pub fn set_pace(&self, requests_per_second: f64) {
        self.http.set_pace(requests_per_second);
    }

    /// One page of the sessions in a window, from page 1.
    pub async fn list(&self, window: &ListFilter, page: u32) -> Result<ListPage, TarsyError> {
        let page = match self.generation().await? {
            Generation::Python => {
                python::list_page(&self.http.get(&python::list_path(window, page)).await?)
            }
            Generation::Go => go::list_page(&self.http.get(&go::list_path(window, page)).await?),
        };
        page.map_err(|fault| {
            TarsyError::Unusable(format!(
                "{} answered with what is not the list of sessions: {fault}",
                self.address()
            ))
        })
    }

    /// One session, whole, as it would be put.
    ///
    /// # Errors
    /// `Missing` when there is no such session; `Unusable` when its answer can't be read.
    pub async fn session(&self, id: Uuid) -> Result<TarsySession, TarsyError> {
        match self.generation().await? {
            Generation::Python => python::session(&self.http, id).await,
            Generation::Go => go::session(&self.http, id).await,
        }
    }

    /// The list that answers as a list of sessions tells the generation. A page of a web application is no list, whatever
    /// its status.
    async fn detect(&self) -> Result<Generation, TarsyError> {
        let attempts = [
            (Generation::Python, python::PROBE),
            (Generation::Go, go::PROBE),
        ];
        let mut why = String::new();
        for (generation, path) in attempts {
            match self.http.get(path).await {
                Ok(text) if is_list(&text) => return Ok(generation),
                Ok(_) => "what answers is no list of sessions".clone_into(&mut why),
                Err(TarsyError::Missing(said) | TarsyError::Unusable(said)) => why = said,
                Err(error @ (TarsyError::Unavailable { .. } | TarsyError::Denied(_))) => {
                    return Err(error);
                }
            }
        }
        Err(TarsyError::Unusable(format!(
            "{} is no TARSy: neither /api/v1/history/sessions nor /api/v1/sessions answers with a list of sessions \
             ({why}); give the address that its API has, without /api/v1",
            self.address()
        )))
    }
}

fn is_list(text: &str) -> bool {
    serde_json::from_str::<Value>(text)
        .is_ok_and(|value| value["sessions"].is_array() && value["pagination"].is_object())
}

/// What both generations say about the pages of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pagination {
    total_pages: Option<u64>,
    total_items: Option<u64>,
}

/// Reads a status; a word that isn't known is none.
fn status_of(word: Option<&str>) -> Option<SessionStatus> {
    word.and_then(|word| word.parse().ok())
}

/// Text as it is, anything else as JSON.
fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// Adds a tool, unless it is there.
fn add_tool(tools: &mut Vec<String>, server: Option<&str>, tool: Option<&str>) {
    let named = |name: Option<&str>| {
        name.map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
    };
    if let Some(name) = tool_name(named(server), named(tool))
        && !tools.contains(&name)
    {
        tools.push(name);
    }
}

/// `server.tool`, or the tool alone. Without a tool there is no name.
fn tool_name(server: Option<String>, tool: Option<String>) -> Option<String> {
    let tool = tool?;
    match server {
        Some(server) if !tool.starts_with(&format!("{server}.")) => {
            Some(format!("{server}.{tool}"))
        }
        Some(_) | None => Some(tool),
    }
}

/// The name of an entry of a list of available tools: a text, or an object with a `name`.
fn available_tool(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry["name"].as_str())
}

/// Refuses an answer that says it is about another session; one that doesn't say is believed.
fn about(id: Uuid, said: Option<&str>) -> Result<(), TarsyError> {
    match said {
        Some(other) if other.parse() != Ok(id) => Err(TarsyError::Unusable(format!(
            "what came for session {id} is about session {}",
            shortened(other)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Reads one answer of a session; the fault names the part.
fn read<'a, T: Deserialize<'a>>(text: &'a str, what: &str, id: Uuid) -> Result<T, TarsyError> {
    serde_json::from_str(text)
        .map_err(|fault| TarsyError::Unusable(format!("{what} of session {id}: {fault}")))
}
