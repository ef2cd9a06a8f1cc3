//! A normalized cell. Equal values have equal [`Cell`]s, except for nearly equal numbers.

use serde_json::{Number, Value};

use super::Case;
use super::date;
use super::json::integer;
use super::nested::{self, TooDeep};

/// Longer numbers are identifiers, and may exceed the range of floats.
const MAX_BYTES: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    /// `null`, a missing key, or NaN.
    Null,
    /// An integer, a boolean (1 or 0), or a float without a fraction below 2^53.
    Int(i64),
    /// An integer that exceeds an i64: its digits, with `-` if negative.
    Big(Box<str>),
    Float(Finite),
    /// Trimmed text, in lower case if case is ignored. Dates are normalized.
    Text(Box<str>),
    Json(Box<str>),
}

impl Cell {
    /// Converts a JSON value. The JSON reader has converted integers beyond 64 bits to floats, which are compared with a tolerance. As
    /// text, such integers are exact.
    pub(super) fn read(value: &Value, case: Case) -> Result<Self, TooDeep> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Int(i64::from(*truth)),
            Value::Number(read) => number(read),
            Value::String(raw) => text(raw, case),
            Value::Array(_) | Value::Object(_) => {
                Self::Json(nested::canonical(value, case)?.into())
            }
        })
    }

    /// Returns the number nearest to the cell's, if it is a number.
    pub(super) fn as_f64(&self) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "integers are told apart exactly elsewhere"
            )]
            Self::Int(whole) => Some(*whole as f64),
            Self::Big(digits) => digits.parse().ok(),
            Self::Float(float) => Some(float.get()),
            Self::Null | Self::Text(_) | Self::Json(_) => None,
        }
    }

    /// Whether it is a number that is always compared with a tolerance.
    pub(super) fn is_float(&self) -> bool {
        matches!(self, Self::Float(_))
    }
}

/// Bits of a finite float. Zero is always an integer, so equal floats have equal bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Finite(u64);

impl Finite {
    pub(super) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

pub(super) fn number(read: &Number) -> Cell {
    if let Some(whole) = read.as_i64() {
        return Cell::Int(whole);
    }
    if let Some(whole) = read.as_u64() {
        return Cell::Big(whole.to_string().into());
    }
    read.as_f64().map_or(Cell::Null, float)
}

/// Converts a float without a fraction to an integer, unless it exceeds the exact range. A column of ids with a NULL is often read as
/// floats, and 10000001.0 must not equal 10000002.0. Larger floats are sums or measurements that happen to have no fraction.
fn float(value: f64) -> Cell {
    match integer(value) {
        _ if !value.is_finite() => Cell::Null,
        Some(whole) => Cell::Int(whole),
        None => Cell::Float(Finite(value.to_bits())),
    }
}

/// Parses a string: a plain number, a boolean, an ISO date, an array or object as JSON text, or text. Tools write NaN as text, because JSON
/// has none.
fn text(raw: &str, case: Case) -> Cell {
    let trimmed = raw.trim();
    let read = match trimmed.as_bytes().first() {
        Some(b'+' | b'-' | b'.' | b'0'..=b'9') => plain_number(trimmed)
            .or_else(|| date::canonical(trimmed).map(|date| Cell::Text(date.into()))),
        Some(b'{' | b'[') => nested::of_text(trimmed, case).map(|json| Cell::Json(json.into())),
        Some(b'N') if trimmed == "NaN" => Some(Cell::Null),
        // Spreadsheets write TRUE, Python True, and text drivers true.
        Some(b't' | b'T') if trimmed.eq_ignore_ascii_case("true") => Some(Cell::Int(1)),
        Some(b'f' | b'F') if trimmed.eq_ignore_ascii_case("false") => Some(Cell::Int(0)),
        Some(_) | None => None,
    };
    read.unwrap_or_else(|| Cell::Text(case.apply(trimmed)))
}

impl Case {
    pub(super) fn apply(self, text: &str) -> Box<str> {
        match self {
            Self::Heeded => text.into(),
            Self::Ignored if text.is_ascii() => {
                let mut copy: Box<str> = text.into();
                copy.make_ascii_lowercase();
                copy
            }
            Self::Ignored => text.to_lowercase().into(),
        }
    }
}

fn plain_number(text: &str) -> Option<Cell> {
    let value = number_in_text(text)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_whole = whole.ends_with(|c: char| c.is_ascii_digit())
        && !whole.contains(['e', 'E'])
        && fraction.bytes().all(|digit| digit == b'0');
    let digits = whole.strip_prefix('+').unwrap_or(whole);
    Some(match digits.parse() {
        Ok(integer) if is_whole => Cell::Int(integer),
        Err(_) if is_whole => Cell::Big(digits.into()),
        Ok(_) | Err(_) => float(value),
    })
}

/// Returns the finite number in a text that contains nothing else: a sign, digits, a dot between or next to them, an exponent (`-5`, `+.5`,
/// `1e3`). Text with a leading zero (`007`) is an identifier.
#[must_use]
pub fn number_in_text(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let after_zero = unsigned.strip_prefix('0').unwrap_or_default();
    let is_id = after_zero.starts_with(|c: char| c.is_ascii_digit()) || text.len() > MAX_BYTES;
    let value = text.parse::<f64>().ok()?;
    (!is_id && value.is_finite()).then_some(value)
}
