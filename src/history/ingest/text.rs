//! The text of a session file as JSON that a parser accepts: decoded, and without what some tools write and JSON doesn't know.

use std::borrow::Cow;

/// Returns the JSON of a file; the error names the fault and the remedy.
pub(super) fn json_text(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Err("is a ZIP archive; unpack it, or convert a log of Inspect: inspect log convert LOG --to json --output-dir DIR".to_owned());
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("is UTF-16; save it as UTF-8".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 at line {line}; save it as UTF-8")
    })?;
    Ok(readable(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

/// Returns JSON with null for each NaN, Infinity and number out of range, and U+FFFD for each half of a surrogate pair.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let mut fixed = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut is_string = false;
    while let Some(byte) = text.as_bytes().get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let (length, instead) = match (is_string, byte) {
            (true, b'\\') => escape(rest),
            (_, b'"') => {
                is_string = !is_string;
                (1, None)
            }
            (false, b'N' | b'I' | b'-' | b'+' | b'0'..=b'9') => number(rest),
            _ => (1, None),
        };
        if let Some(instead) = instead {
            fixed.push_str(text.get(copied..at).unwrap_or_default());
            fixed.push_str(instead);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    fixed.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(fixed)
}

/// The length of an escape in a string, and the text that replaces it.
fn escape(rest: &str) -> (usize, Option<&'static str>) {
    let unit = |at: usize| {
        let escape = rest.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, None),
        (Some(0xd800..=0xdfff), _) => (6, Some("\\ufffd")),
        (Some(_), _) => (6, None),
        (None, _) => (2, None),
    }
}

/// The length of a number, and the text that replaces one that JSON doesn't know.
fn number(rest: &str) -> (usize, Option<&'static str>) {
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    let token = rest.get(..length.unwrap_or(rest.len())).unwrap_or(rest);
    let unknown = match token.trim_start_matches(['-', '+']) {
        "NaN" | "Infinity" => true,
        number if number.starts_with(|c: char| c.is_ascii_digit()) => {
            number.parse::<f64>().is_ok_and(f64::is_infinite)
        }
        _ => false,
    };
    (token.len().max(1), unknown.then_some("null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_and_half_surrogates_are_replaced() {
        for (text, fixed) in [
            (
                r#"{"a":NaN,"b":[-Infinity, Infinity]}"#,
                r#"{"a":null,"b":[null, null]}"#,
            ),
            (
                r#"{"a":1e999,"b":-1E+400,"c":1e3,"d":-2.5}"#,
                r#"{"a":null,"b":null,"c":1e3,"d":-2.5}"#,
            ),
            (
                r#"["NaN \" Infinity","\\","\ud83d\ude00"]"#,
                r#"["NaN \" Infinity","\\","\ud83d\ude00"]"#,
            ),
            (
                r#"["\ud83d\u2026","\ude00é","\\ud83d"]"#,
                r#"["\ufffd\u2026","\ufffdé","\\ud83d"]"#,
            ),
            (r#"["\ud83d"#, r#"["\ufffd"#),
            ("[\"\\", "[\"\\"),
        ] {
            assert_eq!(readable(text), fixed, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_refused_with_line_and_remedy() {
        for (bytes, message) in [
            (&b"PK\x03\x04.."[..], "inspect log convert"),
            (&b"\xff\xfe{\0"[..], "is UTF-16; save it as UTF-8"),
            (&b"{}\n{\"a\":\"\xe9\"}"[..], "is not UTF-8 at line 2"),
        ] {
            assert!(json_text(bytes).unwrap_err().contains(message));
        }
        assert_eq!(json_text("\u{feff}{}".as_bytes()).unwrap(), "{}");
    }
}
