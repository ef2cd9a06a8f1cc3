//! Extracts the tables, filters and aggregations of an SQL text.
//!
//! A text is parsed with the grammar of its dialect, then with the generic one. If both fail, the error contains the position. To limit
//! time and memory, texts over [`LONGEST`] bytes and too deep nesting are rejected.
//!
//! Tables are base relations that a statement reads or writes. Not included: aliases, common table expressions in scope, derived tables,
//! VALUES, table functions, arrays of rows, variables and stages.

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

/// Reason why a text has no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// Longer than [`LONGEST`].
    #[error("the SQL is {bytes} bytes long; at most {LONGEST} are read")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
    /// Nested deeper than the parser's limit.
    #[error("the SQL nests too deep; flatten its parentheses or subqueries")]
    TooDeep,
    /// Contains no statement.
    #[error("the SQL holds no statement")]
    Empty,
    /// Reads or writes tables that are unknown from its text.
    #[error("the text doesn't tell the tables of {part}")]
    Hidden {
        /// An entry of [`QueryShape::hidden`].
        part: String,
    },
    /// Rejected by the dialect's grammar and the generic one.
    #[error("the SQL doesn't parse as {dialect}: {message}")]
    Syntax {
        /// The requested dialect.
        dialect: Dialect,
        /// Message of that dialect's parser, with line and column.
        message: String,
    },
}

impl SqlError {
    /// Returns the name of its class in results.
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

/// Parses a text and extracts its shape.
pub fn parse(sql: &str, dialect: Dialect) -> Result<QueryShape, SqlError> {
    parse::with_statements(sql, dialect, |statements| walk::shape(statements, dialect))
}

/// Returns the tables of a shape, or an error if some are unknown from the text.
pub fn known_tables(shape: &QueryShape) -> Result<&[TableName], SqlError> {
    match shape.hidden.first() {
        Some(part) => Err(SqlError::Hidden { part: part.clone() }),
        None => Ok(&shape.tables),
    }
}
