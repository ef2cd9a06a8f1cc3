//! Differences between the databases in SQL.

use std::time::Duration;

use super::sql::Sql;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Postgres 13 or newer.
    Postgres,
    Sqlite,
}

impl Dialect {
    /// Returns the keyword that explains a statement, and the column with the plan.
    pub(in crate::store) fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::Postgres => ("explain ", "QUERY PLAN"),
            Self::Sqlite => ("explain query plan ", "detail"),
        }
    }

    /// Expression for the current time of the database; SQLite's has milliseconds, padded to the stored width.
    pub(in crate::store) fn now(self) -> &'static str {
        match self {
            Self::Postgres => "clock_timestamp()",
            Self::Sqlite => "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')",
        }
    }

    /// Appends an expression for the database's time minus `ago`.
    pub(in crate::store) fn push_ago(self, statement: &mut Sql, ago: Duration) {
        let (begin, end) = self.seconds_ago();
        statement.push(begin).push_arg(ago.as_secs_f64()).push(end);
    }

    /// Appends an expression for the database's time minus the seconds in a column.
    pub(in crate::store) fn push_column_ago(self, statement: &mut Sql, column: &str) {
        let (begin, end) = self.seconds_ago();
        statement.push(begin).push(column).push(end);
    }

    /// The text before and after the seconds.
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
