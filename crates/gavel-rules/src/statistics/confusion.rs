//! Confusion matrix of two raters, with their agreement beyond chance.

use gavel_wire::Kappa;

/// Counts of items by the first rater's category (row) and the second's (column), for `K` ordered categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confusion<const K: usize>([[u64; K]; K]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// All disagreements are equal: Cohen 1960.
    Equal,
    /// Square of the distance between the categories: Cohen 1968.
    Quadratic,
}

/// Normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.959_963_984_540_054;
const SLACK: f64 = 1e-12;

impl<const K: usize> Default for Confusion<K> {
    fn default() -> Self {
        Self([[0; K]; K])
    }
}

impl<const K: usize> Confusion<K> {
    /// Counts `n` items in this cell. Indices out of range are skipped.
    pub fn add(&mut self, row: usize, column: usize, n: u64) {
        if let Some(cell) = self.0.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell += n;
        }
    }

    pub fn rows(&self) -> [[u64; K]; K] {
        self.0
    }

    pub fn n(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Share of items with equal categories; `None` if empty.
    pub fn raw_agreement(&self) -> Option<f64> {
        let same: u64 = (0..K).map(|k| self.0[k][k]).sum();
        let n = self.n();
        (n > 0).then(|| same as f64 / n as f64)
    }

    /// Cohen's kappa, with the 95 % interval from the large-sample standard error of Fleiss, Cohen and Everitt (1969), within -1 to 1. The
    /// interval is omitted if the error is 0, as for raters who always agree, because such tables don't predict larger ones. `None` for
    /// fewer than two items, and if chance would give full agreement because both raters used only the same category.
    pub fn kappa(&self, weights: Weights) -> Option<Kappa> {
        let n = self.n();
        if n < 2 {
            return None;
        }
        let share = self.0.map(|row| row.map(|count| count as f64 / n as f64));
        let of_rows: [f64; K] = share.map(|row| row.iter().sum());
        let of_columns: [f64; K] = std::array::from_fn(|j| share.iter().map(|row| row[j]).sum());
        let w = |i: usize, j: usize| weights.agreement(i.abs_diff(j), K);
        let over = |f: &dyn Fn(usize, usize) -> f64| -> f64 {
            let cells = (0..K).flat_map(|i| (0..K).map(move |j| (i, j)));
            cells.map(|(i, j)| f(i, j)).sum()
        };
        let observed = over(&|i, j| w(i, j) * share[i][j]);
        let by_chance = over(&|i, j| w(i, j) * of_rows[i] * of_columns[j]);
        let left = 1.0 - by_chance;
        if left < SLACK {
            return None;
        }
        let value = ((observed - by_chance) / left).clamp(-1.0, 1.0);
        // Expected agreement of a row, or column, with the other rater by chance.
        let row_mean: [f64; K] =
            std::array::from_fn(|i| (0..K).map(|j| of_columns[j] * w(i, j)).sum());
        let column_mean: [f64; K] =
            std::array::from_fn(|j| (0..K).map(|i| of_rows[i] * w(i, j)).sum());
        let squares = over(&|i, j| {
            let term = w(i, j) * left - (row_mean[i] + column_mean[j]) * (1.0 - observed);
            share[i][j] * term.powi(2)
        });
        let centre = observed * by_chance - 2.0 * by_chance + observed;
        let variance = (squares - centre.powi(2)) / (n as f64 * left.powi(4));
        let margin = (variance > SLACK).then(|| Z * variance.sqrt());
        Some(Kappa {
            value,
            low: margin.map(|margin| (value - margin).max(-1.0)),
            high: margin.map(|margin| (value + margin).min(1.0)),
        })
    }
}

impl Weights {
    /// Agreement of two categories at this distance, of `k` categories: 1 for equal ones, 0 for both ends.
    fn agreement(self, steps: usize, k: usize) -> f64 {
        match self {
            Self::Equal if steps == 0 => 1.0,
            Self::Equal => 0.0,
            Self::Quadratic => {
                let widest = k.saturating_sub(1).max(1) as f64;
                1.0 - (steps as f64 / widest).powi(2)
            }
        }
    }
}

#[cfg(test)]
mod tests;
