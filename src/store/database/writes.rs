//! Writes that are committed together: on Postgres as one statement and round trip, on SQLite in sequence.

use super::dialect::Dialect;
use super::sql::{Arg, Sql};

/// Writes that depend on a first one, which returns the ids of the jobs that it changed.
///
/// On Postgres the first write is the part `applied` of one statement; the others join it, and all see the data before it. On
/// SQLite it runs first, and the others are built for its jobs only.
pub(in crate::store) struct Writes {
    pub(in crate::store) dialect: Dialect,
    /// All lists are padded to this size, so that Postgres plans few different statements.
    size: usize,
    statements: Vec<Sql>,
}

impl Writes {
    /// `jobs`: maximum number of jobs.
    pub(in crate::store) fn new(dialect: Dialect, jobs: usize) -> Self {
        Self {
            dialect,
            size: jobs.next_power_of_two(),
            statements: Vec::new(),
        }
    }

    /// Adds a write; on Postgres later ones can read its `returning` rows by `name`.
    pub(in crate::store) fn add(&mut self, name: &str, write: impl FnOnce(&mut Sql)) {
        if let (Dialect::Postgres, Some(statement)) = (self.dialect, self.statements.first_mut()) {
            statement.push(", ").push(name).push(" as (");
            write(statement);
            statement.push(")");
            return;
        }
        let mut statement = Sql::new("");
        match self.dialect {
            Dialect::Postgres => {
                statement.push("with ").push(name).push(" as (");
                write(&mut statement);
                statement.push(")");
            }
            Dialect::Sqlite => write(&mut statement),
        }
        self.statements.push(statement);
    }

    /// Pads rows for [`Sql::push_rows`].
    pub(in crate::store) fn padded(&self, mut rows: Vec<Vec<Arg>>) -> Vec<Vec<Arg>> {
        if let Some(first) = rows.first() {
            let padding = first.iter().map(Arg::null).collect();
            rows.resize(self.size.max(rows.len()), padding);
        }
        rows
    }

    /// Pads values for [`Sql::push_list`] with copies.
    pub(in crate::store) fn repeated<T>(
        &self,
        values: impl Iterator<Item = T> + Clone,
    ) -> impl Iterator<Item = T> {
        values.cycle().take(self.size)
    }

    /// Condition that restricts rows of `v` to jobs that the first write changed.
    pub(in crate::store) fn of_applied(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => " and job_id in (select job_id from applied)",
            Dialect::Sqlite => "",
        }
    }

    /// Returns the statements in order; on Postgres one.
    pub(in crate::store) fn into_statements(self) -> Vec<Sql> {
        self.statements
    }
}
