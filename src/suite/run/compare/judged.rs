//! Judges and criteria of two compared runs, because differences in scores may result from them.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::report::Item;

/// Maximum judges listed per run.
const JUDGES: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RunJudging {
    /// Judges of A's items, as `entry (model)`, the first 20.
    pub judges_a: BTreeSet<String>,
    pub judges_b: BTreeSet<String>,
    /// Criteria of A, 64 hex digits.
    pub criteria_a: Option<String>,
    pub criteria_b: Option<String>,
}

impl RunJudging {
    /// Returns a sentence per known difference.
    pub fn otherwise(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !self.judges_a.is_empty() && !self.judges_b.is_empty() && self.judges_a != self.judges_b
        {
            let names = |judges: &BTreeSet<String>| {
                let names: Vec<&str> = judges.iter().map(String::as_str).collect();
                names.join(", ")
            };
            found.push(format!(
                "judged by {} in A and by {} in B: a difference may be the judges' and not the agent's",
                names(&self.judges_a),
                names(&self.judges_b)
            ));
        }
        if let (Some(a), Some(b)) = (&self.criteria_a, &self.criteria_b)
            && a != b
        {
            let short = |hash: &str| hash.get(..12).unwrap_or(hash).to_owned();
            let part = match found.is_empty() {
                true => "",
                // The hash includes the judge named by the criteria.
                false => " (which name their judge, so that it may be no more than that)",
            };
            found.push(format!(
                "judged under criteria {} in A and {} in B{part}: a difference may be the criteria's and not the agent's",
                short(a),
                short(b)
            ));
        }
        found
    }

    pub(super) fn note(judges: &mut BTreeSet<String>, item: &Item) {
        if judges.len() < JUDGES {
            judges.extend(item.judge());
        }
    }
}
