//! Groups rows that may be equal, by hash.

use super::HashMap;
use super::budget::Budget;
use super::clusters::Clusters;
use super::projection::Rows;
use super::space::Space;
use super::table::CellId;

/// Rows of both sides with cells in the same clusters, column by column. Rows of different groups can't be equal.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Indices of expected rows, ascending.
    pub(super) expected: Vec<usize>,
    pub(super) generated: Vec<usize>,
    /// Columns in which rows of the group may differ; empty if all rows are equal.
    pub(super) loose: Vec<usize>,
}

/// Groups the given rows of both sides. Each expected row is in one group. Groups are ordered by their first rows.
pub(super) fn group(
    space: &Space,
    (expected, expected_rows): (&Rows, &[usize]),
    (generated, generated_rows): (&Rows, &[usize]),
) -> Vec<Group> {
    let width = expected.width();
    let mut classes = Classes {
        width,
        loose: Vec::with_capacity(width),
        expected: vec![0; width * expected_rows.len()],
        generated: vec![0; width * generated_rows.len()],
    };
    let mut clusters = Clusters::new(space);
    for column in 0..width {
        let one = expected_rows.iter().map(|&row| expected.get(row)[column]);
        let other = generated_rows.iter().map(|&row| generated.get(row)[column]);
        clusters.take(space, one.clone().chain(other.clone()));
        classes.set(column, &clusters, one, other);
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<&[CellId], usize> = HashMap::default();
    for (at, &row) in expected_rows.iter().enumerate() {
        let key = Classes::row(&classes.expected, width, at);
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(Group {
                loose: classes.loose_columns(key),
                ..Group::default()
            });
            groups.len() - 1
        });
        groups[at].expected.push(row);
    }
    for (at, &row) in generated_rows.iter().enumerate() {
        if let Some(&at) = known.get(Classes::row(&classes.generated, width, at)) {
            groups[at].generated.push(row);
        }
    }
    groups
}

struct Classes {
    width: usize,
    /// Classes with unequal cells, ascending, per column.
    loose: Vec<Vec<CellId>>,
    expected: Vec<CellId>,
    generated: Vec<CellId>,
}

impl Classes {
    /// Appends the classes of the next column.
    fn set(
        &mut self,
        column: usize,
        clusters: &Clusters,
        expected: impl Iterator<Item = CellId>,
        generated: impl Iterator<Item = CellId>,
    ) {
        for (row, cell) in expected.enumerate() {
            self.expected[row * self.width + column] = clusters.class(cell);
        }
        for (row, cell) in generated.enumerate() {
            self.generated[row * self.width + column] = clusters.class(cell);
        }
        self.loose.push(clusters.loose().to_vec());
    }

    fn row(side: &[CellId], width: usize, row: usize) -> &[CellId] {
        &side[row * width..(row + 1) * width]
    }

    fn loose_columns(&self, key: &[CellId]) -> Vec<usize> {
        let columns = self.loose.iter().zip(key).enumerate();
        columns
            .filter(|(_, (loose, class))| loose.binary_search(class).is_ok())
            .map(|(column, _)| column)
            .collect()
    }
}

/// A group's generated rows, sorted by the column with the widest spread, so that rows near an expected row are found by binary search.
pub(super) struct Sorted {
    pub(super) column: usize,
    /// Rows with their number in that column, ascending.
    pub(super) rows: Vec<(f64, usize)>,
}

impl Sorted {
    /// Sorts by the loose column with the widest spread relative to its numbers; `None` without a loose column.
    pub(super) fn sort(space: &Space, generated: &Rows, group: &Group) -> Option<Self> {
        let number = |row: usize, column: usize| space.number(generated.get(row)[column]);
        let spread = |column: usize| {
            let numbers = group
                .generated
                .iter()
                .filter_map(|&row| number(row, column));
            let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| {
                (low.min(n), high.max(n))
            });
            (high - low) / low.abs().max(high.abs()).max(f64::MIN_POSITIVE)
        };
        let column = group
            .loose
            .iter()
            .map(|&column| (spread(column), column))
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?
            .1;
        let mut rows: Vec<(f64, usize)> = group
            .generated
            .iter()
            .filter_map(|&row| Some((number(row, column)?, row)))
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self { column, rows })
    }

    pub(super) fn near(&self, space: &Space, value: f64) -> std::ops::Range<usize> {
        let below = |other: &(f64, usize)| other.0 < value && !space.near(other.0, value);
        let within = |other: &(f64, usize)| other.0 <= value || space.near(other.0, value);
        self.rows.partition_point(below)..self.rows.partition_point(within)
    }
}

/// Whether two rows of a group are equal. Compares loose columns only, one step per cell. False once the budget is exhausted.
pub(super) fn equal_within(
    space: &Space,
    group: &Group,
    (expected, generated): (&[CellId], &[CellId]),
    budget: &mut Budget,
) -> bool {
    let mut loose = group.loose.iter();
    loose.all(|&column| budget.use_steps(1) && space.equal(expected[column], generated[column]))
}
