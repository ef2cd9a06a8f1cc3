//! Judge against people: how far they agree.

use serde::Deserialize;

use super::super::figures::percent;

/// What people and the judge gave.
#[derive(Debug, Deserialize)]
pub(super) struct Agreement {
    pub(super) scales: Vec<Scale>,
}

/// The same on one scale.
#[derive(Debug, Deserialize)]
pub(super) struct Scale {
    scale: String,
    n: i64,
    raters: i64,
    raw: Option<f64>,
    kappa_quadratic: Option<Kappa>,
    strength: Option<String>,
    confusion: Table,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Kappa {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Table {
    labels: Vec<String>,
    table: Vec<Vec<i64>>,
}

/// How far people and the judge agree, on one scale.
pub(super) struct Trust {
    pub(super) scale: String,
    pub(super) says: String,
    pub(super) labels: Vec<String>,
    pub(super) rows: Vec<(String, Vec<i64>)>,
    pub(super) warnings: Vec<String>,
}

impl Trust {
    /// One scale in words.
    pub(super) fn of(scale: Scale) -> Self {
        let mut says = format!(
            "{} ratings by {} people: the same word in {}",
            scale.n,
            scale.raters,
            percent(scale.raw)
        );
        if let Some(kappa) = &scale.kappa_quadratic {
            says.push_str(&format!(", kappa {:.2}", kappa.value));
            if let (Some(low), Some(high)) = (kappa.low, kappa.high) {
                says.push_str(&format!(" (95 %: {low:.2} to {high:.2})"));
            }
        }
        if let Some(strength) = &scale.strength {
            says.push_str(&format!(", {}", strength.replace('_', " ")));
        }
        let word = |label: &String| label.replace('_', " ");
        Self {
            scale: scale.scale,
            says: says + ".",
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
