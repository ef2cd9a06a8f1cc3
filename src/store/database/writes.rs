//! Writes that are committed together: on Postgres one statement, which costs one round trip, on SQLite one after another.

use super::dialect::Dialect;
use super::sql::{Arg, Sql};

/// Writes behind a first one, which answers the ids of the jobs that it was applied to.
///
/// On Postgres the first is one of them, named `applied`, and the others hold themselves to its jobs: they all see the moment before
/// it. On SQLite it is run before, and the others are written for its jobs alone.
pub(in crate::store) struct Writes {
    pub(in crate::store) dialect: Dialect,
    /// To so many rows all are padded: a statement for each size of each would be planned anew again and again.
    size: usize,
    statements: Vec<Sql>,
}

impl Writes {
    /// Writes about so many jobs at most.
    pub(in crate::store) fn new(dialect: Dialect, jobs: usize) -> Self {
        Self {
            dialect,
            size: jobs.next_power_of_two(),
            statements: Vec::new(),
        }
    }

    /// Adds one; on Postgres those behind it may read what it returns by its name.
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

    /// Rows for [`Sql::push_rows`], padded.
    pub(in crate::store) fn padded(&self, mut rows: Vec<Vec<Arg>>) -> Vec<Vec<Arg>> {
        if let Some(first) = rows.first() {
            let padding = first.iter().map(Arg::null).collect();
            rows.resize(self.size.max(rows.len()), padding);
        }
        rows
    }

    /// Values for [`Sql::push_list`], padded with themselves.
    pub(in crate::store) fn repeated<T>(
        &self,
        values: impl Iterator<Item = T> + Clone,
    ) -> impl Iterator<Item = T> {
        values.cycle().take(self.size)
    }

    /// Narrows rows of `v` to those of jobs that the first write was applied to.
    pub(in crate::store) fn of_applied(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => " and job_id in (select job_id from applied)",
            Dialect::Sqlite => "",
        }
    }

    /// What to run, in its order; on Postgres it is one statement.
    pub(in crate::store) fn into_statements(self) -> Vec<Sql> {
        self.statements
    }
}
