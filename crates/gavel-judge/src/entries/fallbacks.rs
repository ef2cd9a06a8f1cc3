use super::Providers;
use super::spec::{Entry, JudgeSpec};
use gavel_rules::FileError;

impl Providers {
    /// Returns the fallback judge. It may be another model of the entry, which then has none.
    pub(crate) fn fallback_of(&self, spec: &JudgeSpec) -> Option<String> {
        self.next(spec.entry(), spec.model())
            .map(|(name, ..)| name.to_owned())
    }

    /// Returns the name of the fallback of the named judge. `None` if it has none or doesn't exist.
    pub fn fallback(&self, name: &str) -> Option<String> {
        let (entry, model) = self.find(name)?;
        self.next(entry, &model).map(|(name, ..)| name.to_owned())
    }

    /// Checks that fallbacks exist, form no cycle, and are not simulated if the judge is real.
    pub(super) fn check_fallbacks(&self) -> Result<(), FileError> {
        for entry in self.entries.values() {
            if let Some(name) = &entry.fallback {
                self.check_fallback(entry, name).map_err(|message| {
                    FileError::new(format!("{}.fallback", entry.name), message)
                })?;
            }
        }
        Ok(())
    }

    fn check_fallback(&self, entry: &Entry, name: &str) -> Result<(), String> {
        let Some((other, model)) = self.find(name) else {
            return Err(format!("unknown judge {name:?}; {}", self.hint(name)));
        };
        if other.name == entry.name && model == entry.model {
            return Err("is the judge itself; name another one, or omit it".to_owned());
        }
        if other.simulated && !entry.simulated {
            return Err(format!(
                "{name:?} is simulated: it can't replace a real judge"
            ));
        }
        let mut path = vec![(entry.name.as_str(), entry.model.clone())];
        let mut at = Some((name, other.as_ref(), model));
        while let Some((name, judge, model)) = at {
            let place = (judge.name.as_str(), model);
            if path.contains(&place) {
                return Err(format!(
                    "creates a cycle back to {name:?}; remove one of its fallbacks"
                ));
            }
            at = self.next(judge, &place.1);
            path.push(place);
        }
        Ok(())
    }

    /// Returns the next judge in the chain, unless it is the same judge.
    fn next<'a>(&'a self, entry: &'a Entry, model: &str) -> Option<(&'a str, &'a Entry, String)> {
        let name = entry.fallback.as_deref()?;
        let (other, other_model) = self.find(name)?;
        let itself = other.name == entry.name && other_model == model;
        (!itself).then_some((name, other.as_ref(), other_model))
    }
}
