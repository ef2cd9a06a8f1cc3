//! Client of a TARSy's HTTP API: detects the generation, lists sessions, reads one session.
//!
//! [`Tarsy`] tries the list of each generation to distinguish them. Only GET requests are sent. Unknown fields are ignored, and
//! unknown kinds of events are stored as text.

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

/// Sessions per page of the list; the maximum of both generations.
pub const PAGE_SIZE: u32 = 100;
pub const SOURCE: &str = "tarsy";
/// Lifetime of the detected generation, because a TARSy may be replaced by the next generation at the same address.
const BELIEVED: Duration = Duration::from_secs(600);

text_enum! {
    /// API generation of a TARSy.
    pub enum Generation {
        /// `/api/v1/history/sessions`, times in microseconds.
        Python = "python",
        /// `/api/v1/sessions`, a timeline of events.
        Go = "go",
    }
}

#[derive(Debug, Clone)]
pub struct TarsyOptions {
    pub token: Option<SecretString>,
    /// Retries included; 0: no limit.
    pub requests_per_second: f64,
    pub timeout: Duration,
    /// Retries after transient errors.
    pub max_retries: u32,
    /// Delay before the first retry; each further one doubles.
    pub first_delay: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TarsyError {
    /// Unreachable or failing: retry later.
    #[error("{message}")]
    Unavailable {
        message: String,
        /// Delay requested by the server.
        retry_after: Option<Duration>,
    },
    /// The token is rejected or missing. Requests fail until an operator changes it.
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    Missing(String),
    /// The server isn't a TARSy of either generation, or the response is malformed.
    #[error("{0}")]
    Unusable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFilter {
    /// Empty: all.
    pub statuses: Vec<SessionStatus>,
    /// Inclusive.
    pub since: Option<DateTime<Utc>>,
    /// Exclusive in one generation, inclusive in the other.
    pub until: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// As spelled by the TARSy.
    pub id: String,
    /// `None`: unknown status.
    pub status: Option<SessionStatus>,
    /// Start time, the filter of the list.
    pub began_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    /// Reviewer's rating; only in the newer generation.
    pub quality: Option<Quality>,
}

/// Session in the form of a PUT.
#[derive(Debug, Clone, PartialEq)]
pub struct TarsySession {
    pub input: SessionInput,
    pub quality: Option<Quality>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// In the TARSy's order.
    pub items: Vec<Listed>,
    /// Pages of the window, if reported.
    pub total_pages: Option<u64>,
    /// Sessions of the window, if reported.
    pub total_items: Option<u64>,
}

pub struct Tarsy {
    http: Http,
    generation: Mutex<Option<(Generation, Instant)>>,
}

impl Tarsy {
    /// Prepares a client without connecting.
    pub fn new(address: Address, options: TarsyOptions) -> Self {
        Self {
            http: Http::new(address, options),
            generation: Mutex::new(None),
        }
    }

    pub fn address(&self) -> &Address {
        self.http.address()
    }

    /// Returns the generation, cached for ten minutes. Concurrent callers share one detection. Errors: `Unusable` if both lists fail;
    /// `Denied`; `Unavailable`.
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

    /// Sets the rate in requests a second; 0: no limit.
    pub fn set_pace(&self, requests_per_second: f64) {
        self.http.set_pace(requests_per_second);
    }

    /// Returns one page of the sessions in a window; pages start at 1.
    pub async fn list(&self, window: &ListFilter, page: u32) -> Result<ListPage, TarsyError> {
        let page = match self.generation().await? {
            Generation::Python => {
                python::list_page(&self.http.get(&python::list_path(window, page)).await?)
            }
            Generation::Go => go::list_page(&self.http.get(&go::list_path(window, page)).await?),
        };
        page.map_err(|fault| {
            TarsyError::Unusable(format!(
                "{} returned an invalid list of sessions: {fault}",
                self.address()
            ))
        })
    }

    /// Returns one session in the form of a PUT. Errors: `Missing` if it doesn't exist; `Unusable` if the response is malformed.
    pub async fn session(&self, id: Uuid) -> Result<TarsySession, TarsyError> {
        match self.generation().await? {
            Generation::Python => python::session(&self.http, id).await,
            Generation::Go => go::session(&self.http, id).await,
        }
    }

    /// Detects the generation: its list returns sessions. A page of a web application doesn't count, at any status.
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
            "{} is not a TARSy: /api/v1/history/sessions and /api/v1/sessions return no list of sessions \
             ({why}); give the address of its API, without /api/v1",
            self.address()
        )))
    }
}

fn is_list(text: &str) -> bool {
    serde_json::from_str::<Value>(text)
        .is_ok_and(|value| value["sessions"].is_array() && value["pagination"].is_object())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pagination {
    total_pages: Option<u64>,
    total_items: Option<u64>,
}

fn status_of(word: Option<&str>) -> Option<SessionStatus> {
    word.and_then(|word| word.parse().ok())
}

fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

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

/// Returns `server.tool` or only the tool; `None` without a tool.
fn tool_name(server: Option<String>, tool: Option<String>) -> Option<String> {
    let tool = tool?;
    match server {
        Some(server) if !tool.starts_with(&format!("{server}.")) => {
            Some(format!("{server}.{tool}"))
        }
        Some(_) | None => Some(tool),
    }
}

/// Returns the name of an available tool: a text, or an object with a `name`.
fn available_tool(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry["name"].as_str())
}

/// Rejects a response about another session. A response without an id is accepted.
fn about(id: Uuid, said: Option<&str>) -> Result<(), TarsyError> {
    match said {
        Some(other) if other.parse() != Ok(id) => Err(TarsyError::Unusable(format!(
            "the response for session {id} is about session {}",
            shortened(other)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Parses a response about a session. The error names the part.
fn read<'a, T: Deserialize<'a>>(text: &'a str, what: &str, id: Uuid) -> Result<T, TarsyError> {
    serde_json::from_str(text)
        .map_err(|fault| TarsyError::Unusable(format!("{what} of session {id}: {fault}")))
}
