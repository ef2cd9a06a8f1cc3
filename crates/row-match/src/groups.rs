//! Rows that may be equal, put together by hash. Never decides which row of a group goes with which.

use super::HashMap;
use super::budget::Budget;
use super::clusters::Clusters;
use super::projection::Rows;
use super::space::Space;
use super::table::CellId;

/// Rows of both sides whose cells are in the same clusters, column by column. Rows of two groups are never equal.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Places of expected rows, ascending.
    pub(super) expected: Vec<usize>,
    /// Places of generated rows, ascending.
    pub(super) generated: Vec<usize>,
    /// The columns in which two rows of the group may differ; empty if every two rows of the group are equal.
    pub(super) loose: Vec<usize>,
}

/// Groups the given rows of both sides. Every expected row given is in one group, in the order of their first rows.
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

/// The classes of the cells of some rows.
struct Classes {
    width: usize,
    /// Per column, the classes in which some two cells differ, ascending.
    loose: Vec<Vec<CellId>>,
    /// Row by row.
    expected: Vec<CellId>,
    generated: Vec<CellId>,
}

impl Classes {
    /// Sets the classes of the next column.
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

/// A group's generated rows in the order of the column that tells most of its rows apart, so that those near to an expected row
/// are found without looking at all.
pub(super) struct Sorted {
    pub(super) column: usize,
    /// The rows with their numbers in it, ascending.
    pub(super) rows: Vec<(f64, usize)>,
}

impl Sorted {
    /// Sorts by the loose column with the widest spread of numbers for their size; `None` for a group that isn't loose.
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

    /// The range of places whose numbers are near to this one.
    pub(super) fn near(&self, space: &Space, value: f64) -> std::ops::Range<usize> {
        let below = |other: &(f64, usize)| other.0 < value && !space.near(other.0, value);
        let within = |other: &(f64, usize)| other.0 <= value || space.near(other.0, value);
        self.rows.partition_point(below)..self.rows.partition_point(within)
    }
}

/// Whether two rows of one group are equal: only its loose columns can tell. A step per cell looked at; false once the
/// budget refuses.
pub(super) fn equal_within(
    space: &Space,
    group: &Group,
    (expected, generated): (&[CellId], &[CellId]),
    budget: &mut Budget,
) -> bool {
    let mut loose = group.loose.iter();
    loose.all(|&column| budget.spend(1) && space.equal(expected[column], generated[column]))
}
