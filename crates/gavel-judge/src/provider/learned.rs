//! Fields of a judge's first request, and the fields that servers rejected.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;

use super::shape::{NEW_CAP, Rung, Shape};
use crate::entries::spec::{Entry, JudgeSpec};

impl Shape {
    pub(super) fn start(entry: &Entry) -> Self {
        let sent = [
            entry.temperature.map(|_| "temperature"),
            entry.format.has_new_cap.then_some(NEW_CAP),
            entry.extra_body.get("seed").map(|_| "seed"),
        ];
        Self {
            rung: entry.structured.unwrap_or(Rung::JsonSchema),
            fields: sent.into_iter().flatten().collect(),
        }
    }
}

/// Request fields that servers rejected, by (base_url, model). Entries expire an hour after the last rejection, so that one odd rejection (a
/// schema of certain criteria, a gateway during an update) doesn't remove the schema forever. The retry costs one rejected call an hour.
#[derive(Default)]
pub(super) struct Learned {
    /// Remaining fields of a request and the time of expiry.
    shapes: Mutex<BTreeMap<String, (Shape, DateTime<Utc>)>>,
}

impl Learned {
    /// Users may choose the models of an entry, so the number of entries is limited.
    const MAX_SHAPES: usize = 1024;
    const EXPIRY: TimeDelta = TimeDelta::hours(1);

    pub(super) fn shape(&self, spec: &JudgeSpec, now: DateTime<Utc>) -> Shape {
        let start = Shape::start(spec.entry());
        match self.shapes.lock().get(&Self::key(spec)) {
            Some((shape, until)) if now < *until => shape.and(&start),
            Some(_) | None => start,
        }
    }

    pub(super) fn narrow(&self, spec: &JudgeSpec, narrower: &Shape, now: DateTime<Utc>) {
        let shape = self.shape(spec, now).and(narrower);
        let mut shapes = self.shapes.lock();
        if shapes.len() >= Self::MAX_SHAPES {
            shapes.clear();
        }
        shapes.insert(Self::key(spec), (shape, now + Self::EXPIRY));
    }

    /// Returns the key of a server, with the format, because two formats at one address reject different fields.
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
    use crate::provider::shape::{FIELDS, FORMAT};

    fn spec(family: &str, structured: &str) -> JudgeSpec {
        let entry = json!({ "j": {
            "type": family, "base_url": "http://h", "model": "m", "auth": "none", "structured": structured,
        }});
        let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
        providers.spec("j").unwrap()
    }

    #[test]
    fn a_request_gets_narrower_a_few_times_and_then_no_more() {
        // Temperature, the cap's new name if the format has one, and two output modes.
        for (family, most) in [("openai", 4), ("anthropic", 3), ("gemini", 3)] {
            let spec = spec(family, "auto");
            let ladder = spec.entry().format.ladder;
            let mut shape = Shape::start(spec.entry());
            let mut steps = 0;
            while let Some(narrower) = FIELDS
                .into_iter()
                .find_map(|field| shape.without(field, ladder))
            {
                assert_eq!(shape.and(&narrower), narrower);
                shape = narrower;
                steps += 1;
            }
            assert_eq!(steps, most, "{family}");
            assert_eq!(shape.rung, Rung::Prompt);
        }
    }

    #[test]
    fn rejections_of_two_calls_add_up() {
        let start = Shape::start(spec("openai", "auto").entry());
        let cool = start.without("temperature", &[]).unwrap();
        let old = start.without(NEW_CAP, &[]).unwrap();
        let both = cool.and(&old);
        assert_eq!(both, old.and(&cool));
        assert!(!both.has("temperature") && !both.has(NEW_CAP));
    }

    #[test]
    fn entry_may_set_the_first_output_mode() {
        let object = Shape::start(spec("gemini", "json_object").entry());
        assert_eq!(object.rung, Rung::JsonObject);
        let tool = Shape::start(spec("anthropic", "tool").entry());
        assert_eq!(tool.rung, Rung::Tool);
        assert_eq!(object.without("seed", &[]), None);
    }

    #[test]
    fn rejected_field_is_stored_per_format_address_and_model() {
        let learned = Learned::default();
        let (one, other) = (spec("anthropic", "auto"), spec("gemini", "auto"));
        let cool = learned.shape(&one, at(0)).without("temperature", &[]);
        learned.narrow(&one, &cool.unwrap(), at(0));
        assert!(!learned.shape(&one, at(0)).has("temperature"));
        assert!(learned.shape(&other, at(0)).has("temperature"));
    }

    #[test]
    fn rejected_field_is_retried_after_an_hour() {
        let learned = Learned::default();
        let spec = spec("openai", "auto");
        let ladder = spec.entry().format.ladder;
        let start = learned.shape(&spec, at(0));
        let object = start.without(FORMAT, ladder).unwrap();
        learned.narrow(&spec, &object, at(0));
        // Another rejection after half an hour restarts the hour.
        let cool = object.without("temperature", ladder).unwrap();
        learned.narrow(&spec, &cool, at(30));
        assert_eq!(learned.shape(&spec, at(89)), cool);
        assert_eq!(learned.shape(&spec, at(90)), start);
        // The earlier rejections have expired.
        let cool = start.without("temperature", ladder).unwrap();
        learned.narrow(&spec, &cool, at(90));
        assert_eq!(learned.shape(&spec, at(91)), cool);
    }

    fn at(minutes: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minutes)
    }
}
