//! What kind of answer a question asks for, and an answer brought into that form. Never decides what a form is worth.

use std::borrow::Cow;

use serde_json::Value;

use super::table::{self, AnswerTable};
use crate::parse_python;
use row_match::{JsonError, number_in_text, parse_json};

/// How many lists and objects of one element are opened around a single value.
const WRAPPINGS: usize = 8;

const CURRENCIES: &str = "$€£¥₹₽₩₺₿¢₫₪₴₦₱฿";
/// Marks of prose that don't change a number next to them.
const MARKS: &str = ".,:;!?%°='\"’‘“”()*`—…";
/// Words that change the number `#`, or are numbers themselves, in lower case. `t` is the end of `isn't`.
const CHANGES: &str = "t|not|no|never|none|nothing|without|except|than|or|plus|minus|negative|less|fewer|at least|at most|up to|down to|\
    about #|above #|almost #|approx #|approximately #|around #|below #|beyond #|ca #|circa #|close to #|down #|exceeding #|exceeds #|\
    maximum of #|minimum of #|near #|nearly #|over #|roughly #|short of #|some #|under #|within #|\
    # below|# e|# cr|# dr|# k|# m|# mn|# b|# bn|# tn|# x|# gross|mio|mrd|tsd|\
    half|twice|double|triple|quarter of|third of|a quarter|a third|dozen|dozens|hundred|hundreds|thousand|thousands|million|millions|\
    billion|billions|trillion|trillions|lakh|lakhs|crore|crores|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\
    twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety";

/// `expected_answer_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerType {
    Number,
    Kpi,
    Table,
    List,
    Schedule,
    Boolean,
    Text,
    Analysis,
    Plan,
    /// Steps that make something better, in prose or as an object.
    OptimizationPlan,
}

impl AnswerType {
    /// Every type by its name in a payload.
    pub const NAMES: [(&'static str, Self); 10] = [
        ("number", Self::Number),
        ("kpi", Self::Kpi),
        ("table", Self::Table),
        ("list", Self::List),
        ("schedule", Self::Schedule),
        ("boolean", Self::Boolean),
        ("text", Self::Text),
        ("analysis", Self::Analysis),
        ("plan", Self::Plan),
        ("optimization_plan", Self::OptimizationPlan),
    ];

    pub(super) fn comparison(self) -> ComparisonForm {
        match self {
            Self::Number | Self::Kpi => ComparisonForm::Numbers,
            Self::Table | Self::List | Self::Schedule => ComparisonForm::Tables,
            Self::Boolean => ComparisonForm::Booleans,
            Self::Text | Self::Analysis | Self::Plan | Self::OptimizationPlan => {
                ComparisonForm::Texts
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonForm {
    Numbers,
    Tables,
    Booleans,
    Texts,
}

/// What bringing an answer into its form cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    None,
    Some,
}

/// What a text, or the one text in a tool's result of MCP, holds, with or without a code fence around it: a list or an object as JSON or as Python prints it, or a table in Markdown;
/// anything else as it is.
///
/// # Errors
/// JSON with a field twice in one object.
pub(super) fn opened(value: &Value) -> Result<Cow<'_, Value>, JsonError> {
    let read = opened_text(value)?;
    match text_of_mcp(&read) {
        Some(text) => Ok(Cow::Owned(opened(text)?.into_owned())),
        None => Ok(read),
    }
}

fn opened_text(value: &Value) -> Result<Cow<'_, Value>, JsonError> {
    let Value::String(text) = value else {
        return Ok(Cow::Borrowed(value));
    };
    let fenced = unfenced(text);
    let text = fenced.unwrap_or(text);
    if text.trim_start().starts_with(['[', '{']) {
        match parse_json(text.as_bytes()) {
            Ok(read) => return Ok(Cow::Owned(read)),
            Err(error @ JsonError::RepeatedField { .. }) => return Err(error),
            Err(JsonError::Syntax(_)) => {}
        }
    }
    let read = parse_python(text).or_else(|| table::of_markdown(text));
    let read = read.or_else(|| fenced.map(Value::from));
    Ok(read.map_or(Cow::Borrowed(value), Cow::Owned))
}

/// The text of `{content: [{type: "text", text}]}`, unless it is an error.
fn text_of_mcp(result: &Value) -> Option<&Value> {
    let parts = result.get("content")?.as_array()?;
    let text = parts.first()?.get("text").filter(|text| text.is_string())?;
    let is_answer = parts.len() == 1 && parts[0]["type"] == "text" && result["isError"] != true;
    is_answer.then_some(text)
}

/// The text within a code fence, which models put around what they answer. `None` unless the fence is all there is.
pub fn unfenced(text: &str) -> Option<&str> {
    let text = text.trim();
    let inside = |fence| text.strip_prefix(fence)?.strip_suffix(fence);
    let block = inside("```").or_else(|| inside("~~~"))?;
    let is_language =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '+' | '.');
    let body = match block.split_once('\n') {
        Some((line, body)) if line.trim_end().chars().all(is_language) => body,
        Some(_) | None => block,
    };
    (!body.contains("```") && !body.contains("~~~")).then_some(body.trim())
}

/// The one value within lists of one element, tables of one cell and objects of one member; the value itself if there is none.
pub(super) fn single(value: &Value) -> Cow<'_, Value> {
    let mut value = Cow::Borrowed(value);
    for _ in 0..WRAPPINGS {
        let table = value.as_object().and_then(AnswerTable::of_object);
        let inner = match (table, value.as_array(), value.as_object()) {
            (Some(table), _, _) => <[Value; 1]>::try_from(table.rows).ok().map(|[row]| row),
            (None, Some(entries), _) if entries.len() == 1 => entries.first().cloned(),
            (None, _, Some(members)) if members.len() == 1 => members.values().next().cloned(),
            (None, _, _) => None,
        };
        match inner {
            Some(inner) => value = Cow::Owned(inner),
            None => break,
        }
    }
    value
}

pub(super) fn number(value: &Value) -> Option<(f64, Loss)> {
    let value = single(value);
    match value.as_str() {
        Some(text) => number_of(text),
        None => value.as_f64().map(|number| (number, Loss::None)),
    }
}

fn number_of(text: &str) -> Option<(f64, Loss)> {
    let text = text.trim();
    let whole = match text.parse::<f64>() {
        // As `parse_json` reads the numbers that JSON doesn't support.
        Ok(number) if !number.is_finite() => Some(number),
        Ok(_) | Err(_) => plain_number(text),
    };
    whole
        .map(|number| (number, Loss::None))
        .or_else(|| number_within(text).map(|number| (number, Loss::Some)))
}

/// Parses a number, which may have its thousands set apart: `1,234,567.8`.
fn plain_number(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches(['-', '+']).split(',');
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next()?;
    let is_grouped = (1..=3).contains(&first.len())
        && is_digits(first)
        && is_digits(fraction)
        && groups.all(|group| group.len() == 3 && is_digits(group));
    match text.contains(',') {
        true => is_grouped.then(|| number_in_text(&text.replace(',', "")))?,
        false => number_in_text(text),
    }
}

/// Returns the only number in a text, with a currency, a percent sign and words next to it. In parentheses it is negative, as in accounting.
/// `None` if another sign or one of [`CHANGES`] may change it.
fn number_within(text: &str) -> Option<f64> {
    let start = text.find(char::is_numeric)?;
    let (before, _) = text.split_at(start);
    let (before, rest) = text.split_at(before.strip_suffix('.').unwrap_or(before).len());
    let end = rest.find(|c: char| !c.is_numeric() && c != '.' && c != ',');
    let digits = rest.split_at(end.unwrap_or(rest.len())).0;
    let digits = digits.trim_end_matches(['.', ',']);
    let (number, after) = (plain_number(digits)?, rest.split_at(digits.len()).1);
    let signed = without_currency(before);
    let negative = signed.strip_suffix(['-', '−']);
    let unsigned = negative.or(signed.strip_suffix('+')).unwrap_or(signed);
    let before = without_currency(unsigned);
    let is_around = |c: char| c.is_whitespace() || c == '%' || CURRENCIES.contains(c);
    if before.trim_matches(is_around) == "(" && after.trim_matches(is_around) == ")" {
        return (unsigned == signed).then_some(-number);
    }
    let is_attached = before.ends_with(|c: char| c.is_alphanumeric() || "_.,(".contains(c));
    let words = format!("{before} # {after}").to_lowercase();
    let words = words.split(|c: char| !c.is_alphabetic() && !"#²³".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let words = format!(" {} ", words.join(" "));
    let mut changes = CHANGES.split('|');
    let is_changed = changes.any(|change| words.contains(&format!(" {change} ")));
    let is_plain = !is_attached && !is_changed && is_prose(before) && is_prose(after);
    is_plain.then_some(if negative.is_some() { -number } else { number })
}

/// Strips a currency's sign, with the letters before it (`US$`).
fn without_currency(text: &str) -> &str {
    let bare = text.trim_end_matches(|c| CURRENCIES.contains(c));
    match bare == text {
        true => text,
        false => bare.trim_end_matches(|c: char| c.is_ascii_uppercase()),
    }
}

/// Returns whether a text has only words and the marks of prose. Words in other scripts may be numbers, and [`CHANGES`] has none of them.
fn is_prose(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let is_latin = |c: &char| c.is_alphabetic() && *c < '\u{250}';
    (0..chars.len()).all(|at| {
        let after_letter = at > 0 && is_latin(&chars[at - 1]);
        match &chars[at] {
            '-' | '/' | '&' | '_' => after_letter && chars.get(at + 1).is_some_and(is_latin),
            // m²
            '²' | '³' => after_letter,
            c => is_latin(c) || c.is_whitespace() || CURRENCIES.contains(*c) || MARKS.contains(*c),
        }
    })
}

pub(super) fn boolean(value: &Value) -> Option<bool> {
    match &*single(value) {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            Some(_) | None => None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            // psql and its drivers write t and f.
            "true" | "yes" | "1" | "t" => Some(true),
            "false" | "no" | "0" | "f" => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn text(value: &Value) -> String {
    match single(value).as_str() {
        Some(text) => text.trim().to_owned(),
        None => format!("{value:#}"),
    }
}

pub(super) fn is_same(expected: &Value, actual: &Value) -> bool {
    expected == actual || text(expected) == text(actual)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_found_in_what_is_wrapped_around_it() {
        let whole = |number| Some((number, Loss::None));
        let lossy = |number| Some((number, Loss::Some));
        let cases = [
            (json!(42), whole(42.0)),
            (json!("42.5"), whole(42.5)),
            (json!(" 1,234,567.8 "), whole(1_234_567.8)),
            (json!([7]), whole(7.0)),
            (json!([{ "count": 7 }]), whole(7.0)),
            (json!([[7]]), whole(7.0)),
            (
                json!({ "columns": ["n"], "rows": [["7"]], "row_count": 1 }),
                whole(7.0),
            ),
            (
                json!({ "columns": ["n"], "index": [0], "data": [[7]] }),
                whole(7.0),
            ),
            (json!("[(Decimal('7.5'),)]"), whole(7.5)),
            (json!("| n |\n|---|\n| 7 |"), whole(7.0)),
            (json!("[{\"n\": 7}]"), whole(7.0)),
            (json!("```json\n[{\"n\": 7}]\n```"), whole(7.0)),
            (json!("```\n7\n```"), whole(7.0)),
            (json!("~~~text\r\n7.5 %\r\n~~~"), lossy(7.5)),
            (json!("1e3"), whole(1000.0)),
            (json!("There are 42 orders."), lossy(42.0)),
            // Never a hundredth of it.
            (json!("45%"), lossy(45.0)),
            (json!("12.5 %"), lossy(12.5)),
            (json!([{ "rate": "-12.5 %" }]), lossy(-12.5)),
            (json!("$-1,200.50"), lossy(-1200.5)),
            (json!("-$12.00"), lossy(-12.0)),
            (json!("-€12"), lossy(-12.0)),
            (json!("-US$1,200"), lossy(-1200.0)),
            (json!("€ -12"), lossy(-12.0)),
            (json!("+12 %"), lossy(12.0)),
            (json!("Total: −12 EUR."), lossy(-12.0)),
            (json!("$.50"), lossy(0.5)),
            (json!("(12)"), lossy(-12.0)),
            (json!("($1,200.50)"), lossy(-1200.5)),
            (json!("**42** orders (year-over-year)"), lossy(42.0)),
            (json!("42 m²"), lossy(42.0)),
            (json!(".5"), whole(0.5)),
            (json!("+5"), whole(5.0)),
            (json!("Infinity"), whole(f64::INFINITY)),
            (json!("minus 5"), None),
            (json!("- 5"), None),
            (json!("5-"), None),
            (json!("(-5)"), None),
            (json!("orders (5)"), None),
            (json!("T-12"), None),
            (json!("<12"), None),
            (json!("≥ 12"), None),
            (json!("~12"), None),
            (json!("±12"), None),
            (json!("12+"), None),
            (json!("2^"), None),
            (json!("10²"), None),
            (json!("2½"), None),
            (json!("2 dozen"), None),
            (json!("half of 12"), None),
            (json!("3 T€"), None),
            (json!("3x"), None),
            (json!("5万"), None),
            (json!("12 тысяч"), None),
            (json!("At most 12."), None),
            (json!("12 or more"), None),
            (json!("fewer than 12 orders"), None),
            (json!("There aren't 12 orders"), None),
            (json!("one of 12"), None),
            (json!("007"), None),
            (json!("1e3,000"), None),
            (json!("between 3 and 5"), None),
            (json!("1.2 million"), None),
            (json!("3k"), None),
            (json!("Q3"), None),
            (json!("1,23"), None),
            (json!("none"), None),
            (json!(true), None),
            (json!([1, 2]), None),
            (json!([]), None),
            (json!(null), None),
        ];
        for (value, expected) in cases {
            assert_eq!(number(&opened(&value).unwrap()), expected, "{value}");
        }
    }

    #[test]
    fn a_fence_is_opened_where_nothing_stands_beside_it() {
        for (text, inside) in [
            ("```json\n[1]\n```", "[1]"),
            ("\n```JSON5 \r\n{}\r\n```\n", "{}"),
            ("```\n| a |\n|---|\n```", "| a |\n|---|"),
            ("~~~python\n[(1,)]\n~~~", "[(1,)]"),
            ("```[1]```", "[1]"),
            ("```\n```", ""),
        ] {
            assert_eq!(unfenced(text), Some(inside), "{text}");
        }
        for text in [
            "Here:\n```json\n[1]\n```",
            "```json\n[1]\n```\nDone.",
            "```json\n[1]\n```\n```json\n[2]\n```",
            "```json\n[1]",
            "``[1]``",
            "[1]",
        ] {
            assert_eq!(unfenced(text), None, "{text}");
        }
    }

    #[test]
    fn a_boolean_has_eight_words() {
        for value in [
            json!(true),
            json!("Yes"),
            json!(1),
            json!("1"),
            json!("t"),
            json!("```\ntrue\n```"),
            json!([{ "ok": "TRUE" }]),
            json!(1.0),
        ] {
            assert_eq!(boolean(&opened(&value).unwrap()), Some(true), "{value}");
        }
        for value in [
            json!(false),
            json!("no"),
            json!(0),
            json!("0"),
            json!("f"),
            json!([false]),
        ] {
            assert_eq!(boolean(&value), Some(false), "{value}");
        }
        for value in [json!("maybe"), json!(2), json!(null), json!([]), json!("")] {
            assert_eq!(boolean(&value), None, "{value}");
        }
    }
}
