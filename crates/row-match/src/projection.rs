//! Rows as lists of cells, with the generated columns in expected order.

use super::space::Space;
use super::table::{CellId, Table};

pub(super) struct Rows {
    width: usize,
    count: usize,
    cells: Vec<CellId>,
}

impl Rows {
    pub(super) fn expected(table: &Table) -> Self {
        let columns: Vec<&[CellId]> = table.columns().iter().map(|c| c.cells.as_slice()).collect();
        Self::gather(&columns, table.rows(), |id| id)
    }

    /// The mapped columns of the generated table, in expected order.
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

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn get(&self, row: usize) -> &[CellId] {
        &self.cells[row * self.width..(row + 1) * self.width]
    }
}
