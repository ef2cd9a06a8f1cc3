//! SQL statements with names and arguments, for both databases.
//!
//! Contains no table names. Values are normalised so that both databases store the same: times are truncated to microseconds,
//! and NUL characters, which Postgres rejects in text and JSON, become U+FFFD.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::types::Json;
use sqlx::{Arguments as _, AssertSqlSafe, Postgres, Sqlite};
use uuid::Uuid;

use super::session::Purpose;
use crate::job::Payload;

/// A bound value; `None` is a typed NULL. No `Debug`, because payloads must not be logged.
#[derive(Clone)]
pub(in crate::store) enum Arg {
    Text(Option<String>),
    Uuid(Option<Uuid>),
    Time(Option<DateTime<Utc>>),
    Json(Option<Box<RawValue>>),
    Bool(Option<bool>),
    Int(Option<i64>),
    Float(Option<f64>),
}

impl Arg {
    /// Approximate size on the wire, bytes.
    fn size(&self) -> usize {
        match self {
            Self::Text(v) => v.as_ref().map_or(0, String::len),
            Self::Json(v) => v.as_ref().map_or(0, |json| json.get().len() + 1),
            Self::Uuid(_) => 16,
            Self::Time(_) | Self::Int(_) | Self::Float(_) => 8,
            Self::Bool(_) => 1,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(v) => v.as_deref().into(),
            Self::Uuid(v) => v.map(|id| id.to_string()).into(),
            Self::Time(v) => v
                .map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, true))
                .into(),
            Self::Json(v) => serde_json::json!(v),
            Self::Bool(v) => (*v).into(),
            Self::Int(v) => (*v).into(),
            Self::Float(v) => (*v).into(),
        }
    }

    fn postgres_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Uuid(_) => "uuid",
            Self::Time(_) => "timestamptz",
            Self::Json(_) => "jsonb",
            Self::Bool(_) => "boolean",
            Self::Int(_) => "bigint",
            Self::Float(_) => "double precision",
        }
    }

    /// NULL of the same type.
    pub(super) fn null(&self) -> Self {
        match self {
            Self::Text(_) => Self::Text(None),
            Self::Uuid(_) => Self::Uuid(None),
            Self::Time(_) => Self::Time(None),
            Self::Json(_) => Self::Json(None),
            Self::Bool(_) => Self::Bool(None),
            Self::Int(_) => Self::Int(None),
            Self::Float(_) => Self::Float(None),
        }
    }
}

macro_rules! arg_from {
    ($($from:ty, $value:ident => $some:expr, $variant:ident;)+) => { $(
        impl From<$from> for Arg {
            fn from($value: $from) -> Self {
                Self::$variant(Some($some))
            }
        }
        impl From<Option<$from>> for Arg {
            fn from(value: Option<$from>) -> Self {
                Self::$variant(value.map(|$value| $some))
            }
        }
    )+ };
}

arg_from! {
    &str, v => without_nul(v).into_owned(), Text;
    String, v => if v.contains('\0') { v.replace('\0', "\u{fffd}") } else { v }, Text;
    &String, v => without_nul(v).into_owned(), Text;
    Uuid, v => v, Uuid;
    DateTime<Utc>, v => v.trunc_subsecs(6), Time;
    Value, v => raw_without_nul(&v), Json;
    &Value, v => raw_without_nul(v), Json;
    &Payload, v => unread_without_nul(v), Json;
    bool, v => v, Bool;
    i64, v => v, Int;
    i32, v => i64::from(v), Int;
    u8, v => i64::from(v), Int;
    u16, v => i64::from(v), Int;
    u32, v => i64::from(v), Int;
    u64, v => i64::try_from(v).unwrap_or(i64::MAX), Int;
    usize, v => i64::try_from(v).unwrap_or(i64::MAX), Int;
    f64, v => v, Float;
}

/// A statement with placeholders `$1`, `$2` .. and its arguments.
#[derive(Clone)]
pub(in crate::store) struct Sql {
    text: Cow<'static, str>,
    args: Vec<Arg>,
}

/// `sql!("reading a job", "select ..", arguments)`: a statement with a name.
macro_rules! sql {
    ($name:expr, $text:expr $(, $arg:expr)* $(,)?) => {
        $crate::store::database::sql::Statement::new(
            $name,
            $crate::store::database::sql::step!($text $(, $arg)*),
        )
    };
}
pub(in crate::store) use sql;

/// The same for a statement that may read or write many rows.
macro_rules! long_sql {
    ($name:expr, $text:expr $(, $arg:expr)* $(,)?) => {
        $crate::store::database::sql::sql!($name, $text $(, $arg)*).long()
    };
}
pub(in crate::store) use long_sql;

/// `step!("select ..", arguments)`: a statement of a transaction, which has the name.
macro_rules! step {
    ($text:expr $(, $arg:expr)* $(,)?) => {
        $crate::store::database::sql::Sql::new($text)$(.bind($arg))*
    };
}
pub(in crate::store) use step;

/// A statement outside a transaction; it is retried once after a transient error.
pub(in crate::store) struct Statement {
    /// Operation named in errors, such as "reading a job".
    pub(in crate::store) name: &'static str,
    pub(in crate::store) purpose: Purpose,
    sql: Sql,
}

impl Statement {
    pub(in crate::store) fn new(name: &'static str, sql: Sql) -> Self {
        Self {
            name,
            purpose: Purpose::Any,
            sql,
        }
    }

    /// Marks a statement that may read or write many rows.
    pub(in crate::store) fn long(self) -> Self {
        self.on(Purpose::Many)
    }

    pub(super) fn with_prefix(mut self, prefix: &str) -> Self {
        self.sql.text.to_mut().insert_str(0, prefix);
        self
    }

    pub(in crate::store) fn on(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }
}

impl Deref for Statement {
    type Target = Sql;

    fn deref(&self) -> &Sql {
        &self.sql
    }
}

impl DerefMut for Statement {
    fn deref_mut(&mut self) -> &mut Sql {
        &mut self.sql
    }
}

impl Sql {
    pub(in crate::store) fn new(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            args: Vec::new(),
        }
    }

    /// `with v (columns) as (values ..)`, to be followed by a statement that reads `v`.
    ///
    /// Padded with NULL rows to a power of two, so that all group sizes share a few prepared statements. The statement must
    /// skip rows whose first column is null.
    pub(in crate::store) fn of_rows(columns: &str, rows: Vec<Vec<Arg>>) -> Self {
        let mut sql = Self::new("");
        sql.push_rows(columns, rows);
        sql
    }

    /// Appends the text of [`Sql::of_rows`].
    pub(in crate::store) fn push_rows(
        &mut self,
        columns: &str,
        mut rows: Vec<Vec<Arg>>,
    ) -> &mut Self {
        if let Some(first) = rows.first() {
            let padding: Vec<Arg> = first.iter().map(Arg::null).collect();
            rows.resize(rows.len().next_power_of_two(), padding);
        }
        self.args.reserve(rows.iter().map(Vec::len).sum());
        self.push("with v (").push(columns).push(") as (values ");
        for (n, row) in rows.into_iter().enumerate() {
            self.push(if n == 0 { "(" } else { ", (" });
            for (n, arg) in row.into_iter().enumerate() {
                if n > 0 {
                    self.push(", ");
                }
                self.push_arg(arg);
            }
            self.push(")");
        }
        self.push(") ")
    }

    /// Inserts rows into a table, except padding, which has no first column.
    pub(in crate::store) fn insert(table: &str, columns: &str, rows: Vec<Vec<Arg>>) -> Self {
        let mut sql = Self::new("");
        sql.push_insert(table, columns, rows);
        sql
    }

    /// Appends the text of [`Sql::insert`]. The caller may append conditions and more.
    pub(in crate::store) fn push_insert(
        &mut self,
        table: &str,
        columns: &str,
        rows: Vec<Vec<Arg>>,
    ) -> &mut Self {
        let first = columns.split(',').next().unwrap_or(columns);
        let insert = format!(
            "insert into {table} ({columns}) select {columns} from v where {first} is not null"
        );
        self.push_rows(columns, rows).push(&insert)
    }

    /// Appends `with v as (..)` with all rows in one argument, so that any number of rows uses one prepared statement. Postgres
    /// only. Column types are taken from the first row.
    pub(in crate::store) fn push_json_rows(
        &mut self,
        columns: &[&str],
        rows: &[Vec<Arg>],
    ) -> &mut Self {
        let objects = rows.iter().map(|row| {
            let values = row.iter().map(Arg::to_json);
            columns.iter().copied().zip(values).collect()
        });
        let objects: Vec<BTreeMap<&str, Value>> = objects.collect();
        let types = rows.first().into_iter().flatten().map(Arg::postgres_type);
        let columns: Vec<String> = columns
            .iter()
            .zip(types)
            .map(|(column, of)| format!("{column} {of}"))
            .collect();
        self.push("with v as (select * from jsonb_to_recordset(");
        self.push_arg(serde_json::json!(objects));
        self.push(") as v (").push(&columns.join(", ")).push(")) ")
    }

    pub(in crate::store) fn bind(mut self, arg: impl Into<Arg>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(in crate::store) fn push(&mut self, text: &str) -> &mut Self {
        self.text.to_mut().push_str(text);
        self
    }

    pub(in crate::store) fn push_arg(&mut self, arg: impl Into<Arg>) -> &mut Self {
        self.args.push(arg.into());
        let n = self.args.len();
        // Writing to a string can't fail.
        let _ = write!(self.text.to_mut(), "${n}");
        self
    }

    /// Appends ` and CONDITION VALUE`, if there is a value.
    pub(in crate::store) fn and<A: Into<Arg>>(
        &mut self,
        condition: &str,
        value: Option<A>,
    ) -> &mut Self {
        match value {
            Some(value) => self.push(" and ").push(condition).push_arg(value),
            None => self,
        }
    }

    /// Appends `(a, b, ..)`, padded to a power of two with the last element; `(null)` if empty.
    pub(in crate::store) fn push_list<A: Into<Arg>>(
        &mut self,
        args: impl IntoIterator<Item = A>,
    ) -> &mut Self {
        let mut args: Vec<Arg> = args.into_iter().map(Into::into).collect();
        let Some(last) = args.last().cloned() else {
            return self.push("(null)");
        };
        args.resize(args.len().next_power_of_two(), last);
        self.push("(");
        for (n, arg) in args.into_iter().enumerate() {
            if n > 0 {
                self.push(", ");
            }
            self.push_arg(arg);
        }
        self.push(")")
    }

    pub(in crate::store) fn postgres(&self) -> Query<'static, Postgres, PgArguments> {
        // Reserves the total size, because a group has thousands of arguments.
        let mut room = PgArguments::default();
        let size = self.args.iter().map(|arg| arg.size() + 4).sum();
        room.reserve(self.args.len(), size);
        let mut query = match &self.text {
            Cow::Borrowed(text) => sqlx::query_with(*text, room),
            Cow::Owned(text) => sqlx::query_with(AssertSqlSafe(text.clone()), room),
        };
        for arg in &self.args {
            query = match arg {
                Arg::Text(v) => query.bind(v.as_deref()),
                Arg::Uuid(v) => query.bind(*v),
                Arg::Time(v) => query.bind(*v),
                Arg::Json(v) => query.bind(v.as_ref().map(Json)),
                Arg::Bool(v) => query.bind(*v),
                Arg::Int(v) => query.bind(*v),
                Arg::Float(v) => query.bind(*v),
            };
        }
        query
    }

    pub(in crate::store) fn sqlite(&self) -> Query<'static, Sqlite, SqliteArguments> {
        let mut query = match &self.text {
            Cow::Borrowed(text) => sqlx::query(*text),
            Cow::Owned(text) => sqlx::query(AssertSqlSafe(text.clone())),
        };
        for arg in &self.args {
            query = match arg {
                Arg::Text(v) => query.bind(v.clone()),
                Arg::Uuid(v) => query.bind(*v),
                // Fixed width, so that text sorts by time.
                Arg::Time(v) => {
                    query.bind(v.map(|t| t.to_rfc3339_opts(SecondsFormat::Micros, false)))
                }
                Arg::Json(v) => query.bind(v.as_ref().map(|json| json.get().to_owned())),
                Arg::Bool(v) => query.bind(*v),
                Arg::Int(v) => query.bind(*v),
                Arg::Float(v) => query.bind(*v),
            };
        }
        query
    }
}

pub(in crate::store) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Serialises a value without NUL characters. Copies the tree only if it may contain one.
fn raw_without_nul(value: &Value) -> Box<RawValue> {
    let raw = |value: &Value| {
        // Serialising fails only for maps with other keys than strings, which JSON doesn't have.
        to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
    };
    let text = raw(value);
    if text.get().contains("\\u0000") {
        return raw(&json_without_nul(value.clone()));
    }
    text
}

/// The same for a payload that isn't parsed.
fn unread_without_nul(payload: &Payload) -> Box<RawValue> {
    if payload.text().contains("\\u0000") {
        return raw_without_nul(&payload.value());
    }
    payload.clone().into()
}

/// Replaces NUL characters by U+FFFD in all strings and keys.
pub(in crate::store) fn json_without_nul(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains('\0') => Value::String(text.replace('\0', "\u{fffd}")),
        Value::Array(items) => Value::Array(items.into_iter().map(json_without_nul).collect()),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (without_nul(&key).into_owned(), json_without_nul(value)))
                .collect(),
        ),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_padded_and_empty_ones_match_no_row() {
        let mut three = step!("in ");
        three.push_list([1_i64, 2, 3]);
        assert_eq!(three.text, "in ($1, $2, $3, $4)");
        let mut none = step!("in ");
        none.push_list(Vec::<i64>::new());
        assert_eq!((none.text.as_ref(), none.args.len()), ("in (null)", 0));
    }

    #[test]
    fn json_is_copied_only_if_it_contains_nul() {
        let plain = serde_json::json!({ "a\\u0000": ["b", 1, null] });
        assert_eq!(raw_without_nul(&plain).get(), plain.to_string());
        let with_nul = serde_json::json!({ "a\u{0}": ["b\u{0}", 1] });
        let read: Value = serde_json::from_str(raw_without_nul(&with_nul).get()).unwrap();
        assert_eq!(read, serde_json::json!({ "a\u{fffd}": ["b\u{fffd}", 1] }));
    }
}
