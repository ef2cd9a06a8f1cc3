//! Arrays and objects inside a cell, as canonical JSON. Strings inside them aren't parsed.

use serde_json::{Map, Value};

use super::Case;
use super::cell::{Cell, number};
use super::json::parse_json;

/// Maximum nesting, equal to that of the JSON reader.
pub(super) const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooDeep;

/// Parses an array or object and returns its canonical JSON. `None` for other text, or for duplicate fields in an object.
pub(super) fn of_text(text: &str, case: Case) -> Option<String> {
    let value = parse_json(text.as_bytes()).ok()?;
    (value.is_array() || value.is_object())
        .then(|| canonical(&value, case).ok())
        .flatten()
}

/// Returns canonical JSON: sorted keys, no white space, normalized numbers (`1.0` is `1`, fractions have 12 digits). Keys and strings are
/// trimmed and lower-cased like text in cells. Strings aren't converted: `"1"` in an array isn't `1`.
pub(super) fn canonical(value: &Value, case: Case) -> Result<String, TooDeep> {
    let mut text = String::new();
    write(value, case, MAX_DEPTH, &mut text)?;
    Ok(text)
}

fn write(value: &Value, case: Case, depth: usize, text: &mut String) -> Result<(), TooDeep> {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(read) => match number(read) {
            Cell::Int(whole) => text.push_str(&whole.to_string()),
            Cell::Big(digits) => text.push_str(&digits),
            // The JSON reader may be off by the last bit, and here numbers are compared as text.
            Cell::Float(float) => text.push_str(&format!("{:.11e}", float.get())),
            Cell::Null | Cell::Text(_) | Cell::Json(_) => text.push_str(&read.to_string()),
        },
        Value::String(string) => push_string(string, case, text),
        Value::Array(items) => {
            let depth = depth.checked_sub(1).ok_or(TooDeep)?;
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, case, depth, text)?;
            }
            text.push(']');
        }
        Value::Object(members) => {
            let depth = depth.checked_sub(1).ok_or(TooDeep)?;
            write_object(members, case, depth, text)?;
        }
    }
    Ok(())
}

/// Keys that differ only in case are all included, ordered by their values.
fn write_object(
    members: &Map<String, Value>,
    case: Case,
    depth: usize,
    text: &mut String,
) -> Result<(), TooDeep> {
    let mut written = Vec::with_capacity(members.len());
    for (key, value) in members {
        let mut member = String::new();
        push_string(key, case, &mut member);
        member.push(':');
        write(value, case, depth, &mut member)?;
        written.push(member);
    }
    written.sort_unstable();
    text.push('{');
    text.push_str(&written.join(","));
    text.push('}');
    Ok(())
}

fn push_string(string: &str, case: Case, text: &mut String) {
    text.push_str(&Value::String(case.apply(string.trim()).into()).to_string());
}
