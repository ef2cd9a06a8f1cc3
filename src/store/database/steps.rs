//! Writes that are committed together: on Postgres one statement, which costs one round trip, on SQLite one after another.

use super::dialect::Dialect;
use super::sql::Sql;

/// Steps behind a first one, which answers the ids of the jobs that it was applied to.
///
/// On Postgres the first is a step, too, named [`Steps::APPLIED`], and the others hold themselves to its jobs: they all see the
/// moment before it. On SQLite it is run before, and the others are written for its jobs alone.
pub(in crate::store) struct Steps {
    pub(in crate::store) dialect: Dialect,
    statements: Vec<Sql>,
}

impl Steps {
    /// The name of the first step on Postgres.
    pub(in crate::store) const APPLIED: &'static str = "applied";

    pub(in crate::store) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            statements: Vec::new(),
        }
    }

    /// Adds a step; on Postgres those behind it may read what it returns by its name.
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

    /// Narrows rows of `v` to those of jobs that the first step was applied to.
    pub(in crate::store) fn of_applied(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => " and job_id in (select job_id from applied)",
            Dialect::Sqlite => "",
        }
    }

    /// What to run, in its order. On Postgres it is one statement, which answers the ids.
    pub(in crate::store) fn statements(mut self) -> Vec<Sql> {
        if let (Dialect::Postgres, Some(statement)) = (self.dialect, self.statements.first_mut()) {
            statement.push(" select job_id from applied");
        }
        self.statements
    }
}
