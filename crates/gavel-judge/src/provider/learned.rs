//! With which fields the requests of a judge begin, and what its server turned out to refuse. It never calls.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;

use super::shape::{Rung, Shape};
use crate::entries::spec::{Entry, JudgeSpec};

impl Shape {
    pub(super) fn start(entry: &Entry) -> Self {
        Self {
            rung: entry.structured.unwrap_or(Rung::JsonSchema),
            new_cap: entry.format.has_new_cap,
            temperature: entry.temperature.is_some(),
            // There is one only where the entry's extra_body says so.
            seed: entry.extra_body.contains_key("seed"),
        }
    }
}

/// Request fields that servers turned out to refuse, by (base_url, model); kept for an hour after the last refusal.
///
/// One odd refusal (a schema of certain criteria, a gateway in the middle of an update) must not cost every later question
/// its schema. Trying again costs a refused call an hour, which no provider charges for.
#[derive(Default)]
pub(super) struct Learned {
    /// What is left of a request, and until when that is believed.
    shapes: Mutex<BTreeMap<String, (Shape, DateTime<Utc>)>>,
}

impl Learned {
    /// Models of an entry that takes any are named by whoever asks: what is learned of them is bounded.
    const MOST: usize = 1024;
    const BELIEVED: TimeDelta = TimeDelta::hours(1);

    pub(super) fn shape(&self, spec: &JudgeSpec, now: DateTime<Utc>) -> Shape {
        let start = Shape::start(spec.entry());
        match self.shapes.lock().get(&Self::key(spec)) {
            Some((shape, until)) if now < *until => shape.and(start),
            Some(_) | None => start,
        }
    }

    /// Remembers what can be done without.
    pub(super) fn narrow(&self, spec: &JudgeSpec, narrower: Shape, now: DateTime<Utc>) {
        let shape = self.shape(spec, now).and(narrower);
        let mut shapes = self.shapes.lock();
        if shapes.len() >= Self::MOST {
            shapes.clear();
        }
        shapes.insert(Self::key(spec), (shape, now + Self::BELIEVED));
    }

    /// Two formats at one address are told apart: what one refuses says nothing of the other.
    fn key(spec: &JudgeSpec) -> String {
        let entry = spec.entry();
        format!("{} {} {}", entry.format.name, entry.base_url, spec.model())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::entries::Providers;
    use crate::provider::shape::Field;

    fn spec(family: &str, structured: &str) -> JudgeSpec {
        let entry = json!({ "j": {
            "type": family, "base_url": "http://h", "model": "m", "auth": "none", "structured": structured,
        }});
        let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
        providers.spec("j").unwrap()
    }

    #[test]
    fn a_request_gets_narrower_a_few_times_and_then_no_more() {
        // Temperature, the cap's other name where it has one, and two rungs of the format.
        for (family, most) in [("openai", 4), ("anthropic", 3), ("gemini", 3)] {
            let spec = spec(family, "auto");
            let ladder = spec.entry().format.ladder;
            let mut shape = Shape::start(spec.entry());
            let mut steps = 0;
            while let Some(narrower) = Field::ALL
                .into_iter()
                .find_map(|field| shape.without(field, ladder))
            {
                assert_eq!(shape.and(narrower), narrower);
                shape = narrower;
                steps += 1;
            }
            assert_eq!(steps, most, "{family}");
            assert_eq!(shape.rung, Rung::Prompt);
        }
    }

    #[test]
    fn what_two_calls_learned_adds_up() {
        let start = Shape::start(spec("openai", "auto").entry());
        let cool = start.without(Field::Temperature, &[]).unwrap();
        let old = start.without(Field::MaxCompletionTokens, &[]).unwrap();
        let both = cool.and(old);
        assert_eq!(both, old.and(cool));
        assert!(!both.has(Field::Temperature) && !both.has(Field::MaxCompletionTokens));
    }

    #[test]
    fn an_entry_may_begin_further_down() {
        let object = Shape::start(spec("gemini", "json_object").entry());
        assert_eq!(object.rung, Rung::JsonObject);
        let tool = Shape::start(spec("anthropic", "tool").entry());
        assert_eq!(tool.rung, Rung::Tool);
        assert_eq!(object.without(Field::Seed, &[]), None);
    }

    #[test]
    fn what_is_learned_holds_for_one_family_address_and_model() {
        let learned = Learned::default();
        let (one, other) = (spec("anthropic", "auto"), spec("gemini", "auto"));
        let cool = learned.shape(&one, at(0)).without(Field::Temperature, &[]);
        learned.narrow(&one, cool.unwrap(), at(0));
        assert!(!learned.shape(&one, at(0)).has(Field::Temperature));
        assert!(learned.shape(&other, at(0)).has(Field::Temperature));
    }

    #[test]
    fn what_is_learned_is_tried_again_after_an_hour_without_a_refusal() {
        let learned = Learned::default();
        let spec = spec("openai", "auto");
        let ladder = spec.entry().format.ladder;
        let start = learned.shape(&spec, at(0));
        let object = start.without(Field::Format, ladder).unwrap();
        learned.narrow(&spec, object, at(0));
        // Another refusal half an hour later adds to it, and begins the hour anew.
        let cool = object.without(Field::Temperature, ladder).unwrap();
        learned.narrow(&spec, cool, at(30));
        assert_eq!(learned.shape(&spec, at(89)), cool);
        assert_eq!(learned.shape(&spec, at(90)), start);
        // What is refused then is all that is known.
        let cool = start.without(Field::Temperature, ladder).unwrap();
        learned.narrow(&spec, cool, at(90));
        assert_eq!(learned.shape(&spec, at(91)), cool);
    }

    fn at(minutes: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minutes)
    }
}
