//! Common numbering of the cells of two tables, with equality of cells.

use super::HashMap;
use super::cell::Cell;
use super::table::{CellId, Table};

/// Maximum absolute difference of equal numbers.
const ABSOLUTE: f64 = 1e-9;
/// Maximum relative difference of equal numbers.
const RELATIVE: f64 = 1e-6;
/// Ranges of times from 2001 to 2050, as fractional numbers since 1970 in seconds, milliseconds, microseconds and nanoseconds, and as
/// Julian days: from, to, and half a millisecond. Here, a millionth would be half an hour, or two days.
const TIMES: [(f64, f64, f64); 5] = [
    (978_307_200.0, 2_524_608_000.0, 5e-4),
    (978_307_200e3, 2_524_608_000e3, 5e-1),
    (978_307_200e6, 2_524_608_000e6, 5e2),
    (978_307_200e9, 2_524_608_000e9, 5e5),
    (2_451_910.5, 2_469_807.5, 5e-4 / 86_400.0),
];
/// Tolerance for rounding errors in a difference just within the limit.
const SLACK: f64 = 1.0 + 1e-6;
/// Further decimals of a float are meaningless.
const MAX_DECIMALS: u8 = 15;

/// Distinct cells of both tables. Cells of the expected table keep their numbers.
pub(super) struct Space {
    cells: Vec<NumberKind>,
    /// Common number of each cell of the generated table.
    generated: Vec<CellId>,
    /// 10 to the power of the decimals to round to.
    scale: Option<f64>,
}

/// Kind of a number, for comparison within the tolerance.
#[derive(Debug, Clone, Copy)]
enum NumberKind {
    Integer(f64),
    Float(f64),
    Other,
}

impl NumberKind {
    fn from_cell(cell: &Cell) -> Self {
        match cell.as_f64() {
            Some(number) if cell.is_float() => Self::Float(number),
            Some(number) => Self::Integer(number),
            None => Self::Other,
        }
    }
}

impl Space {
    pub(super) fn new(expected: &Table, generated: &Table, decimals: Option<u8>) -> Self {
        let mut cells: Vec<NumberKind> =
            expected.pool().iter().map(NumberKind::from_cell).collect();
        let known: HashMap<&Cell, CellId> = expected.pool().iter().zip(0..).collect();
        let generated = generated
            .pool()
            .iter()
            .map(|cell| {
                known.get(cell).copied().unwrap_or_else(|| {
                    cells.push(NumberKind::from_cell(cell));
                    CellId::try_from(cells.len() - 1).unwrap_or(CellId::MAX)
                })
            })
            .collect();
        let scale = decimals.map(|decimals| 10_f64.powi(i32::from(decimals.min(MAX_DECIMALS))));
        Self {
            cells,
            generated,
            scale,
        }
    }

    pub(super) fn of_generated(&self, id: CellId) -> CellId {
        self.generated[id as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn number(&self, id: CellId) -> Option<f64> {
        match self.cells[id as usize] {
            NumberKind::Integer(number) | NumberKind::Float(number) => Some(number),
            NumberKind::Other => None,
        }
    }

    pub(super) fn is_float(&self, id: CellId) -> bool {
        matches!(self.cells[id as usize], NumberKind::Float(_))
    }

    /// Whether two cells are equal: identical, or near numbers with at most one integer.
    pub(super) fn equal(&self, one: CellId, other: CellId) -> bool {
        if one == other {
            return true;
        }
        match (self.cells[one as usize], self.cells[other as usize]) {
            (NumberKind::Float(one), NumberKind::Float(other) | NumberKind::Integer(other))
            | (NumberKind::Integer(one), NumberKind::Float(other)) => self.near(one, other),
            (NumberKind::Integer(_), NumberKind::Integer(_))
            | (NumberKind::Other, _)
            | (_, NumberKind::Other) => false,
        }
    }

    /// Whether two numbers are equal as floats. The numbers near to a given one are an interval.
    pub(super) fn near(&self, one: f64, other: f64) -> bool {
        let tolerance = time_tolerance(one)
            .or_else(|| time_tolerance(other))
            .unwrap_or_else(|| ABSOLUTE.max(RELATIVE * one.abs().max(other.abs())));
        (one - other).abs() <= tolerance * SLACK
            || self
                .scale
                .is_some_and(|scale| match (rounded(one, scale), rounded(other, scale)) {
                    (Some(one), Some(other)) => one == other,
                    (None, _) | (_, None) => false,
                })
    }
}

fn time_tolerance(number: f64) -> Option<f64> {
    let mut times = TIMES.iter();
    times
        .find(|(from, to, _)| (*from..*to).contains(&number))
        .map(|(_, _, tolerance)| *tolerance)
}

/// Rounds a number in units of its last decimal, halves away from zero. 2.675 is 267.5 hundredths, although its float isn't. `None` if the
/// scaled number overflows, because such a large number has no decimals to round.
fn rounded(value: f64, scale: f64) -> Option<f64> {
    let units = (value * scale * (1.0 + 4.0 * f64::EPSILON)).round();
    units.is_finite().then_some(units)
}
