//! Rows of both databases, and types of their columns for `derive(sqlx::FromRow)`.

use std::num::TryFromIntError;
use std::str::FromStr;

use chrono::NaiveDate;
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteRow, SqliteTypeInfo, SqliteValueRef};
use sqlx::types::Json;
use sqlx::{Database, Decode, FromRow, Postgres, Row as _, Sqlite, Type, ValueRef as _};
use uuid::Uuid;

/// A type that both databases can decode.
pub(in crate::store) trait Field:
    for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}
impl<T> Field for T where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}

/// A column that may be NULL, for `#[sqlx(try_from = "Nullable<String>")]` on a field of type `Option`.
pub(in crate::store) struct Nullable<T>(Option<T>);

impl<'r, DB: Database, T> Decode<'r, DB> for Nullable<T>
where
    Option<T>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        Option::decode(value).map(Self)
    }
}

impl<DB: Database, T: Type<DB>> Type<DB> for Nullable<T> {
    fn type_info() -> DB::TypeInfo {
        T::type_info()
    }

    fn compatible(of: &DB::TypeInfo) -> bool {
        T::compatible(of)
    }
}

macro_rules! from_nullable {
    ($($of:ty),+) => { $(
        impl<T: TryFrom<$of>> TryFrom<Nullable<$of>> for Option<T> {
            type Error = T::Error;

            fn try_from(column: Nullable<$of>) -> Result<Self, T::Error> {
                column.0.map(T::try_from).transpose()
            }
        }
    )+ };
}
from_nullable!(String, Uuid, Int, Day);

/// An `integer` or `bigint` column, for `#[sqlx(try_from = "Int")]` on a field of any integer type.
pub(in crate::store) struct Int(i64);

impl<'r> Decode<'r, Postgres> for Int {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        if <i64 as Type<Postgres>>::compatible(&value.type_info()) {
            <i64 as Decode<Postgres>>::decode(value).map(Self)
        } else {
            <i32 as Decode<Postgres>>::decode(value).map(|int| Self(int.into()))
        }
    }
}

impl Type<Postgres> for Int {
    fn type_info() -> PgTypeInfo {
        <i64 as Type<Postgres>>::type_info()
    }

    fn compatible(of: &PgTypeInfo) -> bool {
        <i64 as Type<Postgres>>::compatible(of) || <i32 as Type<Postgres>>::compatible(of)
    }
}

impl<'r> Decode<'r, Sqlite> for Int {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<Sqlite>>::decode(value).map(Self)
    }
}

impl Type<Sqlite> for Int {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(of: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(of)
    }
}

macro_rules! from_int {
    ($($of:ty),+) => { $(
        impl TryFrom<Int> for $of {
            type Error = TryFromIntError;

            fn try_from(int: Int) -> Result<Self, TryFromIntError> {
                int.0.try_into()
            }
        }
    )+ };
}
from_int!(u8, u16, u32, u64, i32);

/// A day as text `YYYY-MM-DD`, for `#[sqlx(try_from = "Day")]` on a date.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
pub(in crate::store) struct Day(String);

impl TryFrom<Day> for NaiveDate {
    type Error = chrono::ParseError;

    fn try_from(day: Day) -> Result<Self, Self::Error> {
        day.0.parse()
    }
}

/// A row of either database.
pub(in crate::store) enum DbRow {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

/// A value that a row of either database decodes to: by `derive(sqlx::FromRow)`, or by hand where columns depend on each other.
pub(in crate::store) trait Decoded: Sized {
    fn decoded(row: &DbRow) -> sqlx::Result<Self>;
}

impl<T> Decoded for T
where
    T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow>,
{
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        match row {
            DbRow::Postgres(row) => T::from_row(row),
            DbRow::Sqlite(row) => T::from_row(row),
        }
    }
}

impl DbRow {
    pub(in crate::store) fn decode<T: Decoded>(&self) -> sqlx::Result<T> {
        T::decoded(self)
    }

    pub(in crate::store) fn get<T: Field>(&self, column: &str) -> sqlx::Result<T> {
        match self {
            Self::Postgres(row) => row.try_get(column),
            Self::Sqlite(row) => row.try_get(column),
        }
    }

    /// Reads an `integer` or `bigint` as the requested type.
    pub(in crate::store) fn int<T: TryFrom<i64>>(&self, column: &str) -> sqlx::Result<T> {
        let value = self
            .get::<i64>(column)
            .or_else(|_| self.get::<i32>(column).map(i64::from))?;
        T::try_from(value).map_err(|_| decode(column, &format!("{value} is out of range")))
    }

    pub(in crate::store) fn text_enum<T: FromStr>(&self, column: &str) -> sqlx::Result<T>
    where
        T::Err: std::fmt::Display,
    {
        let text: String = self.get(column)?;
        text.parse()
            .map_err(|e: T::Err| decode(column, &e.to_string()))
    }

    /// Reads an enum stored as text, or NULL.
    pub(in crate::store) fn optional_enum<T: FromStr>(
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

    pub(in crate::store) fn json(&self, column: &str) -> sqlx::Result<Option<Value>> {
        match self {
            Self::Postgres(row) => Ok(row
                .try_get::<Option<Json<Value>>, _>(column)?
                .map(|json| json.0)),
            // Unchecked, because SQLite stores a bare number as a number, but returns it as text on request.
            Self::Sqlite(row) => row
                .try_get_unchecked::<Option<String>, _>(column)?
                .map(|text| serde_json::from_str(&text).map_err(|e| decode(column, &e.to_string())))
                .transpose(),
        }
    }

    /// Returns the text of a `jsonb` column.
    pub(in crate::store) fn raw_json(&self, column: &str) -> sqlx::Result<Option<Box<RawValue>>> {
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

    /// Reads a typed value from a `jsonb` column that isn't null.
    pub(in crate::store) fn json_as<T: serde::de::DeserializeOwned>(
        &self,
        column: &str,
    ) -> sqlx::Result<T> {
        let value = self
            .json(column)?
            .ok_or_else(|| decode(column, "it is null"))?;
        serde_json::from_value(value).map_err(|e| decode(column, &e.to_string()))
    }

    /// Reads a typed value from a `jsonb` column; null is the default.
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
}

/// Error of a stored value that can't be decoded.
pub(in crate::store) fn decode(column: &str, fault: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("column {column}: {fault}").into())
}

/// Decodes all rows.
pub(in crate::store) fn decoded<T: Decoded, C: FromIterator<T>>(rows: &[DbRow]) -> sqlx::Result<C> {
    rows.iter().map(T::decoded).collect()
}

/// Decodes the first row, if there is one.
pub(in crate::store) fn first<T: Decoded>(rows: &[DbRow]) -> sqlx::Result<Option<T>> {
    rows.first().map(T::decoded).transpose()
}

/// Decodes rows of one column.
pub(in crate::store) fn column<T: Field, C: FromIterator<T>>(rows: &[DbRow]) -> sqlx::Result<C>
where
    (T,): Decoded,
{
    rows.iter()
        .map(|row| <(T,)>::decoded(row).map(|one| one.0))
        .collect()
}
