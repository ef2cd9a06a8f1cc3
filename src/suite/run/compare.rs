//! Two runs of a suite side by side: what turned, and by how much the mean moved. Only items of both runs count.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::folder::Bench;
use crate::report::shown::{judge, parts};
use crate::report::{Item, Outcome, ReportError, Source};
use crate::score::statistics::bootstrap_mean;

/// What the bootstrap draws from: the same two runs give the same interval.
const SEED: u64 = 20_260_101;
/// The most judges of a run that are told.
const JUDGES: usize = 20;

/// How run B differs from run A.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Items that stand in both runs.
    pub common: u64,
    /// Those that passed in A and miss in B.
    pub pass_to_fail: Vec<Change>,
    /// Those that missed in A and pass in B.
    pub fail_to_pass: Vec<Change>,
    /// Those that have a whole score in A alone.
    pub lost_score: Vec<Change>,
    /// Those that have one in B alone.
    pub gained_score: Vec<Change>,
    /// Items of B alone.
    pub new: Vec<String>,
    /// Items of A alone.
    pub gone: Vec<String>,
    /// Items with a whole score in both runs: what the means are made of.
    pub compared: u64,
    /// Their mean in A, 0-1.
    pub mean_a: Option<f64>,
    /// Their mean in B, 0-1.
    pub mean_b: Option<f64>,
    /// `mean_b - mean_a`.
    pub difference: Option<f64>,
    /// The 95 % interval of the difference: a bootstrap over the paired items; none for fewer than two.
    pub interval: Option<(f64, f64)>,
    /// The same for each part of the scores, over the items that have it in both runs.
    pub parts: Vec<PartChange>,
    /// Scores of A that a simulated judge made.
    pub simulated_a: u64,
    /// Scores of B that a simulated judge made.
    pub simulated_b: u64,
    /// What each run was judged by.
    pub judged: Judged,
}

/// What two runs were judged by, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Judged {
    /// The judges of A's items, as `entry (model)`, the first 20.
    pub judges_a: BTreeSet<String>,
    /// Those of B's.
    pub judges_b: BTreeSet<String>,
    /// The criteria of A, 64 hex digits.
    pub criteria_a: Option<String>,
    /// Those of B.
    pub criteria_b: Option<String>,
}

impl Judged {
    /// In what the two differ, a sentence each; none where they don't, or where it isn't known.
    pub fn otherwise(&self) -> Vec<String> {
        let mut told = Vec::new();
        if !self.judges_a.is_empty() && !self.judges_b.is_empty() && self.judges_a != self.judges_b
        {
            let names = |judges: &BTreeSet<String>| {
                let names: Vec<&str> = judges.iter().map(String::as_str).collect();
                names.join(", ")
            };
            told.push(format!(
                "judged by {} in A and by {} in B: a difference may be the judges' and not the agent's",
                names(&self.judges_a),
                names(&self.judges_b)
            ));
        }
        if let (Some(a), Some(b)) = (&self.criteria_a, &self.criteria_b)
            && a != b
        {
            let short = |hash: &str| hash.get(..12).unwrap_or(hash).to_owned();
            told.push(format!(
                "judged under criteria {} in A and {} in B: a difference may be the criteria's and not the agent's",
                short(a),
                short(b)
            ));
        }
        told
    }

    fn note(judges: &mut BTreeSet<String>, item: &Item) {
        if judges.len() < JUDGES {
            judges.extend(judge(item));
        }
    }
}

/// One item that turned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What the item calls itself; `#3` is the third item of a suite without names.
    pub id: String,
    /// Its total in A, 0-1.
    pub before: Option<f64>,
    /// Its total in B, 0-1.
    pub after: Option<f64>,
    /// Its place in A, from 0.
    pub item_a: u64,
    /// Its place in B.
    pub item_b: u64,
}

/// By how much the mean of one part of the scores moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartChange {
    /// Its name in bodies.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Items that have it in both runs.
    pub compared: u64,
    /// Their mean in A, 0-1 (of sessions 0-100).
    pub mean_a: f64,
    /// Their mean in B.
    pub mean_b: f64,
    /// `mean_b - mean_a`.
    pub difference: f64,
}

/// What is remembered of an item.
struct Brief {
    total: Option<f64>,
    passed: Option<bool>,
    place: u64,
    /// The parts that have a score, in the order of the kind's rules.
    parts: Vec<Worth>,
}

/// What one part is worth: its name, its name for people, its score.
type Worth = (&'static str, &'static str, f64);

impl Brief {
    fn of(item: &Item) -> Self {
        let total = match item.outcome {
            Outcome::Scored => item.total.filter(|total| total.is_finite()),
            Outcome::Incomplete | Outcome::Failed => None,
        };
        Self {
            total,
            passed: item.passed.filter(|_| total.is_some()),
            place: item.item_no,
            parts: parts(item)
                .filter_map(|part| Some((part.name, part.title, part.score?)))
                .collect(),
        }
    }
}

impl Comparison {
    /// Compares two runs, items paired by what they call themselves, else by their place.
    ///
    /// # Errors
    /// Those of reading the items.
    pub fn of(a: &(impl Source + ?Sized), b: &(impl Source + ?Sized)) -> Result<Self, ReportError> {
        let mut comparison = Self::empty();
        let mut before: HashMap<String, Brief> = HashMap::new();
        a.each(&mut |item| {
            comparison.simulated_a += u64::from(item.simulated);
            Judged::note(&mut comparison.judged.judges_a, item);
            before.insert(name(item), Brief::of(item));
            Ok(())
        })?;
        let mut pairs: Vec<(f64, f64)> = Vec::new();
        b.each(&mut |item| {
            comparison.simulated_b += u64::from(item.simulated);
            Judged::note(&mut comparison.judged.judges_b, item);
            let id = name(item);
            match before.remove(&id) {
                None => comparison.new.push(id),
                Some(before) => pairs.extend(comparison.add(id, &before, &Brief::of(item))),
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

    /// The same, with the criteria of the two as their headers have them.
    pub fn under(mut self, a: Option<&Bench>, b: Option<&Bench>) -> Self {
        let hash = |bench: Option<&Bench>| bench.map(|bench| bench.criteria_hash.clone());
        (self.judged.criteria_a, self.judged.criteria_b) = (hash(a), hash(b));
        self
    }

    /// Whether one run has scores of a simulated judge and the other has not.
    pub fn mixes_simulated(&self) -> bool {
        (self.simulated_a > 0) != (self.simulated_b > 0)
    }

    fn empty() -> Self {
        Self {
            common: 0,
            pass_to_fail: Vec::new(),
            fail_to_pass: Vec::new(),
            lost_score: Vec::new(),
            gained_score: Vec::new(),
            new: Vec::new(),
            gone: Vec::new(),
            compared: 0,
            mean_a: None,
            mean_b: None,
            difference: None,
            interval: None,
            parts: Vec::new(),
            simulated_a: 0,
            simulated_b: 0,
            judged: Judged::default(),
        }
    }

    /// Adds an item of both runs; its totals, if it has both.
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
        match (before.total, after.total) {
            (Some(_), None) => self.lost_score.push(change),
            (None, Some(_)) => self.gained_score.push(change),
            (None, None) => {}
            (Some(a), Some(b)) => {
                match (before.passed, after.passed) {
                    (Some(true), Some(false)) => self.pass_to_fail.push(change),
                    (Some(false), Some(true)) => self.fail_to_pass.push(change),
                    (Some(_) | None, Some(_) | None) => {}
                }
                return Some((a, b));
            }
        }
        None
    }

    /// Adds up the parts that both have; sums stand where the means will.
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

/// What pairs an item with itself in another run.
fn name(item: &Item) -> String {
    match &item.id {
        Some(id) => id.clone(),
        None => format!("#{}", item.item_no + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Kind, Usage};
    use serde_json::Value;

    fn item(id: &str, total: Option<f64>) -> Item {
        Item {
            item_no: 0,
            kind: Kind::Query,
            id: Some(id.to_owned()),
            payload: Value::Null,
            outcome: match total {
                Some(_) => Outcome::Scored,
                None => Outcome::Incomplete,
            },
            total,
            passed: total.map(|total| total >= 0.9),
            result: None,
            error: None,
            simulated: false,
            usage: Usage::default(),
            job_id: None,
        }
    }

    #[test]
    fn parts_are_measured_over_the_items_that_have_them_in_both() {
        let of = |id: &str, schema: f64, llm: Option<f64>| Item {
            result: Some(serde_json::json!({"components": {
                "schema_match": {"score": schema}, "llm_grading": {"score": llm}}})),
            ..item(id, llm)
        };
        let a = [of("x", 1.0, Some(0.5)), of("y", 0.5, Some(1.0))];
        let b = [of("x", 0.5, Some(1.0)), of("y", 0.5, None)];
        let found = Comparison::of(a.as_slice(), b.as_slice()).unwrap();
        let parts: Vec<_> = found
            .parts
            .iter()
            .map(|part| (part.name, part.compared, part.difference))
            .collect();
        assert_eq!(parts, [("schema_match", 2, -0.25), ("llm_grading", 1, 0.5)]);
    }

    fn ids(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(|change| change.id.as_str()).collect()
    }

    #[test]
    fn what_turned_is_told_apart_and_only_common_items_are_measured() {
        let a = [
            item("same", Some(1.0)),
            item("broke", Some(0.95)),
            item("fixed", Some(0.2)),
            item("lost", Some(1.0)),
            item("found", None),
            item("never", None),
            item("gone", Some(0.0)),
        ];
        let b = [
            item("new", Some(0.0)),
            item("never", None),
            item("found", Some(0.0)),
            item("lost", None),
            item("fixed", Some(1.0)),
            item("broke", Some(0.25)),
            item("same", Some(1.0)),
        ];
        let found = Comparison::of(a.as_slice(), b.as_slice()).unwrap();
        assert_eq!(ids(&found.pass_to_fail), ["broke"]);
        assert_eq!(ids(&found.fail_to_pass), ["fixed"]);
        assert_eq!(ids(&found.lost_score), ["lost"]);
        assert_eq!(ids(&found.gained_score), ["found"]);
        assert_eq!(
            (found.new.as_slice(), found.gone.as_slice()),
            (&["new".to_owned()][..], &["gone".to_owned()][..])
        );
        assert_eq!((found.common, found.compared), (6, 3));
        let mean = |value: Option<f64>| (value.unwrap() * 1_000.0).round() / 1_000.0;
        assert_eq!((mean(found.mean_a), mean(found.mean_b)), (0.717, 0.75));
        assert_eq!(mean(found.difference), 0.033);
        assert!(!found.mixes_simulated());
    }

    #[test]
    fn the_interval_holds_the_difference_and_is_the_same_every_time() {
        let run = |shift: f64| -> Vec<Item> {
            (0..200)
                .map(|n| item(&format!("q{n}"), Some(f64::from(n % 10) / 20.0 + shift)))
                .collect()
        };
        let (a, b) = (run(0.0), run(0.1));
        let found = Comparison::of(a.as_slice(), b.as_slice()).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(
            (low - 0.1).abs() < 1e-9 && (high - 0.1).abs() < 1e-9,
            "{low} {high}"
        );
        let mut noisy = b.clone();
        for (n, item) in noisy.iter_mut().enumerate() {
            item.total = item
                .total
                .map(|total| total + if n % 2 == 0 { 0.2 } else { -0.2 });
        }
        let found = Comparison::of(a.as_slice(), noisy.as_slice()).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(
            low < 0.09 && high > 0.11 && low > 0.05 && high < 0.15,
            "{low} {high}"
        );
        assert_eq!(
            found,
            Comparison::of(a.as_slice(), noisy.as_slice()).unwrap()
        );
    }

    #[test]
    fn one_pair_has_no_interval_and_none_has_no_mean() {
        let (a, b) = ([item("a", Some(1.0))], [item("a", Some(0.5))]);
        let found = Comparison::of(a.as_slice(), b.as_slice()).unwrap();
        assert_eq!((found.difference, found.interval), (Some(-0.5), None));
        let found = Comparison::of(a.as_slice(), [].as_slice()).unwrap();
        assert_eq!((found.difference, found.compared), (None, 0));
    }

    #[test]
    fn another_judge_and_other_criteria_are_told() {
        let by = |model: &str| Item {
            result: Some(serde_json::json!({"judge": {"provider": "j", "model": model}})),
            ..item("a", Some(1.0))
        };
        let bench = |hash: &str| Bench {
            criteria_hash: hash.to_owned(),
            judge: None,
            model: None,
        };
        let found =
            |a: &str, b: &str| Comparison::of([by(a)].as_slice(), [by(b)].as_slice()).unwrap();
        assert_eq!(found("m1", "m1").judged.otherwise(), [""; 0]);
        assert_eq!(
            found("m1", "m2").judged.otherwise(),
            [
                "judged by j (m1) in A and by j (m2) in B: a difference may be the judges' and not the agent's"
            ]
        );
        let same = found("m1", "m1").under(Some(&bench("f00")), Some(&bench("f00")));
        assert_eq!(same.judged.otherwise(), [""; 0]);
        let other = found("m1", "m1").under(Some(&bench("f00")), Some(&bench("ba7")));
        assert_eq!(
            other.judged.otherwise(),
            [
                "judged under criteria f00 in A and ba7 in B: a difference may be the criteria's and not the agent's"
            ]
        );
        // Where nothing was judged, or the other header is not there, nothing is known.
        let nobody = Comparison::of([by("m1")].as_slice(), [item("a", Some(1.0))].as_slice());
        let nobody = nobody.unwrap().under(Some(&bench("f00")), None);
        assert_eq!(nobody.judged.otherwise(), [""; 0]);
    }

    #[test]
    fn a_simulated_run_beside_a_real_one_is_noticed() {
        let mut simulated = item("a", Some(1.0));
        simulated.simulated = true;
        let (a, b) = ([simulated], [item("a", Some(1.0))]);
        let found = Comparison::of(a.as_slice(), b.as_slice()).unwrap();
        assert!(found.mixes_simulated());
        assert!(
            !Comparison::of(a.as_slice(), a.as_slice())
                .unwrap()
                .mixes_simulated()
        );
    }
}
