//! Recognises items of a history that are known from before.

use std::collections::HashMap;

use super::transcript::Item;

/// Counts of items, which tell those of a history that are new from repetitions: a second occurrence is new where one is known.
#[derive(Default)]
pub(super) struct Known {
    counts: HashMap<String, usize>,
    in_history: HashMap<String, usize>,
}

impl Known {
    pub(super) fn add(&mut self, item: &Item) {
        *self.counts.entry(item.key()).or_default() += 1;
    }

    pub(super) fn start_history(&mut self) {
        self.in_history.clear();
    }

    /// Whether the next item of the history is new; it is known from then on.
    pub(super) fn is_new(&mut self, item: &Item) -> bool {
        let key = item.key();
        let in_history = self.in_history.entry(key.clone()).or_default();
        *in_history += 1;
        let known = self.counts.entry(key).or_default();
        let is_new = *known < *in_history;
        *known += usize::from(is_new);
        is_new
    }
}
