//! One SQL text with its arguments, which either database runs, and one row, which either database gives.
//!
//! Never names a table. Two things are done to every value on its way in, so that both databases hold the same: times
//! are cut to microseconds, and NUL characters, which Postgres refuses in text and in JSON, become U+FFFD.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::types::Json;
use sqlx::{Arguments as _, AssertSqlSafe, Decode, FromRow, Postgres, Row as _, Sqlite, Type};
use uuid::Uuid;

use super::error::StoreError;
use crate::job::Payload;

/// A value bound to a statement; `None` is a NULL that keeps its type. Has no `Debug`: payloads are never logged.
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
    /// About how many bytes it takes on the wire.
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

    /// The NULL of the same type.
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
    u32, v => i64::from(v), Int;
    f64, v => v, Float;
}

/// A statement: its text with `$1`, `$2` .. and its arguments.
#[derive(Clone)]
pub(in crate::store) struct Sql {
    text: Cow<'static, str>,
    args: Vec<Arg>,
}

/// Makes a statement of a literal text and its arguments.
macro_rules! sql {
    ($text:expr $(, $arg:expr)* $(,)?) => {
        $crate::store::database::sql::Sql::new($text)$(.bind($arg))*
    };
}
pub(in crate::store) use sql;

impl Sql {
    pub(in crate::store) fn new(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            args: Vec::new(),
        }
    }

    /// `with v (columns) as (values ..)`, to be followed by the statement that reads `v`.
    ///
    /// Padded with rows of NULLs to a power of two, so that groups of every size share a few prepared statements: the
    /// statement that follows must skip rows whose first column is null.
    pub(in crate::store) fn of_rows(columns: &str, rows: Vec<Vec<Arg>>) -> Self {
        let mut sql = Self::new("");
        sql.push_rows(columns, rows);
        sql
    }

    /// Appends what [`Sql::of_rows`] begins with.
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

    /// Appends `with v as (..)` of rows that are one argument: however many there are, it is one prepared statement. For
    /// Postgres. Each value has the type of its column in the first row.
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

    /// Puts text in front.
    pub(in crate::store) fn with_prefix(mut self, prefix: &str) -> Self {
        self.text.to_mut().insert_str(0, prefix);
        self
    }

    /// Binds the next argument of the text.
    pub(in crate::store) fn bind(mut self, arg: impl Into<Arg>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Appends text.
    pub(in crate::store) fn push(&mut self, text: &str) -> &mut Self {
        self.text.to_mut().push_str(text);
        self
    }

    /// Appends an argument and its placeholder.
    pub(in crate::store) fn push_arg(&mut self, arg: impl Into<Arg>) -> &mut Self {
        self.args.push(arg.into());
        let n = self.args.len();
        // Writing to a string can't fail.
        let _ = write!(self.text.to_mut(), "${n}");
        self
    }

    /// Appends `(a, b, ..)`, padded to a power of two with the last one again; `(null)` for none.
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
        // A group has thousands: room for all of them at once, each behind its length.
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
                // One width for all, so that text sorts as time does.
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

/// A type that reads back from both databases.
pub(in crate::store) trait Field:
    for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}
impl<T> Field for T where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}

/// A row of either database.
pub(in crate::store) enum DbRow {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

/// A type that is read from a row of either database.
pub(in crate::store) trait Decoded:
    for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow>
{
}
impl<T> Decoded for T where T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> {}

impl DbRow {
    pub(in crate::store) fn decode<T: Decoded>(&self) -> sqlx::Result<T> {
        match self {
            Self::Postgres(row) => T::from_row(row),
            Self::Sqlite(row) => T::from_row(row),
        }
    }

    pub(in crate::store) fn get<T: Field>(&self, column: &str) -> sqlx::Result<T> {
        match self {
            Self::Postgres(row) => row.try_get(column),
            Self::Sqlite(row) => row.try_get(column),
        }
    }

    /// An `integer` or `bigint`, as the type that the code uses.
    pub(in crate::store) fn int<T: TryFrom<i64>>(&self, column: &str) -> sqlx::Result<T> {
        let value = self
            .get::<i64>(column)
            .or_else(|_| self.get::<i32>(column).map(i64::from))?;
        T::try_from(value).map_err(|_| decode(column, &format!("{value} is out of range")))
    }

    /// A closed enum stored as text.
    pub(in crate::store) fn text_enum<T: FromStr>(&self, column: &str) -> sqlx::Result<T>
    where
        T::Err: std::fmt::Display,
    {
        let text: String = self.get(column)?;
        text.parse()
            .map_err(|e: T::Err| decode(column, &e.to_string()))
    }

    /// A closed enum stored as text, or NULL.
    pub(in crate::store) fn text_enum_or_null<T: FromStr>(
        &self,
        column: &str,
    ) -> sqlx::Result<Option<T>>
    where
        T::Err: std::fmt::Display,
    {
        let text: Option<String> = self.get(column)?;
        text.map(|text| {
            text.parse()
                .map_err(|e: T::Err| decode(column, &e.to_string()))
        })
        .transpose()
    }

    /// JSON from a `jsonb` column.
    pub(in crate::store) fn json(&self, column: &str) -> sqlx::Result<Option<Value>> {
        match self {
            Self::Postgres(row) => Ok(row
                .try_get::<Option<Json<Value>>, _>(column)?
                .map(|json| json.0)),
            // Unchecked: SQLite keeps a bare number as a number, and gives it as text when asked to.
            Self::Sqlite(row) => row
                .try_get_unchecked::<Option<String>, _>(column)?
                .map(|text| serde_json::from_str(&text).map_err(|e| decode(column, &e.to_string())))
                .transpose(),
        }
    }

    /// The text of a `jsonb` column.
    pub(in crate::store) fn json_unread(
        &self,
        column: &str,
    ) -> sqlx::Result<Option<Box<RawValue>>> {
        match self {
            Self::Postgres(row) => Ok(row
                .try_get::<Option<Json<Box<RawValue>>>, _>(column)?
                .map(|json| json.0)),
            Self::Sqlite(row) => row
                .try_get_unchecked::<Option<String>, _>(column)?
                .map(|text| RawValue::from_string(text).map_err(|e| decode(column, &e.to_string())))
                .transpose(),
        }
    }

    /// A typed value from a `jsonb` column that is never null.
    pub(in crate::store) fn json_as<T: serde::de::DeserializeOwned>(
        &self,
        column: &str,
    ) -> sqlx::Result<T> {
        let value = self
            .json(column)?
            .ok_or_else(|| decode(column, "it is null"))?;
        serde_json::from_value(value).map_err(|e| decode(column, &e.to_string()))
    }

    /// A typed value from a `jsonb` column; null stands for its default.
    pub(in crate::store) fn json_as_or_default<T: serde::de::DeserializeOwned + Default>(
        &self,
        column: &str,
    ) -> sqlx::Result<T> {
        match self.json(column)?.filter(|value| !value.is_null()) {
            None => Ok(T::default()),
            Some(value) => {
                serde_json::from_value(value).map_err(|e| decode(column, &e.to_string()))
            }
        }
    }

    /// A typed value from a `text` column that holds JSON.
    pub(in crate::store) fn json_text<T: serde::de::DeserializeOwned>(
        &self,
        column: &str,
    ) -> sqlx::Result<T> {
        let text: String = self.get(column)?;
        serde_json::from_str(&text).map_err(|e| decode(column, &e.to_string()))
    }
}

/// A stored value that doesn't read back.
pub(in crate::store) fn decode(column: &str, fault: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("column {column}: {fault}").into())
}

/// Reads each row.
pub(in crate::store) fn all<T, C: FromIterator<T>>(
    attempted: &'static str,
    rows: &[DbRow],
    read: impl Fn(&DbRow) -> sqlx::Result<T>,
) -> Result<C, StoreError> {
    let read: sqlx::Result<C> = rows.iter().map(read).collect();
    read.map_err(|error| StoreError::of(attempted, &error))
}

/// Reads the first row, if there is one.
pub(in crate::store) fn first<T>(
    attempted: &'static str,
    rows: &[DbRow],
    read: impl Fn(&DbRow) -> sqlx::Result<T>,
) -> Result<Option<T>, StoreError> {
    let read = rows.first().map(read).transpose();
    read.map_err(|error| StoreError::of(attempted, &error))
}

/// Replaces NUL characters by U+FFFD.
pub(in crate::store) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A value's text, without NUL characters. The tree is copied only where it may hold one.
fn raw_without_nul(value: &Value) -> Box<RawValue> {
    let raw = |value: &Value| {
        // A value that holds no map with other keys than strings, which JSON can't, is always written.
        to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
    };
    let text = raw(value);
    if text.get().contains("\\u0000") {
        return raw(&json_without_nul(value.clone()));
    }
    text
}

/// The same of a text that nobody has read.
fn unread_without_nul(payload: &Payload) -> Box<RawValue> {
    if payload.text().contains("\\u0000") {
        return raw_without_nul(&payload.value());
    }
    payload.clone().into()
}

/// Replaces NUL characters by U+FFFD in every string and key.
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
    fn a_list_is_padded_with_its_last_and_an_empty_one_matches_nothing() {
        let mut three = sql!("in ");
        three.push_list([1_i64, 2, 3]);
        assert_eq!(three.text, "in ($1, $2, $3, $4)");
        let mut none = sql!("in ");
        none.push_list(Vec::<i64>::new());
        assert_eq!((none.text.as_ref(), none.args.len()), ("in (null)", 0));
    }

    #[test]
    fn json_is_copied_only_to_lose_its_nul_characters() {
        let plain = serde_json::json!({ "a\\u0000": ["b", 1, null] });
        assert_eq!(raw_without_nul(&plain).get(), plain.to_string());
        let with_nul = serde_json::json!({ "a\u{0}": ["b\u{0}", 1] });
        let read: Value = serde_json::from_str(raw_without_nul(&with_nul).get()).unwrap();
        assert_eq!(read, serde_json::json!({ "a\u{fffd}": ["b\u{fffd}", 1] }));
    }
}
