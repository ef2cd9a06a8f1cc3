//! What an SQL text reads, filters and aggregates.
//!
//! A text is parsed by the grammar of its dialect, or else by the generic one. What neither can read has no shape, but an error that says
//! where the parser stopped. Bounded in time and memory: longer than [`LONGEST`] bytes is refused, and so is what nests too deep.
//!
//! Tables are base relations that any statement reads or writes. Aliases, common table expressions where they are in sight, derived
//! tables, VALUES, table functions, arrays of rows, variables and stages are none.

mod aggregates;
mod dialect;
mod literal;
mod name;
mod naming;
mod normalize;
mod object;
mod order;
mod parse;
mod predicate;
mod scope;
mod statement;
#[cfg(test)]
mod tests;
mod text;
mod walk;

pub use dialect::Dialect;
pub use parse::LONGEST;
pub use text::{are_identical, is_nothing};

use super::{QueryShape, TableName};

/// Why a text has no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// It is longer than [`LONGEST`].
    #[error("the SQL is {bytes} bytes long; at most {LONGEST} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It nests deeper than the parser goes.
    #[error("the SQL nests too deep; flatten its parentheses or subqueries")]
    TooDeep,
    /// It holds no statement.
    #[error("the SQL holds no statement")]
    Empty,
    /// It reads or writes tables that its text doesn't name.
    #[error("the text doesn't tell the tables of {part}")]
    Hidden {
        /// One of [`QueryShape::hidden`].
        part: String,
    },
    /// Neither the dialect's grammar nor the generic one can read it.
    #[error("the SQL doesn't parse as {dialect}: {message}")]
    Syntax {
        /// The dialect asked for.
        dialect: Dialect,
        /// What the parser of that dialect says, with line and column.
        message: String,
    },
}

impl SqlError {
    /// Returns the name of its kind in results.
    pub fn class(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "too_long",
            Self::TooDeep => "too_deep",
            Self::Empty => "empty",
            Self::Hidden { .. } => "hidden_tables",
            Self::Syntax { .. } => "syntax",
        }
    }
}

/// Reads the shape of a text that parses.
pub fn parse(sql: &str, dialect: Dialect) -> Result<QueryShape, SqlError> {
    parse::with_statements(sql, dialect, |statements| walk::shape(statements, dialect))
}

/// Returns the tables of a shape, or an error if the text doesn't tell all of them.
pub fn known_tables(shape: &QueryShape) -> Result<&[TableName], SqlError> {
    match shape.hidden.first() {
        Some(part) => Err(SqlError::Hidden { part: part.clone() }),
        None => Ok(&shape.tables),
    }
}
