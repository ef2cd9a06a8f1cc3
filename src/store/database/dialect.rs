//! What differs between the databases in a statement's text.

use std::time::Duration;

use super::sql::Sql;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Postgres 13 or newer.
    Postgres,
    /// SQLite, embedded.
    Sqlite,
}

impl Dialect {
    /// What asks how a statement would be run, and the column of the answer's lines.
    pub(in crate::store) fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::Postgres => ("explain ", "QUERY PLAN"),
            Self::Sqlite => ("explain query plan ", "detail"),
        }
    }

    /// The database's now, as an expression; SQLite's has milliseconds, in the width that times are stored in.
    pub(in crate::store) fn now(self) -> &'static str {
        match self {
            Self::Postgres => "clock_timestamp()",
            Self::Sqlite => "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')",
        }
    }

    /// The time `ago` before the database's now, as an expression.
    pub(in crate::store) fn push_ago(self, statement: &mut Sql, ago: Duration) {
        let (begin, end) = self.seconds_ago();
        statement.push(begin).push_arg(ago.as_secs_f64()).push(end);
    }

    /// The same by the seconds in a column.
    pub(in crate::store) fn push_column_ago(self, statement: &mut Sql, column: &str) {
        let (begin, end) = self.seconds_ago();
        statement.push(begin).push(column).push(end);
    }

    /// What stands around the seconds.
    fn seconds_ago(self) -> (&'static str, &'static str) {
        match self {
            Self::Postgres => ("clock_timestamp() - ", " * interval '1 second'"),
            Self::Sqlite => (
                "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now', printf('-%.3f seconds', ",
                "))",
            ),
        }
    }
}
