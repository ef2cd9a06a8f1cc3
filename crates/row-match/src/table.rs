//! A result as columns of normalized cells, each distinct cell stored once.

use serde_json::Value;

use super::cell::Cell;
use super::names::normal;
use super::nested::MAX_DEPTH;
use super::{Case, HashMap};

/// Maximum number of rows per result.
pub const MAX_ROWS: usize = 10_000;
/// Maximum number of columns per result, over all its rows.
pub const MAX_COLUMNS: usize = 500;

/// Index of a cell in its table's pool.
pub(super) type CellId = u32;
pub(super) const NULL: CellId = 0;

/// Error of a result that can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// More than [`MAX_ROWS`] rows.
    #[error("{rows} rows; at most {MAX_ROWS} are compared: aggregate, or take fewer")]
    TooManyRows {
        /// Number of rows.
        rows: usize,
    },
    /// More than [`MAX_COLUMNS`] columns, over all rows.
    #[error("row {row} brings more than {MAX_COLUMNS} columns: project those that matter")]
    TooManyColumns {
        /// Index of the row that exceeds the limit; 0 if the given names exceed it.
        row: usize,
    },
    /// Array row with a different number of cells than given names.
    #[error(
        "row {row} has {cells} cells and there are {columns} column names: give each cell its column, null where there is none"
    )]
    Width {
        /// Index of the row.
        row: usize,
        /// Number of its cells.
        cells: usize,
        /// Number of given names.
        columns: usize,
    },
    /// Row that is neither an object nor an array.
    #[error("row {row} is {found}; a row is an object, or an array of cells")]
    NotARow {
        /// Index of the row.
        row: usize,
        /// Its JSON type.
        found: &'static str,
    },
    /// Cell nested too deeply.
    #[error("row {row} nests deeper than {MAX_DEPTH} levels: flatten it")]
    TooDeep {
        /// Index of the row.
        row: usize,
    },
}

/// Normalized result: up to [`MAX_ROWS`] rows of up to [`MAX_COLUMNS`] columns.
#[derive(Debug, Clone)]
pub struct Table {
    rows: usize,
    columns: Vec<Column>,
    pool: Vec<Cell>,
}

#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Normalized name; `None` for a position in array rows without a given name.
    pub(super) name: Option<String>,
    pub(super) cells: Vec<CellId>,
}

impl Table {
    /// Reads rows: objects with column names as keys, or arrays with positions named by `columns`.
    ///
    /// Columns are the given `columns`, in order, followed by the keys of the rows. Missing keys are NULL. Two keys of a row that differ only
    /// in case are two columns with the same name.
    ///
    /// # Errors
    /// Too many rows ([`MAX_ROWS`]) or columns ([`MAX_COLUMNS`]), a row that is neither object nor array, or a too deeply nested cell.
    pub fn from_values(rows: &[Value], columns: Option<&[String]>) -> Result<Self, TableError> {
        Self::in_case(rows, columns, Case::Ignored)
    }

    /// Same as [`Self::from_values`], with this case sensitivity.
    pub fn in_case(
        rows: &[Value],
        columns: Option<&[String]>,
        case: Case,
    ) -> Result<Self, TableError> {
        if rows.len() > MAX_ROWS {
            return Err(TableError::TooManyRows { rows: rows.len() });
        }
        let mut reading = TableReader::new(rows.len(), columns.unwrap_or_default(), case)?;
        for (at, row) in rows.iter().enumerate() {
            reading.row(at, row)?;
        }
        Ok(reading.table())
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Normalized column names: trimmed, unquoted, in lower case; `None` for unnamed columns.
    pub fn names(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.columns.iter().map(|column| column.name.as_deref())
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn pool(&self) -> &[Cell] {
        &self.pool
    }
}

struct TableReader<'a> {
    capacity: usize,
    case: Case,
    columns: Vec<Column>,
    named: HashMap<String, Vec<usize>>,
    /// Keys of the previous row and their columns, because most rows have the same keys in the same order.
    layout: Vec<(&'a str, usize)>,
    pool: HashMap<Cell, CellId>,
    given: usize,
}

impl<'a> TableReader<'a> {
    fn new(rows: usize, names: &[String], case: Case) -> Result<Self, TableError> {
        let mut reading = Self {
            capacity: rows,
            case,
            columns: Vec::new(),
            named: HashMap::default(),
            layout: Vec::new(),
            given: names.len(),
            pool: HashMap::with_capacity_and_hasher(rows.saturating_mul(4), Default::default()),
        };
        reading.pool.insert(Cell::Null, NULL);
        for name in names {
            reading.open(0, Some(normal(name)))?;
        }
        Ok(reading)
    }

    /// Reads the row at `at`. All previous rows must be complete.
    fn row(&mut self, at: usize, row: &'a Value) -> Result<(), TableError> {
        match row {
            Value::Array(cells) => {
                if self.given > 0 && cells.len() != self.given {
                    let (cells, columns) = (cells.len(), self.given);
                    return Err(TableError::Width {
                        row: at,
                        cells,
                        columns,
                    });
                }
                for (place, value) in cells.iter().enumerate() {
                    if place == self.columns.len() {
                        self.open(at, None)?;
                    }
                    self.put(at, place, value)?;
                }
            }
            Value::Object(members) => {
                for (place, (key, value)) in members.iter().enumerate() {
                    let column = self.column_of(at, place, key)?;
                    self.put(at, column, value)?;
                }
            }
            Value::Null => return Err(not_a_row(at, "null")),
            Value::Bool(_) => return Err(not_a_row(at, "a boolean")),
            Value::Number(_) => return Err(not_a_row(at, "a number")),
            Value::String(_) => return Err(not_a_row(at, "a string")),
        }
        for column in &mut self.columns {
            column.cells.resize(at + 1, NULL);
        }
        Ok(())
    }

    /// Returns the column of the key at `place` in the row at `at`: the first with its name that this row hasn't filled yet.
    fn column_of(&mut self, at: usize, place: usize, key: &'a str) -> Result<usize, TableError> {
        if let Some(&(known, column)) = self.layout.get(place)
            && known == key
            && self.columns[column].cells.len() == at
        {
            return Ok(column);
        }
        let name = normal(key);
        let free = self.named.get(&name).and_then(|columns| {
            let mut columns = columns.iter().copied();
            columns.find(|&column| self.columns[column].cells.len() == at)
        });
        let column = match free {
            Some(column) => column,
            None => self.open(at, Some(name))?,
        };
        self.layout.truncate(place);
        self.layout.push((key, column));
        Ok(column)
    }

    /// Adds a column, with NULL in the rows before `at`.
    fn open(&mut self, at: usize, name: Option<String>) -> Result<usize, TableError> {
        let column = self.columns.len();
        if column == MAX_COLUMNS {
            return Err(TableError::TooManyColumns { row: at });
        }
        if let Some(name) = &name {
            self.named.entry(name.clone()).or_default().push(column);
        }
        let mut cells = Vec::with_capacity(self.capacity);
        cells.resize(at, NULL);
        self.columns.push(Column { name, cells });
        Ok(column)
    }

    fn put(&mut self, at: usize, column: usize, value: &Value) -> Result<(), TableError> {
        let cell = Cell::read(value, self.case).map_err(|_| TableError::TooDeep { row: at })?;
        let next = CellId::try_from(self.pool.len()).unwrap_or(CellId::MAX);
        let id = *self.pool.entry(cell).or_insert(next);
        self.columns[column].cells.push(id);
        Ok(())
    }

    fn table(self) -> Table {
        let mut pool = vec![Cell::Null; self.pool.len()];
        for (cell, id) in self.pool {
            pool[id as usize] = cell;
        }
        Table {
            rows: self.capacity,
            columns: self.columns,
            pool,
        }
    }
}

fn not_a_row(row: usize, found: &'static str) -> TableError {
    TableError::NotARow { row, found }
}
