//! Rows side by side: each a list of cells, the generated ones in the order of the expected columns. Never decides which
//! columns belong together.

use super::space::Space;
use super::table::{CellId, Table};

/// The rows of one side, cut to the columns that are compared.
pub(super) struct Rows {
    width: usize,
    count: usize,
    cells: Vec<CellId>,
}

impl Rows {
    /// All columns of the expected table.
    pub(super) fn expected(table: &Table) -> Self {
        let columns: Vec<&[CellId]> = table.columns().iter().map(|c| c.cells.as_slice()).collect();
        Self::gather(&columns, table.rows(), |id| id)
    }

    /// The columns of the generated table that stand for the expected ones, in their order.
    pub(super) fn generated(table: &Table, space: &Space, columns: &[usize]) -> Self {
        let columns: Vec<&[CellId]> = columns
            .iter()
            .map(|&column| table.columns()[column].cells.as_slice())
            .collect();
        Self::gather(&columns, table.rows(), |id| space.of_generated(id))
    }

    fn gather(columns: &[&[CellId]], count: usize, id: impl Fn(CellId) -> CellId) -> Self {
        let width = columns.len();
        let mut cells = Vec::with_capacity(width * count);
        for row in 0..count {
            cells.extend(columns.iter().map(|column| id(column[row])));
        }
        Self {
            width,
            count,
            cells,
        }
    }

    /// The rows at these places, in this order.
    pub(super) fn arranged(&self, order: &[usize]) -> Self {
        Self {
            width: self.width,
            count: order.len(),
            cells: order
                .iter()
                .flat_map(|&row| self.get(row))
                .copied()
                .collect(),
        }
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many cells a row has.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The cells of a row.
    pub(super) fn get(&self, row: usize) -> &[CellId] {
        &self.cells[row * self.width..(row + 1) * self.width]
    }
}
