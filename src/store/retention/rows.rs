//! Statements for kinds of rows with a single time column: judge calls, deliveries, imports.

use chrono::{DateTime, Utc};

use super::SLICE;
use crate::store::database::sql::Sql;

/// A table whose rows are deleted by one time column. Rows that refer to them go with them.
pub(super) struct Rows {
    table: &'static str,
    key: &'static str,
    time: &'static str,
    /// Maximum number of rows that one step deletes.
    slice: i64,
}

pub(super) const CALLS: Rows = Rows {
    table: "judge_calls",
    key: "call_id",
    time: "called_at",
    slice: SLICE,
};
pub(super) const DELIVERIES: Rows = Rows {
    table: "webhook_deliveries",
    key: "delivery_id",
    time: "happened_at",
    slice: SLICE,
};
pub(super) const IMPORTS: Rows = Rows {
    table: "session_imports",
    key: "import_id",
    time: "finished_at",
    // Each has up to 1,000 reasons.
    slice: 10,
};

impl Rows {
    pub(super) fn count(&self, before: DateTime<Utc>) -> Sql {
        let Self { table, time, .. } = self;
        let mut statement = Sql::new("select count(*) as n from ");
        statement.push(table).push(" where ").push(time);
        statement.push(" < ").push_arg(before);
        statement
    }

    pub(super) fn slice(&self, before: DateTime<Utc>) -> Sql {
        let Self {
            table, key, time, ..
        } = self;
        let mut statement = Sql::new("delete from ");
        for part in [
            table,
            " where ",
            key,
            " in (select ",
            key,
            " from ",
            table,
            " where ",
            time,
            " < ",
        ] {
            statement.push(part);
        }
        statement.push_arg(before).push(" order by ").push(time);
        statement.push(" limit ").push_arg(self.slice).push(")");
        statement
    }
}
