//! Parquet writer. Buffers one row group and writes it column by column.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type as Schema;
use chrono::DateTime;
use serde_json::Value;

use super::columns::{ColumnType, Columns};
use super::summary::Figures;
use super::{ReportError, Source};

/// Maximum rows and bytes of text of a row group.
const ROWS: usize = 10_000;
const BYTES: usize = 4 * 1024 * 1024;

fn types(holds: ColumnType) -> (Physical, Option<LogicalType>) {
    match holds {
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        ColumnType::Time => {
            let micros = LogicalType::timestamp(true, TimeUnit::MICROS);
            (Physical::INT64, Some(micros))
        }
        ColumnType::Whole => (Physical::INT64, None),
        ColumnType::Number => (Physical::DOUBLE, None),
        ColumnType::Flag => (Physical::BOOLEAN, None),
    }
}

/// Returns the number of rows of a table. Errors: not a Parquet file, or unreadable.
pub fn rows_of(file: File) -> Result<i64> {
    let table = SerializedFileReader::new(file)?;
    Ok(table.metadata().file_metadata().num_rows())
}

pub(crate) struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<ColumnType>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl<W: Write + Send> Table<W> {
    pub(crate) fn new<'a>(
        out: W,
        columns: impl IntoIterator<Item = (&'a str, ColumnType)>,
    ) -> Result<Self> {
        let (mut fields, mut held) = (Vec::new(), Vec::new());
        for (name, holds) in columns {
            let (physical, logical) = types(holds);
            let field = Schema::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            fields.push(Arc::new(field.build()?));
            held.push(holds);
        }
        let schema = Schema::group_type_builder("rows").with_fields(fields);
        let properties = Arc::new(WriterProperties::default());
        Ok(Self {
            writer: SerializedFileWriter::new(out, Arc::new(schema.build()?), properties)?,
            columns: held,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds a row with a cell per column. Returns whether that wrote a row group.
    pub(crate) fn add(&mut self, row: Vec<Value>) -> Result<bool> {
        self.bytes += row.iter().map(weight).sum::<usize>();
        self.rows.push(row);
        let is_full = self.rows.len() >= ROWS || self.bytes >= BYTES;
        if is_full {
            self.write_group()?;
        }
        Ok(is_full)
    }

    pub(crate) fn end(mut self) -> Result<W> {
        self.write_group()?;
        self.writer.into_inner()
    }

    fn write_group(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (nth, holds) in self.columns.iter().enumerate() {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let cells = self.rows.iter().filter_map(|row| row.get(nth));
            match holds {
                ColumnType::Text | ColumnType::Json => {
                    write::<ByteArrayType>(&mut column, cells, bytes)
                }
                ColumnType::Time => write::<Int64Type>(&mut column, cells, micros),
                ColumnType::Whole => write::<Int64Type>(&mut column, cells, Value::as_i64),
                ColumnType::Number => write::<DoubleType>(&mut column, cells, Value::as_f64),
                ColumnType::Flag => write::<BoolType>(&mut column, cells, Value::as_bool),
            }?;
            column.close()?;
        }
        group.close()?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

impl Table<Vec<u8>> {
    /// Returns the bytes written since the last call.
    pub(crate) fn written(&mut self) -> Result<Vec<u8>> {
        self.writer.flush()?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }
}

/// Returns the approximate bytes of a cell. Serializes a list or object to count them.
fn weight(cell: &Value) -> usize {
    match cell {
        Value::Null | Value::Bool(_) | Value::Number(_) => size_of::<Value>(),
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => cell.to_string().len(),
    }
}

fn bytes(cell: &Value) -> Option<ByteArray> {
    match cell {
        Value::Null => None,
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(cell.to_string().into_bytes().into())
        }
    }
}

fn micros(cell: &Value) -> Option<i64> {
    let at = DateTime::parse_from_rfc3339(cell.as_str()?).ok()?;
    Some(at.timestamp_micros())
}

fn write<'a, T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = &'a Value>,
    value: impl Fn(&'a Value) -> Option<T::T>,
) -> Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = value(cell);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    let column = column.typed::<T>();
    column.write_batch(&values, Some(&levels), None).map(drop)
}

pub(super) fn report(
    out: &mut (impl Write + Send),
    source: &(impl Source + ?Sized),
    figures: &Figures,
) -> std::result::Result<(), ReportError> {
    let failed = |error| ReportError::writing("the report as Parquet", error);
    let columns = Columns::for_kinds(&figures.kinds);
    let list = columns
        .list
        .iter()
        .map(|column| (column.name, column.holds));
    let mut table = Table::new(out, list).map_err(failed)?;
    source.each(&mut |item| {
        table
            .add(columns.row(item).collect())
            .map(drop)
            .map_err(failed)
    })?;
    table.end().map(drop).map_err(failed)
}
