//! One cell as it is compared: what counts as the same value has the same [`Cell`], but for numbers that are nearly equal.

use serde_json::{Number, Value};

use super::Case;
use super::date;
use super::nested::{self, TooDeep};

/// From here on, a float can't tell neighbouring integers apart.
const EXACT_FLOATS: f64 = 9_007_199_254_740_992.0;
/// Longer runs of digits are names rather than numbers, and no float holds them.
const MAX_DIGITS: usize = 300;

/// A cell, normalised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    /// `null`, a missing key, or not a number.
    Null,
    /// An integer; `true` is 1, `false` is 0, and so is a float without a fraction below 2^53.
    Int(i64),
    /// An integer beyond 64 signed bits: its digits, with `-` where it is negative.
    Big(Box<str>),
    /// Any other number.
    Float(Finite),
    /// Text, trimmed, and lower-cased where case is ignored; a date in its one spelling.
    Text(Box<str>),
    /// An array or an object, as canonical JSON.
    Json(Box<str>),
}

impl Cell {
    /// Reads a JSON value. An integer beyond 64 bits that isn't text has been made a float by the JSON reader: it is
    /// compared with the tolerance of floats. Given as text, it is exact.
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

    /// The number nearest to the cell's, if it is one.
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

    /// Whether it is a number that is compared with a tolerance even to its like.
    pub(super) fn is_float(&self) -> bool {
        matches!(self, Self::Float(_))
    }
}

/// A float that is neither infinite nor NaN, by its bits: zero is always an integer, so equal floats have equal bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Finite(u64);

impl Finite {
    /// The float.
    pub(super) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Reads a JSON number.
pub(super) fn number(read: &Number) -> Cell {
    if let Some(whole) = read.as_i64() {
        return Cell::Int(whole);
    }
    if let Some(whole) = read.as_u64() {
        return Cell::Big(whole.to_string().into());
    }
    read.as_f64().map_or(Cell::Null, float)
}

/// A float without a fraction is an integer as long as floats tell integers apart: a column of ids with a NULL in it comes
/// as floats, and 10000001.0 isn't 10000002.0. Beyond, it is a sum or a measurement that happens to have no fraction left.
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

/// Reads a string: a plain number, a boolean, an ISO date, an array or object as JSON text, or text. JSON has no NaN; tools write it
/// as this very word.
fn text(raw: &str, case: Case) -> Cell {
    let trimmed = raw.trim();
    let read = match trimmed.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => plain_number(trimmed)
            .or_else(|| date::canonical(trimmed).map(|date| Cell::Text(date.into()))),
        Some(b'{' | b'[') => nested::of_text(trimmed, case).map(|json| Cell::Json(json.into())),
        Some(b'N') if trimmed == "NaN" => Some(Cell::Null),
        // Spreadsheets write TRUE, Python True, and drivers that give text true.
        Some(b't' | b'T') if trimmed.eq_ignore_ascii_case("true") => Some(Cell::Int(1)),
        Some(b'f' | b'F') if trimmed.eq_ignore_ascii_case("false") => Some(Cell::Int(0)),
        Some(_) | None => None,
    };
    read.unwrap_or_else(|| Cell::Text(case.apply(trimmed)))
}

impl Case {
    /// A text in the case by which it is compared.
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

/// The number that a text spells by JSON's grammar: no leading zeros, no `+`, digits on both sides of the point. An
/// exponent needs a sign or a fraction before it (`1e-07`, `1.0E7`), so that an id such as `7e12` stays text.
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

/// Digits without leading zeros, perhaps with a `-`.
fn integer(digits: &str) -> Cell {
    digits
        .parse()
        .map_or_else(|_| Cell::Big(digits.into()), Cell::Int)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
