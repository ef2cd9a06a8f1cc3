//! A normalized cell. Equal values have equal [`Cell`]s, except for nearly equal numbers.

use serde_json::{Number, Value};

use super::Case;
use super::date;
use super::nested::{self, TooDeep};

/// From here on, neighbouring integers can have the same float.
const EXACT_FLOATS: f64 = 9_007_199_254_740_992.0;
/// Longer runs of digits are identifiers, and exceed the range of floats.
const MAX_DIGITS: usize = 300;

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
    if !value.is_finite() {
        Cell::Null
    } else if value.fract() == 0.0 && value.abs() < EXACT_FLOATS {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below 2^53 and without a fraction"
        )]
        Cell::Int(value as i64)
    } else {
        Cell::Float(Finite(value.to_bits()))
    }
}

/// Parses a string: a plain number, a boolean, an ISO date, an array or object as JSON text, or text. Tools write NaN as text, because JSON
/// has none.
fn text(raw: &str, case: Case) -> Cell {
    let trimmed = raw.trim();
    let read = match trimmed.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => plain_number(trimmed)
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

/// Parses a number by JSON's grammar: no leading zeros, no `+`, digits on both sides of the dot. An exponent needs a sign or a fraction
/// before it (`1e-07`, `1.0E7`), so that ids such as `7e12` remain text.
fn plain_number(text: &str) -> Option<Cell> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let well_formed = is_digits(whole)
        && whole.len() <= MAX_DIGITS
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits);
    if !well_formed {
        return None;
    }
    if let Some(exponent) = exponent {
        let unsigned = exponent.strip_prefix(['+', '-']);
        let sure = unsigned.is_some() || fraction.is_some();
        if !sure || !is_digits(unsigned.unwrap_or(exponent)) {
            return None;
        }
    } else if fraction.is_none_or(|digits| digits.bytes().all(|b| b == b'0')) {
        return Some(integer(&text[..text.len() - unsigned.len() + whole.len()]));
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then(|| float(value))
}

fn integer(digits: &str) -> Cell {
    digits
        .parse()
        .map_or_else(|_| Cell::Big(digits.into()), Cell::Int)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
