//! Text from outside as reports may hold it: in the cells of a table, in XML, in Markdown.
//!
//! CSV and XLSX hold the same text, so that one converted to the other stays the same. A cell's text
//! - that would be read as a formula (it begins with `=`, `+`, `-`, `@`, a tab or a line end, and is no number) gets an apostrophe in front,
//!   and so does what a sheet that parts by semicolons would take for a cell of its own: what follows one, or a line end;
//! - is cut at 32,767 UTF-16 units, which is all that Excel takes, with a mark that says how much is missing;
//! - has line feeds as line ends, and U+FFFD for every character that XML can't hold.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::columns::Cell;
pub(super) use crate::wire::words::clip as cut;

/// The most that a cell of Excel holds, UTF-16 units.
const CELL: usize = 32_767;
/// Room for the mark of a cut.
const MARK: usize = 80;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plain {
    Text(String),
    Number(f64),
    Flag(bool),
}

impl Plain {
    /// What a table holds of a cell; numbers to six digits after the point, which is more than scores mean and no more than sheets show.
    pub(super) fn from_cell(cell: &Cell<'_>) -> Self {
        match cell {
            Cell::Empty => Self::Text(String::new()),
            Cell::Text(text) => Self::Text(cell_text(text)),
            Cell::Json(value) => Self::Text(cell_text(&value.to_string())),
            Cell::Number(number) => Self::Number((number * 1e6).round() / 1e6),
            Cell::Count(count) => Self::Number(*count as f64),
            Cell::Flag(flag) => Self::Flag(*flag),
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

fn cell_text(text: &str) -> String {
    let clean = xml_lines(text);
    let mut guarded = String::with_capacity(clean.len() + 1);
    for (n, piece) in clean.split_inclusive([';', '\n']).enumerate() {
        // Such a sheet drops a cell's quotes, and what stands before them.
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

/// Whether a spreadsheet might compute the text instead of showing it.
fn is_formula(text: &str) -> bool {
    let begins = text.starts_with(['=', '+', '-', '@', '\t', '\n', '＝', '＋', '－', '＠']);
    let is_number = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
        && text.parse::<f64>().is_ok();
    begins && !is_number
}

fn cut_utf16(mut text: String) -> String {
    // A text of so few bytes has no more units.
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
        let _ = write!(text, "… [{after} characters more: report.json has them]"); // a string takes all
    }
    text
}

fn lines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// U+FFFD for every character that XML 1.0 can't hold.
fn xml_chars(text: &str) -> Cow<'_, str> {
    let is_held = |c: char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control() || c > '\u{7f}',
    };
    if text.chars().all(is_held) {
        Cow::Borrowed(text)
    } else {
        let held = |c| if is_held(c) { c } else { '\u{fffd}' };
        Cow::Owned(text.chars().map(held).collect())
    }
}

/// What XML can hold of a text, before it is escaped.
pub(super) fn xml_lines(text: &str) -> Cow<'_, str> {
    match xml_chars(text) {
        Cow::Borrowed(text) => lines(text),
        Cow::Owned(text) => Cow::Owned(lines(&text).into_owned()),
    }
}

/// Text within a line of Markdown, or a cell of its tables: nothing in it is read as Markdown or HTML.
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

/// Text of many lines as a block of Markdown, fenced by more backticks than stand in it; cut at so many characters.
pub(super) fn markdown_block(text: &str, longest: usize) -> String {
    let clean = lines(&xml_chars(text)).into_owned();
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
        Plain::from_cell(&Cell::text(Some(text))).csv()
    }

    #[test]
    fn a_formula_is_text_and_a_number_stays_one() {
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
    fn a_cell_is_cut_where_excel_ends_with_a_mark_that_counts() {
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
    fn numbers_have_six_digits_after_the_point() {
        for (number, cell) in [(0.123_456_789, "0.123457"), (1.0, "1"), (0.1 + 0.2, "0.3")] {
            assert_eq!(Plain::from_cell(&Cell::Number(number)).csv(), cell);
        }
        assert_eq!(Plain::from_cell(&Cell::Flag(true)).csv(), "TRUE");
    }

    #[test]
    fn what_markdown_would_read_is_escaped_and_what_xml_cannot_hold_is_marked() {
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
        fn no_cell_computes_or_is_too_long_whatever_stands_in_it(text in "[\\x00-\\x7f＝＋－＠😀]{0,60}", times in 1_usize..2000) {
            let cell = plain(&text.repeat(times));
            prop_assert!(cell.encode_utf16().count() <= CELL);
            let is_number = cell.parse::<f64>().is_ok();
            prop_assert!(is_number || !cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']));
            prop_assert!(!cell.contains(['\r', '\0']));
        }
    }
}
