//! Agreement between users and the judge.

use super::super::figures::{ENOUGH, percent};
use super::super::words;
use crate::wire::{Agreement, Scale};

/// Agreement on one scale.
pub(in super::super) struct Trust {
    pub(in super::super) about: &'static str,
    pub(super) scale: String,
    pub(in super::super) summary: String,
    pub(super) labels: Vec<String>,
    pub(super) rows: Vec<(String, Vec<u64>)>,
    pub(super) warnings: Vec<String>,
}

fn in_words(scale: Scale) -> &'static str {
    match scale {
        Scale::Ratings => "Ratings of five levels",
        Scale::Quality => "Quality of three levels",
    }
}

impl Trust {
    pub(in super::super) fn new(scale: Agreement) -> Self {
        let people = match scale.raters {
            1 => "1 person".to_owned(),
            n => format!("{} people", words::grouped(n)),
        };
        let given = format!("{} by {people}", words::counted(scale.n, "rating"));
        if scale.n < ENOUGH {
            return Self {
                about: in_words(scale.scale),
                scale: scale.scale.to_string(),
                summary: format!("{given}. Agreement is shown from {ENOUGH} ratings on."),
                labels: Vec::new(),
                rows: Vec::new(),
                warnings: Vec::new(),
            };
        }
        let mut summary = format!("{given}: the same label in {}", percent(scale.raw));
        if let Some(kappa) = &scale.kappa_quadratic {
            summary.push_str(&format!(", kappa {:.2}", kappa.value));
            if let (Some(low), Some(high)) = (kappa.low, kappa.high) {
                summary.push_str(&format!(" (95%: {low:.2} to {high:.2})"));
            }
        }
        if let Some(strength) = scale.strength {
            summary.push_str(&format!(", {}", strength.in_words()));
        }
        let word = |label: &String| label.replace('_', " ");
        Self {
            about: in_words(scale.scale),
            scale: scale.scale.to_string(),
            summary: summary + ".",
            rows: scale
                .confusion
                .labels
                .iter()
                .map(word)
                .zip(scale.confusion.table)
                .collect(),
            labels: scale.confusion.labels.iter().map(word).collect(),
            warnings: scale.warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(n: u64) -> Trust {
        let scale = json!({
            "scale": "ratings", "n": n, "raters": 1, "scores": n, "raw": 0.5, "strength": "almost_perfect",
            "kappa_quadratic": {"value": 0.9, "low": 0.8, "high": 1.0},
            "confusion": {"labels": ["near_perfect"], "table": [[n]]}, "warnings": ["few"],
        });
        Trust::new(serde_json::from_value(scale).unwrap())
    }

    #[test]
    fn few_ratings_show_only_their_count() {
        let few = summary(19);
        assert_eq!(
            few.summary,
            "19 ratings by 1 person. Agreement is shown from 20 ratings on."
        );
        assert!(few.rows.is_empty() && few.warnings.is_empty());
        let enough = summary(20);
        assert_eq!(
            enough.summary,
            "20 ratings by 1 person: the same label in 50%, kappa 0.90 (95%: 0.80 to 1.00), almost perfect."
        );
        assert_eq!(enough.rows, [("near perfect".to_owned(), vec![20])]);
    }
}
