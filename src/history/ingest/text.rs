//! The text of a session file: decoded, and as JSON that a parser accepts.

use std::borrow::Cow;

use crate::score::readable_json;

/// Returns the JSON of a file; the error names the fault and the remedy.
pub(super) fn json_text(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Err("is a ZIP archive; unpack it, or convert a log of Inspect: inspect log convert LOG --to json --output-dir DIR".to_owned());
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err("is compressed with gzip; unpack it".to_owned());
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("is UTF-16; save it as UTF-8".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 at line {line}; save it as UTF-8")
    })?;
    Ok(readable_json(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
