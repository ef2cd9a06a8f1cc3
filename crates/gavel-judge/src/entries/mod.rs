//! `llm_providers.yaml` after substitution: entries, models, prices, limits.
//!
//! Reads and checks; it opens no file of its own (a callback reads `key_file`) and never calls a provider. A key is a
//! secret from the moment it is read: no error and no debug print shows it.

mod cap;
mod caps;
mod entry;
mod fallbacks;
mod prices;
mod read;
pub(crate) mod spec;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::gate::PaceLimits;
pub use cap::Cap;
pub use caps::{Caps, EntryCap};
use prices::AS_OF;
pub(crate) use prices::price_of;
pub use read::ProvidersError;
use spec::Entry;
pub use spec::JudgeSpec;

/// Why a judge of a name can't be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotConfigured {
    /// No entry of that name.
    #[error(
        "unknown judge {name:?}: name another one in DEFAULT_LLM_PROVIDER, in the criteria's scoring.llm_provider or with --judge; {known}"
    )]
    Unknown {
        name: String,
        /// The name that was probably meant, or those that there are.
        known: String,
    },
    /// The entry doesn't list the model, and a cap holds for it.
    #[error(
        "judge {name:?} can't be asked: a cap holds for entry {entry:?}, and the model isn't among its models; list it under \
         models in llm_providers.yaml and give it a price, or leave the cap out"
    )]
    Capped { name: String, entry: String },
    /// The entry has no key and doesn't say `auth: none`.
    #[error("judge {name:?} is not configured: {remedy}{}", instead(.others))]
    NoKey {
        name: String,
        /// What to set, e.g. `set OPENAI_API_KEY`.
        remedy: String,
        /// The real judges that could be asked.
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
        false => format!("; or set {}, which can be asked", all.join(" or ")),
    }
}

impl NotConfigured {
    /// What is wrong, for whoever named the judge in a request and not in a setting.
    pub fn of_a_request(&self) -> String {
        match self {
            Self::Unknown { known, .. } => format!("there is no such judge; {known}"),
            Self::Capped { .. } => self.to_string(),
            Self::NoKey { name, remedy, .. } => {
                format!("judge {name:?} is not configured: {remedy}")
            }
        }
    }
}

/// How far ahead of UTC a day begins where it begins first.
const EASTERNMOST: TimeDelta = TimeDelta::hours(14);

/// All entries.
#[derive(Debug, Clone)]
pub struct Providers {
    entries: BTreeMap<String, Arc<Entry>>,
    /// What all judges together may cost.
    total_cap: Cap,
}

impl Providers {
    /// Reads the resolved YAML (as JSON): a map of entries by name. Unknown keys are errors with "did you mean".
    /// `key_file` reads the file that an entry's `key_file:` names.
    pub fn from_value(
        value: &Value,
        key_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ProvidersError> {
        let Value::Object(map) = value else {
            return Err(ProvidersError {
                path: String::new(),
                message: "expected a map of provider entries by name".to_owned(),
            });
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

    /// Whether each price held on a day that has come, as of `now`: what nobody can have looked up can't be traced.
    ///
    /// # Errors
    /// The first price that is of a day to come.
    pub fn check_dates(&self, now: DateTime<Utc>) -> Result<(), ProvidersError> {
        let today = (now + EASTERNMOST).date_naive();
        for entry in self.entries.values() {
            let future = entry.prices.iter().find(|(_, price)| price.as_of > today);
            if let Some((model, price)) = future {
                return Err(ProvidersError {
                    path: format!("{}.prices.{model}.{AS_OF}", entry.name),
                    message: format!(
                        "{} is still to come; give a day on which the price was seen to hold",
                        price.as_of
                    ),
                });
            }
        }
        Ok(())
    }

    /// Every judge name that can be asked for: `entry`, and `entry:model` for each of its other models.
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

    /// Whether a judge of that name could be asked (the name is known and has a key or needs none).
    pub fn check(&self, name: &str) -> Result<(), NotConfigured> {
        self.spec(name).map(|_| ())
    }

    /// Who can be asked, for other processes: the names that [`Self::check`] accepts, and `entry:*` where any model will do.
    pub fn askable(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| self.check(name).is_ok());
        let any = self.entries.values().filter(|entry| self.takes_any(entry));
        names.extend(
            any.filter(|entry| entry.lacks_key().is_none())
                .map(|entry| format!("{}:*", entry.name)),
        );
        names
    }

    /// The entries of real judges that could be asked.
    pub fn real(&self) -> Vec<String> {
        let real = self.entries.values().filter(|entry| !entry.simulated);
        real.filter(|entry| entry.lacks_key().is_none())
            .map(|entry| entry.name.clone())
            .collect()
    }

    /// The name of the judge that a request means: a judge, or else a model. A model is asked of the default judge's entry,
    /// unless another one alone lists it.
    pub fn named(&self, name: &str, default: &str) -> String {
        let name = name.trim();
        let entry_of = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        if self.entries.contains_key(&entry_of(name)) {
            return name.to_owned();
        }
        let default = entry_of(default);
        let lists = |entry: &&Arc<Entry>| {
            let own = entry.name == default && entry.any_model;
            own || entry.lists(name) && entry.lacks_key().is_none()
        };
        let default_first = self.entries.get(&default).into_iter();
        let found = default_first.chain(self.entries.values()).find(lists);
        format!("{}:{name}", found.map_or(&default, |entry| &entry.name))
    }

    /// The spec of a judge that [`Self::check`] accepts.
    pub fn spec(&self, name: &str) -> Result<JudgeSpec, NotConfigured> {
        let (entry, model) = self.find(name).ok_or_else(|| NotConfigured::Unknown {
            name: name.to_owned(),
            known: self.hint(name),
        })?;
        if !self.takes_any(entry) && !entry.lists(&model) {
            return Err(NotConfigured::Capped {
                name: name.to_owned(),
                entry: entry.name.clone(),
            });
        }
        if let Some(remedy) = entry.lacks_key() {
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

    /// Calls in flight at once by entry, for the gate; 0 for no cap.
    pub fn concurrency(&self) -> BTreeMap<String, u32> {
        self.entries
            .values()
            .map(|entry| (entry.name.clone(), entry.max_concurrency))
            .collect()
    }

    /// Requests and tokens a minute by entry, for the gate.
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
        // Model names may hold colons themselves (`llama3:8b`); entry names can't.
        let (entry, model) = name.split_once(':')?;
        let (entry, model) = (self.entries.get(entry)?, model.trim());
        (!model.is_empty()).then(|| (entry, model.to_owned()))
    }

    /// Whether the entry may be asked for models that it doesn't list: a cap holds for what has a price alone.
    fn takes_any(&self, entry: &Entry) -> bool {
        entry.any_model || entry.simulated || !(entry.cap.is_set() || self.total_cap.is_set())
    }

    /// What helps somebody who named a judge that there isn't.
    fn hint(&self, name: &str) -> String {
        let names = self.names();
        gavel_rules::hint(name, names.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
