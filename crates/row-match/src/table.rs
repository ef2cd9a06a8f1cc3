//! A result as it is compared: columns of cells, each distinct cell kept once. Never keeps how a cell was spelled.

use serde_json::Value;

use super::cell::Cell;
use super::names::normal;
use super::nested::MAX_DEPTH;
use super::{Case, HashMap};

/// How many rows a result may have.
pub const MAX_ROWS: usize = 10_000;
/// How many columns a result may have, over all its rows.
pub const MAX_COLUMNS: usize = 500;

/// A cell's number in its table's pool.
pub(super) type CellId = u32;
/// NULL's number in every pool.
pub(super) const NULL: CellId = 0;

/// A result that can't be compared as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// More than [`MAX_ROWS`] rows.
    #[error("{rows} rows; at most {MAX_ROWS} are compared: aggregate, or take fewer")]
    TooManyRows {
        /// How many there are.
        rows: usize,
    },
    /// More than [`MAX_COLUMNS`] columns, over all rows.
    #[error("row {row} brings more than {MAX_COLUMNS} columns: project those that matter")]
    TooManyColumns {
        /// The row with one too many, from 0; 0 where the given names alone are too many.
        row: usize,
    },
    /// An array row whose cells and the given names differ in number.
    #[error(
        "row {row} has {cells} cells and there are {columns} column names: give each cell its column, null where there is none"
    )]
    Width {
        /// Its place, from 0.
        row: usize,
        /// How many cells it has.
        cells: usize,
        /// How many names were given.
        columns: usize,
    },
    /// A row that is neither an object nor an array.
    #[error("row {row} is {found}; a row is an object, or an array of cells")]
    NotARow {
        /// Its place, from 0.
        row: usize,
        /// What it is.
        found: &'static str,
    },
    /// A cell that nests too deep.
    #[error("row {row} nests deeper than {MAX_DEPTH} levels: flatten it")]
    TooDeep {
        /// Its place, from 0.
        row: usize,
    },
}

/// A result: up to [`MAX_ROWS`] rows of up to [`MAX_COLUMNS`] columns, normalised.
#[derive(Debug, Clone)]
pub struct Table {
    rows: usize,
    columns: Vec<Column>,
    pool: Vec<Cell>,
}

/// One column of a table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Its normal name; `None` for a place in an array row that no name was given for.
    pub(super) name: Option<String>,
    /// Its cells, one per row.
    pub(super) cells: Vec<CellId>,
}

impl Table {
    /// Reads rows: objects, whose keys name the columns, or arrays, whose places are named by `columns`.
    ///
    /// The columns are those of `columns`, in their order, and then those that the rows bring. A missing key is
    /// NULL. Two keys of one row that differ in case only are two columns of one name.
    ///
    /// # Errors
    /// More than [`MAX_ROWS`] rows or [`MAX_COLUMNS`] columns, a row that is neither object nor array, or a cell that nests
    /// deeper than the JSON reader goes.
    pub fn from_values(rows: &[Value], columns: Option<&[String]>) -> Result<Self, TableError> {
        Self::in_case(rows, columns, Case::Ignored)
    }

    /// Reads rows as [`Self::from_values`] does, whose text is compared with another table's in this way.
    ///
    /// # Errors
    /// The same.
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

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The normal names of its columns: trimmed, unquoted, lower-cased; `None` for a column without one.
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

/// A table that is being read.
struct TableReader<'a> {
    capacity: usize,
    case: Case,
    columns: Vec<Column>,
    /// The columns of each normal name.
    named: HashMap<String, Vec<usize>>,
    /// The keys of the row before and their columns: most rows have the same keys in the same order.
    layout: Vec<(&'a str, usize)>,
    pool: HashMap<Cell, CellId>,
    /// How many names were given.
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

    /// Reads the row at `at`; every row before it is complete.
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

    /// The column of the key at `place` in the row at `at`: the first of its name that the row hasn't filled yet.
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

    /// Opens a column, NULL in the rows before `at`.
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
