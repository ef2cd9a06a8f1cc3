//! Prometheus text format 0.0.4 for values read from the store.

use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricType {
    Gauge,
    Counter,
}

/// Samples of one metric by labels.
#[derive(Debug)]
pub(crate) struct Family {
    name: &'static str,
    kind: MetricType,
    help: &'static str,
    samples: BTreeMap<String, f64>,
}

impl Family {
    pub(crate) fn new(name: &'static str, kind: MetricType, help: &'static str) -> Self {
        Self {
            name,
            kind,
            help,
            samples: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        *self.samples.entry(format_labels(labels)).or_default() += value;
    }

    /// Raises the sample with these labels to at least `value`.
    pub(crate) fn raise(&mut self, labels: &[(&str, &str)], value: f64) {
        let sample = self.samples.entry(format_labels(labels)).or_insert(value);
        *sample = sample.max(value);
    }

    /// Appends the metric, unless it has no samples.
    pub(crate) fn write(&self, text: &mut String) {
        if self.samples.is_empty() {
            return;
        }
        let kind = match self.kind {
            MetricType::Gauge => "gauge",
            MetricType::Counter => "counter",
        };
        let name = self.name;
        // Writing to a String can't fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", self.help);
        for (labels, value) in &self.samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
}

fn format_labels(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let mut text = String::from("{");
    for (n, (name, value)) in labels.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_samples_by_labels_and_escapes_values() {
        let mut family = Family::new("gavel_things", MetricType::Gauge, "Things.");
        family.add(&[("judge", "a\"b\\c\nd"), ("state", "open")], 1.0);
        family.add(&[("judge", "a\"b\\c\nd"), ("state", "open")], 1.5);
        family.add(&[], 0.0);
        let mut text = String::new();
        family.write(&mut text);
        assert_eq!(
            text,
            "# HELP gavel_things Things.\n# TYPE gavel_things gauge\ngavel_things 0\n\
             gavel_things{judge=\"a\\\"b\\\\c\\nd\",state=\"open\"} 2.5\n"
        );
    }

    #[test]
    fn omits_empty_metric_and_raise_keeps_maximum() {
        let mut family = Family::new("gavel_age_seconds", MetricType::Counter, "Age.");
        let mut text = String::new();
        family.write(&mut text);
        assert_eq!(text, "");
        for value in [1.0, 3.0, 2.0] {
            family.raise(&[("lane", "a")], value);
        }
        family.write(&mut text);
        assert!(
            text.ends_with("counter\ngavel_age_seconds{lane=\"a\"} 3\n"),
            "{text}"
        );
    }
}
