//! Daily and monthly cost caps per entry and in total. A cap over models without a price is rejected, because it can't be enforced.

use std::collections::BTreeMap;

use super::cap::Cap;
use super::prices::price_of;
use super::{Entry, Providers};
use gavel_rules::FileError;
use gavel_rules::config_file::join;

#[derive(Debug, Clone, PartialEq)]
pub struct EntryCap {
    pub entry: String,
    /// `entry`, and `entry:model` for each of its models.
    pub judges: Vec<String>,
    pub cap: Cap,
}

/// All caps, without simulated judges, because they are free.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Caps {
    pub total: Cap,
    /// By entry, including entries without a cap.
    pub entries: Vec<EntryCap>,
}

impl Caps {
    pub fn are_set(&self) -> bool {
        self.total.is_set() || self.entries.iter().any(|entry| entry.cap.is_set())
    }

    /// Returns the caps by entry, without entries that have none.
    pub fn by_entry(&self) -> BTreeMap<String, Cap> {
        self.entries
            .iter()
            .filter(|entry| entry.cap.is_set())
            .map(|entry| (entry.entry.clone(), entry.cap))
            .collect()
    }
}

impl Providers {
    /// Sets the cap on all judges.
    #[must_use]
    pub fn under(self, total_cap: Cap) -> Self {
        Self { total_cap, ..self }
    }

    /// Returns all caps. Fails if the total cap can't be enforced because a configured judge has a model without a price.
    pub fn caps(&self) -> Result<Caps, FileError> {
        let total = self.total_cap;
        let real = || self.entries.values().filter(|entry| !entry.simulated);
        if total.is_set() {
            for entry in real().filter(|entry| entry.missing_key().is_none()) {
                check_prices(entry).map_err(|fault| {
                    let message = format!("{fault} (entry {:?} of llm_providers.yaml)", entry.name);
                    FileError::new(format!("judge.{}", total.key()), message)
                })?;
            }
        }
        let entries = real().map(|entry| EntryCap {
            entry: entry.name.clone(),
            judges: judges_of(entry),
            cap: entry.cap,
        });
        Ok(Caps {
            total,
            entries: entries.collect(),
        })
    }

    pub(super) fn check_caps(&self) -> Result<(), FileError> {
        for entry in self.entries.values().filter(|entry| entry.cap.is_set()) {
            check_cap(entry)
                .map_err(|message| FileError::new(join(&entry.name, entry.cap.key()), message))?;
        }
        Ok(())
    }
}

fn check_cap(entry: &Entry) -> Result<(), String> {
    if entry.simulated {
        return Err("is for a simulated judge, which is free of charge; omit it".to_owned());
    }
    check_prices(entry)
}

fn check_prices(entry: &Entry) -> Result<(), String> {
    if entry.any_model {
        return Err(
            "can't be enforced: \"*\" among the models allows any model, even without a price; list the models, \
             each with a price under prices, or omit the cap"
                .to_owned(),
        );
    }
    let unpriced = std::iter::once(&entry.model)
        .chain(&entry.models)
        .find(|model| price_of(&entry.prices, model).is_none());
    match unpriced {
        None => Ok(()),
        Some(model) => Err(format!(
            "can't be enforced: model {model:?} has no price, so that its cost is unknown; give it one under \
             prices (0 for a self-hosted server), or omit the cap"
        )),
    }
}

fn judges_of(entry: &Entry) -> Vec<String> {
    let mut models = vec![&entry.model];
    models.extend(entry.models.iter().filter(|model| **model != entry.model));
    let named = models.iter().map(|model| format!("{}:{model}", entry.name));
    std::iter::once(entry.name.clone()).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(more: &Value) -> Result<Providers, FileError> {
        let mut entry = json!({
            "type": "openai", "base_url": "https://h/v1", "model": "m", "models": ["m", "n"], "key": "k",
            "prices": {
                "m": { "input_per_mtok": 1.0, "output_per_mtok": 2.0, "as_of": "2026-01-01", "source": "a test" },
                "n": { "input_per_mtok": 0, "output_per_mtok": 0, "as_of": "2026-01-01", "source": "a test" },
            },
        });
        if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
            entry.extend(more.clone());
        }
        let file = json!({
            "j": entry,
            "s": { "type": "openai", "base_url": "http://h", "auth": "none", "model": "m", "models": ["*"], "simulated": true },
        });
        Providers::from_value(&file, &|_| Err("no file".to_owned()))
    }

    #[test]
    fn cap_covers_all_models_of_an_entry_and_0_means_none() {
        let providers = read(&json!({ "daily_cap_usd": 10, "monthly_cap_usd": "0" })).unwrap();
        let caps = providers.caps().unwrap();
        assert!(caps.are_set() && !caps.total.is_set());
        assert_eq!(caps.entries.len(), 1, "simulated judges cost nothing");
        assert_eq!(caps.entries[0].judges, ["j", "j:m", "j:n"]);
        assert_eq!(caps.entries[0].cap, Cap::new(10.0, 0.0));
        assert!(!read(&json!({})).unwrap().caps().unwrap().are_set());
    }

    #[test]
    fn rejects_unenforceable_cap_with_the_fix() {
        let refused = [
            (
                json!({ "daily_cap_usd": 1, "models": ["x"] }),
                "j.daily_cap_usd",
                "model \"x\" has no price",
            ),
            (
                json!({ "monthly_cap_usd": 1, "models": ["*"] }),
                "j.monthly_cap_usd",
                "\"*\" among the models",
            ),
            (
                json!({ "monthly_cap_usd": 1, "prices": null }),
                "j.monthly_cap_usd",
                "0 for a self-hosted server",
            ),
            (
                json!({ "daily_cap_usd": 1, "simulated": true }),
                "j.daily_cap_usd",
                "free of charge",
            ),
            (
                json!({ "daily_cap_usd": -1 }),
                "j.daily_cap_usd",
                "a number of 0 or more",
            ),
        ];
        for (more, path, part) in refused {
            let error = read(&more).unwrap_err();
            assert_eq!(error.path, path);
            assert!(error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn total_cap_needs_prices_of_all_configured_judges() {
        let total = Cap::new(0.0, 5.0);
        let unpriced = json!({ "models": ["x"] });
        let caps = |more: &Value| read(more).unwrap().under(total).caps();
        let error = caps(&unpriced).unwrap_err();
        assert_eq!(error.path, "judge.monthly_cap_usd");
        assert!(error.message.contains("entry \"j\""), "{error}");
        let without_key = json!({ "models": ["x"], "key": "" });
        assert!(caps(&without_key).is_ok());
        assert!(caps(&json!({})).is_ok());
    }
}
