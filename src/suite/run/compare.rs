//! Compares two runs of a suite: changed items and the change of the mean. Only items in both runs count.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

mod judged;

pub use judged::RunJudging;

use super::folder::Bench;
use crate::job::Kind;
use crate::report::{Item, ReportError, Source};
use crate::score::statistics::bootstrap_mean;

/// Seed of the bootstrap, so that the same two runs have the same interval.
const SEED: u64 = 20_260_101;

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunComparison {
    pub common: u64,
    pub pass_to_fail: Vec<Change>,
    pub fail_to_pass: Vec<Change>,
    pub lost_score: Vec<Change>,
    pub gained_score: Vec<Change>,
    pub new: Vec<String>,
    pub gone: Vec<String>,
    /// Number of items with a score in both runs, which the means include.
    pub compared: u64,
    /// Their mean in A, 0-1.
    pub mean_a: Option<f64>,
    /// Their mean in B, 0-1.
    pub mean_b: Option<f64>,
    pub difference: Option<f64>,
    /// The 95 % interval of the difference: a bootstrap over the paired items; `None` for fewer than two.
    pub interval: Option<(f64, f64)>,
    /// The same for each part of the scores, over the items that have the part in both runs.
    pub parts: Vec<PartChange>,
    pub simulated_a: u64,
    pub simulated_b: u64,
    pub judged: RunJudging,
    #[serde(skip)]
    pub kinds_a: BTreeSet<Kind>,
    #[serde(skip)]
    pub kinds_b: BTreeSet<Kind>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Name of the item; `#3` is the third item of a suite without names.
    pub id: String,
    /// Total in A, 0-1.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Index in A, from 0.
    pub item_a: u64,
    pub item_b: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartChange {
    pub name: &'static str,
    pub title: &'static str,
    pub compared: u64,
    /// Mean in A, 0-1 (sessions: 0-100).
    pub mean_a: f64,
    pub mean_b: f64,
    pub difference: f64,
}

struct Brief {
    total: Option<f64>,
    passed: Option<bool>,
    place: u64,
    /// The parts with a score, in the order of the kind's rules.
    parts: Vec<Worth>,
}

type Worth = (&'static str, &'static str, f64);

impl Brief {
    fn from_item(item: &Item) -> Self {
        let total = item.measured();
        Self {
            total,
            passed: item.passed.filter(|_| total.is_some()),
            place: item.item_no,
            parts: item
                .components()
                .filter_map(|(part, score)| Some((part.name, part.title, score?)))
                .collect(),
        }
    }
}

impl RunComparison {
    /// Compares two runs. Items are paired by name, otherwise by index.
    pub fn between(
        a: &(impl Source + ?Sized),
        b: &(impl Source + ?Sized),
    ) -> Result<Self, ReportError> {
        let mut comparison = Self::default();
        let mut before: HashMap<String, Brief> = HashMap::new();
        a.each(&mut |item| {
            comparison.simulated_a += u64::from(item.simulated);
            RunJudging::note(&mut comparison.judged.judges_a, item);
            comparison.kinds_a.insert(item.kind);
            before.insert(name(item), Brief::from_item(item));
            Ok(())
        })?;
        let mut pairs: Vec<(f64, f64)> = Vec::new();
        b.each(&mut |item| {
            comparison.simulated_b += u64::from(item.simulated);
            RunJudging::note(&mut comparison.judged.judges_b, item);
            comparison.kinds_b.insert(item.kind);
            let id = name(item);
            match before.remove(&id) {
                None => comparison.new.push(id),
                Some(before) => {
                    let after = Brief::from_item(item);
                    pairs.extend(comparison.add(id, &before, &after));
                }
            }
            Ok(())
        })?;
        let mut gone: Vec<(u64, String)> = before
            .into_iter()
            .map(|(id, brief)| (brief.place, id))
            .collect();
        gone.sort();
        comparison.gone = gone.into_iter().map(|(_, id)| id).collect();
        comparison.measure(&pairs);
        Ok(comparison)
    }

    pub fn under(mut self, a: Option<&Bench>, b: Option<&Bench>) -> Self {
        let hash = |bench: Option<&Bench>| bench.map(|bench| bench.criteria_hash.clone());
        (self.judged.criteria_a, self.judged.criteria_b) = (hash(a), hash(b));
        self
    }

    /// Returns whether only one run has scores of a simulated judge.
    pub fn mixes_simulated(&self) -> bool {
        (self.simulated_a > 0) != (self.simulated_b > 0)
    }

    /// Adds an item of both runs. Returns its totals if it has both.
    fn add(&mut self, id: String, before: &Brief, after: &Brief) -> Option<(f64, f64)> {
        self.common += 1;
        let change = Change {
            id,
            before: before.total,
            after: after.total,
            item_a: before.place,
            item_b: after.place,
        };
        self.add_parts(before, after);
        let turned = match (before.passed, after.passed) {
            (Some(true), Some(false)) => Some(&mut self.pass_to_fail),
            (Some(false), Some(true)) => Some(&mut self.fail_to_pass),
            (Some(_) | None, Some(_) | None) => match (before.total, after.total) {
                (Some(_), None) => Some(&mut self.lost_score),
                (None, Some(_)) => Some(&mut self.gained_score),
                (None, None) | (Some(_), Some(_)) => None,
            },
        };
        if let Some(list) = turned {
            list.push(change);
        }
        before.total.zip(after.total)
    }

    /// Adds the parts that both items have. The mean fields contain sums until the end.
    fn add_parts(&mut self, before: &Brief, after: &Brief) {
        for (name, title, a) in &before.parts {
            let Some((_, _, b)) = after.parts.iter().find(|(known, _, _)| known == name) else {
                continue;
            };
            let at = self.parts.iter().position(|part| part.name == *name);
            let at = at.unwrap_or_else(|| {
                self.parts.push(PartChange {
                    name,
                    title,
                    compared: 0,
                    mean_a: 0.0,
                    mean_b: 0.0,
                    difference: 0.0,
                });
                self.parts.len() - 1
            });
            if let Some(part) = self.parts.get_mut(at) {
                part.compared += 1;
                part.mean_a += a;
                part.mean_b += b;
            }
        }
    }

    fn measure(&mut self, pairs: &[(f64, f64)]) {
        for part in &mut self.parts {
            let n = part.compared as f64;
            part.mean_a /= n;
            part.mean_b /= n;
            part.difference = part.mean_b - part.mean_a;
        }
        self.compared = pairs.len() as u64;
        if pairs.is_empty() {
            return;
        }
        let n = pairs.len() as f64;
        self.mean_a = Some(pairs.iter().map(|(a, _)| a).sum::<f64>() / n);
        self.mean_b = Some(pairs.iter().map(|(_, b)| b).sum::<f64>() / n);
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
        self.difference = Some(differences.iter().sum::<f64>() / n);
        self.interval = bootstrap_mean(&differences, SEED)
            .map(|found| (found.interval.low, found.interval.high));
    }
}

/// Returns the name for pairing an item with the other run.
pub fn name(item: &Item) -> String {
    match &item.id {
        Some(id) => id.clone(),
        None => format!("#{}", item.item_no + 1),
    }
}

#[cfg(test)]
mod tests;
