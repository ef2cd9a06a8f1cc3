//! `llm_providers.yaml` after substitution: entries, models, prices, limits.
//!
//! Parses and validates without I/O: a callback reads `key_file`. Keys are wrapped as secrets immediately, so that no error or debug output
//! contains them.

mod cap;
mod caps;
mod entry;
mod fallbacks;
mod prices;
pub(crate) mod spec;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use gavel_rules::FileError;
use serde_json::Value;

use super::gate::PaceLimits;
pub use cap::Cap;
pub use caps::{Caps, EntryCap};
use prices::AS_OF;
pub(crate) use prices::price_of;
use spec::Entry;
pub use spec::JudgeSpec;

/// Reason why a judge is unavailable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotConfigured {
    #[error(
        "unknown judge {name:?}: name another one in DEFAULT_LLM_PROVIDER, in the criteria's scoring.llm_provider or with --judge; {known}"
    )]
    Unknown {
        name: String,
        /// Closest name, or all names.
        known: String,
    },
    /// The entry doesn't list the model and a cap applies.
    #[error(
        "judge {name:?} can't be called: entry {entry:?} has a cap, and the model isn't among its models; list it \
         under models in llm_providers.yaml and give it a price, or omit the cap"
    )]
    Capped { name: String, entry: String },
    #[error("judge {name:?} is not configured: {remedy}{}", instead(.others))]
    NoKey {
        name: String,
        /// Setting to add, e.g. `set OPENAI_API_KEY`.
        remedy: String,
        others: Vec<String>,
    },
}

fn instead(others: &[String]) -> String {
    let all: Vec<String> = others
        .iter()
        .map(|name| format!("DEFAULT_LLM_PROVIDER={name}"))
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("; or set {}, which can be called", all.join(" or ")),
    }
}

impl NotConfigured {
    /// Returns the error text for a judge named in a request instead of a setting.
    pub fn of_a_request(&self) -> String {
        match self {
            Self::Unknown { known, .. } => format!("unknown judge; {known}"),
            Self::Capped { .. } => self.to_string(),
            Self::NoKey { name, remedy, .. } => {
                format!("judge {name:?} is not configured: {remedy}")
            }
        }
    }
}

const MAX_UTC_OFFSET: TimeDelta = TimeDelta::hours(14);

#[derive(Debug, Clone)]
pub struct Providers {
    entries: BTreeMap<String, Arc<Entry>>,
    /// Cap on the cost of all judges.
    total_cap: Cap,
}

impl Providers {
    /// Parses the resolved YAML (as JSON): a map of entries by name. Unknown keys are errors with "did you mean". `key_file` reads the file
    /// in an entry's `key_file:`.
    pub fn from_value(
        value: &Value,
        key_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, FileError> {
        let Value::Object(map) = value else {
            let message = "expected a map of provider entries by name";
            return Err(FileError::new("", message));
        };
        let mut entries = BTreeMap::new();
        for (name, value) in map {
            entries.insert(name.clone(), Arc::new(Entry::read(name, value, key_file)?));
        }
        let providers = Self {
            entries,
            total_cap: Cap::default(),
        };
        providers.check_fallbacks()?;
        providers.check_caps()?;
        Ok(providers)
    }

    /// Checks that the date of each price is not after `now`, because such a price can't have been looked up. Returns the first violation.
    pub fn check_dates(&self, now: DateTime<Utc>) -> Result<(), FileError> {
        let today = (now + MAX_UTC_OFFSET).date_naive();
        for entry in self.entries.values() {
            let future = entry.prices.iter().find(|(_, price)| price.as_of > today);
            if let Some((model, price)) = future {
                let path = format!("{}.prices.{model}.{AS_OF}", entry.name);
                let message = "is in the future; give a day on which the price was checked";
                return Err(FileError::new(path, format!("{} {message}", price.as_of)));
            }
        }
        Ok(())
    }

    /// Returns all judge names: `entry`, and `entry:model` for each further model.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for entry in self.entries.values() {
            names.push(entry.name.clone());
            names.extend(
                entry
                    .models
                    .iter()
                    .filter(|model| **model != entry.model)
                    .map(|model| format!("{}:{model}", entry.name)),
            );
        }
        names
    }

    /// Checks that a judge exists and has a key if it needs one.
    pub fn check(&self, name: &str) -> Result<(), NotConfigured> {
        self.spec(name).map(|_| ())
    }

    /// Returns the names that [`Self::check`] accepts, for other processes, and `entry:*` if an entry accepts any model.
    pub fn askable(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| self.check(name).is_ok());
        let any = self
            .entries
            .values()
            .filter(|entry| self.accepts_any_model(entry));
        names.extend(
            any.filter(|entry| entry.missing_key().is_none())
                .map(|entry| format!("{}:*", entry.name)),
        );
        names
    }

    /// Returns the entries of configured judges that are not simulated.
    pub fn real(&self) -> Vec<String> {
        let real = self.entries.values().filter(|entry| !entry.simulated);
        real.filter(|entry| entry.missing_key().is_none())
            .map(|entry| entry.name.clone())
            .collect()
    }

    /// Returns the judge named by a request, either a judge or a model. A model belongs to the default judge's entry, unless only another
    /// entry lists it.
    pub fn named(&self, name: &str, default: &str) -> String {
        let name = name.trim();
        let entry_of = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        if self.entries.contains_key(&entry_of(name)) {
            return name.to_owned();
        }
        let default = entry_of(default);
        let lists = |entry: &&Arc<Entry>| {
            let own = entry.name == default && entry.any_model;
            own || entry.lists(name) && entry.missing_key().is_none()
        };
        let default_first = self.entries.get(&default).into_iter();
        let found = default_first.chain(self.entries.values()).find(lists);
        format!("{}:{name}", found.map_or(&default, |entry| &entry.name))
    }

    /// Returns the spec of a judge that [`Self::check`] accepts.
    pub fn spec(&self, name: &str) -> Result<JudgeSpec, NotConfigured> {
        let (entry, model) = self.find(name).ok_or_else(|| NotConfigured::Unknown {
            name: name.to_owned(),
            known: self.hint(name),
        })?;
        if !self.accepts_any_model(entry) && !entry.lists(&model) {
            return Err(NotConfigured::Capped {
                name: name.to_owned(),
                entry: entry.name.clone(),
            });
        }
        if let Some(remedy) = entry.missing_key() {
            return Err(NotConfigured::NoKey {
                name: name.to_owned(),
                remedy,
                others: self.real(),
            });
        }
        Ok(JudgeSpec {
            name: name.to_owned(),
            model,
            entry: Arc::clone(entry),
        })
    }

    /// Returns the concurrency cap by entry for the gate. 0 means no cap.
    pub fn concurrency(&self) -> BTreeMap<String, u32> {
        self.entries
            .values()
            .map(|entry| (entry.name.clone(), entry.max_concurrency))
            .collect()
    }

    pub fn paces(&self) -> BTreeMap<String, PaceLimits> {
        self.entries
            .values()
            .map(|entry| {
                let limits = PaceLimits {
                    requests_per_minute: entry.requests_per_minute.map(u64::from),
                    tokens_per_minute: entry.tokens_per_minute.map(u64::from),
                };
                (entry.name.clone(), limits)
            })
            .collect()
    }

    fn find(&self, name: &str) -> Option<(&Arc<Entry>, String)> {
        if let Some(entry) = self.entries.get(name) {
            return Some((entry, entry.model.clone()));
        }
        // Model names may contain colons (`llama3:8b`), entry names can't.
        let (entry, model) = name.split_once(':')?;
        let (entry, model) = (self.entries.get(entry)?, model.trim());
        (!model.is_empty()).then(|| (entry, model.to_owned()))
    }

    /// Returns whether the entry accepts unlisted models. With a cap it doesn't, because only listed models have prices.
    fn accepts_any_model(&self, entry: &Entry) -> bool {
        entry.any_model || entry.simulated || !(entry.cap.is_set() || self.total_cap.is_set())
    }

    fn hint(&self, name: &str) -> String {
        let names = self.names();
        gavel_rules::hint(name, names.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
