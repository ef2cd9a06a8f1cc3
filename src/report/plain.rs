//! Text from outside in reports: cells of a table, XML, Markdown.
//!
//! CSV and XLSX contain the same text, so that one can be converted to the other.
//! - A text that would be read as a formula (it starts with `=`, `+`, `-`, `@`, a tab or a line end, and isn't a number) gets a leading
//!   apostrophe. The same applies to text after a semicolon or a line end, which programs with semicolon-separated cells read as a new
//!   cell.
//! - A text is cut at 32,767 UTF-16 units, Excel's limit, with a mark of the number of missing characters.
//! - Line ends are line feeds, and characters that XML can't represent are U+FFFD.

use std::fmt::Write as _;

use serde_json::Value;

use super::columns::ColumnType;
pub(super) use crate::wire::words::clip as cut;

/// Maximum UTF-16 units of an Excel cell.
const CELL: usize = 32_767;
/// Space for the mark of a cut text.
const MARK: usize = 80;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plain {
    Text(String),
    Number(f64),
    Flag(bool),
}

impl Plain {
    /// Converts a cell. Numbers are rounded to six decimals, the precision shown by spreadsheets, except in a column of texts, such as ids.
    pub(super) fn new(cell: &Value, holds: ColumnType) -> Self {
        match cell {
            Value::Null => Self::Text(String::new()),
            Value::String(text) => Self::Text(cell_text(text)),
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) if holds != ColumnType::Text => {
                let value = number.as_f64().unwrap_or_default();
                let is_whole = !number.is_f64();
                Self::Number(if is_whole {
                    value
                } else {
                    (value * 1e6).round() / 1e6
                })
            }
            Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Self::Text(cell_text(&cell.to_string()))
            }
        }
    }

    pub(super) fn csv(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
            Self::Flag(true) => "TRUE".to_owned(),
            Self::Flag(false) => "FALSE".to_owned(),
        }
    }
}

pub(super) fn cell_text(text: &str) -> String {
    let clean = xml_lines(text);
    let mut guarded = String::with_capacity(clean.len() + 1);
    for (n, piece) in clean.split_inclusive([';', '\n']).enumerate() {
        // Programs with semicolon-separated cells drop quotes and the text before them.
        let cell = match n {
            0 => piece,
            _ => piece.trim_matches([' ', '"', ';', '\n']),
        };
        if is_formula(cell) {
            guarded.push('\'');
        }
        guarded.push_str(piece);
    }
    cut_utf16(guarded)
}

/// Returns whether a spreadsheet might evaluate the text.
fn is_formula(text: &str) -> bool {
    let begins = text.starts_with(['=', '+', '-', '@', '\t', '\n', '＝', '＋', '－', '＠']);
    let is_number = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
        && text.parse::<f64>().is_ok();
    begins && !is_number
}

fn cut_utf16(mut text: String) -> String {
    // The number of UTF-16 units is at most the number of bytes.
    if text.len() <= CELL {
        return text;
    }
    let (mut units, mut end, mut after) = (0, text.len(), 0);
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units <= CELL - MARK {
            end = at + c.len_utf8();
        } else {
            after += 1;
        }
    }
    if units > CELL {
        text.truncate(end);
        let _ = write!(text, "… [{after} characters more: report.json has them]"); // writing to a string doesn't fail
    }
    text
}

/// Replaces line ends by line feeds, and characters that XML 1.0 can't represent by U+FFFD.
pub(super) fn xml_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let shown = text.chars().map(|c| match c {
        '\r' | '\n' => '\n',
        '\t' => '\t',
        '\0'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c => c,
    });
    shown.collect()
}

/// Escapes a text for a line or table cell of Markdown, so that it contains no Markdown or HTML.
pub(super) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '!' | '~' | '&' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Returns a text as a fenced Markdown block, cut at `longest` characters. The fence has more backticks than the text.
pub(super) fn markdown_block(text: &str, longest: usize) -> String {
    let clean = xml_lines(text);
    let shown = cut(&clean, longest);
    let mut fence = 3;
    let mut run = 0;
    for c in shown.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        fence = fence.max(run + 1);
    }
    let fence = "`".repeat(fence);
    format!("{fence}text\n{}\n{fence}\n", shown.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &str) -> String {
        Plain::new(&text.into(), ColumnType::Text).csv()
    }

    #[test]
    fn formulas_become_text_and_numbers_are_unchanged() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-- a comment\nselect 1", "'-- a comment\nselect 1"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("\tx", "'\tx"),
            ("\rx", "'\nx"),
            ("＝1", "'＝1"),
            ("-inf", "'-inf"),
            ("-5", "-5"),
            ("+1.5e3", "+1.5e3"),
            ("007", "007"),
            ("", ""),
            ("a=b", "a=b"),
            ("a;=1+1;b", "a;'=1+1;b"),
            ("x; \"@SUM(A1)", "x;' \"@SUM(A1)"),
            ("a;-2;\n\n-x\n+1", "a;-2;\n\n'-x\n+1"),
            ("select 1; select a-b;", "select 1; select a-b;"),
        ] {
            assert_eq!(plain(text), cell, "{text:?}");
        }
    }

    #[test]
    fn long_cell_is_cut_with_count() {
        let fits = "x".repeat(CELL);
        assert_eq!(plain(&fits), fits);
        let cut = plain(&"x".repeat(CELL + 1));
        assert!(
            cut.ends_with("xxx… [81 characters more: report.json has them]"),
            "{}",
            &cut[cut.len() - 80..]
        );
        for wide in ["ä", "😀", "\u{1}"] {
            let cut = plain(&wide.repeat(40_000));
            let units = cut.encode_utf16().count();
            assert!((CELL - MARK..=CELL).contains(&units), "{wide}: {units}");
        }
    }

    #[test]
    fn numbers_have_six_decimals() {
        for (number, cell) in [(0.123_456_789, "0.123457"), (1.0, "1"), (0.1 + 0.2, "0.3")] {
            assert_eq!(Plain::new(&number.into(), ColumnType::Number).csv(), cell);
        }
        assert_eq!(Plain::new(&true.into(), ColumnType::Flag).csv(), "TRUE");
        let id = Plain::new(&0.123_456_789.into(), ColumnType::Text);
        assert_eq!(id, Plain::Text("0.123456789".to_owned()));
    }

    #[test]
    fn escapes_markdown_and_replaces_invalid_xml_characters() {
        assert_eq!(
            markdown("a|b\n<img> ![x](y) `z`"),
            "a\\|b \\<img\\> \\!\\[x\\](y) \\`z\\`"
        );
        assert_eq!(
            xml_lines("\"<a>&\r\n\t\u{0}\u{1b}[31m"),
            "\"<a>&\n\t\u{fffd}\u{fffd}[31m"
        );
        assert_eq!(
            markdown_block("a ```` b", 100),
            "`````text\na ```` b\n`````\n"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_cells_are_safe_and_bounded(text in "[\\x00-\\x7f＝＋－＠😀]{0,60}", times in 1_usize..2000) {
            let cell = plain(&text.repeat(times));
            prop_assert!(cell.encode_utf16().count() <= CELL);
            let is_number = cell.parse::<f64>().is_ok();
            prop_assert!(is_number || !cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']));
            prop_assert!(!cell.contains(['\r', '\0']));
        }
    }
}
