//! Tells an error that stands where an answer should from an answer. What an error is worth is the execution's to say.

use serde_json::Value;

use super::answer::{AnswerType, Comparison, WRAPPINGS, opened, single};

/// An error's text begins within so many bytes of where a text begins.
const OPENING: usize = 200;

/// Whether an answer is an error rather than an answer: the case's own error, a text that begins as errors do, or an object that holds an
/// `error` and nothing else; also as the one value of a list, of a row or of an object. Where rows are asked for, a row's column may well be
/// called `error`, and a list of errors is told from an agent's own by what is expected.
pub(super) fn is_error(
    value: &Value,
    error: Option<&str>,
    wanted: AnswerType,
    expected: Option<&Value>,
) -> bool {
    let opened = opened(value);
    let value = opened.as_ref();
    if is_error_object(value, wanted) {
        return true;
    }
    let Value::String(text) = single(value) else {
        return false;
    };
    let text = text.trim();
    if error.is_some_and(|error| !text.is_empty() && error.trim() == text) {
        return true;
    }
    let is_wrapped = !value.is_string();
    let may_be_a_row = is_wrapped && wanted.comparison() == Comparison::Tables;
    reads_as_error(text) && !(may_be_a_row && expected.is_some_and(holds_an_error))
}

/// `{"error": ..}`: what an agent says in place of an answer. A number there is a rate.
fn is_error_object(value: &Value, wanted: AnswerType) -> bool {
    let mut value = value;
    match wanted {
        // No rows are asked for: the list around it says nothing.
        AnswerType::Analysis | AnswerType::Plan | AnswerType::OptimizationPlan => {
            for _ in 0..WRAPPINGS {
                let Some([one]) = value.as_array().map(Vec::as_slice) else {
                    break;
                };
                value = one;
            }
        }
        // An object in a list is a row.
        AnswerType::Number
        | AnswerType::Kpi
        | AnswerType::Table
        | AnswerType::List
        | AnswerType::Schedule
        | AnswerType::Boolean
        | AnswerType::Text => {}
    }
    let members = value.as_object().filter(|members| members.len() == 1);
    let said = members.and_then(|members| members.get("error"));
    said.is_some_and(|said| !said.is_number())
}

/// Whether any text in it reads as an error.
fn holds_an_error(value: &Value) -> bool {
    match value {
        Value::String(text) => reads_as_error(text.trim()),
        Value::Array(entries) => entries.iter().any(holds_an_error),
        Value::Object(members) => members.values().any(holds_an_error),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `Error: ..`, `ERROR 1064 ..`, `Error executing ..`, `psycopg2.errors.UndefinedTable: ..`, `Traceback (most recent ..`. Not `Errors rose`,
/// `Terror: ..` or `Error: 5 %`.
fn reads_as_error(text: &str) -> bool {
    let opening = text
        .get(..text.floor_char_boundary(OPENING))
        .unwrap_or_default();
    let (first, rest) = opening
        .split_once(char::is_whitespace)
        .unwrap_or((opening, ""));
    let opening = opening.to_ascii_lowercase();
    if opening.starts_with("traceback (most recent call last)") {
        return true;
    }
    let is_rate = rest.trim_end().ends_with('%') && !rest.contains(char::is_alphabetic);
    let is_label = first.strip_suffix(':').is_some_and(is_name_of_error) && !is_rate;
    let says_what = [
        "executing ",
        "running ",
        "while ",
        "in query",
        "at line",
        "code ",
    ];
    let rest = rest.to_ascii_lowercase();
    let is_said = first.eq_ignore_ascii_case("error")
        && (rest.trim().is_empty()
            || rest.starts_with(|c: char| c.is_ascii_digit() || c == '(' || c == '[')
            || says_what.iter().any(|words| rest.starts_with(words)));
    is_label
        || is_said && !is_rate
        || opening.starts_with("sql error")
        || opening.starts_with("database error")
}

/// `Error`, `FATAL`, `OperationalError`, `psycopg2.errors.UndefinedTable`, `java.lang.NullPointerException`; not `Terror`.
fn is_name_of_error(name: &str) -> bool {
    let last = name.rsplit(['.', ':', '_', '-']).next().unwrap_or(name);
    let is_word = ["error", "exception", "fatal"]
        .iter()
        .any(|word| last.eq_ignore_ascii_case(word));
    let is_class = ["Error", "Exception", "Failure"]
        .iter()
        .any(|word| last.len() > word.len() && last.ends_with(word));
    is_word || is_class || name.contains(".errors.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_told_from_answers_about_errors() {
        let errors = [
            "Error: no such table: t",
            "error",
            "ERROR 1064 (42000): You have an error",
            "Error executing query",
            "psycopg2.errors.UndefinedTable: relation \"t\" does not exist",
            "OperationalError: no such column",
            "FATAL: password authentication failed",
            "java.lang.NullPointerException: x",
            "sqlite3.Error: x",
            "Traceback (most recent call last): ..",
            "SQL error near x",
        ];
        for text in errors {
            assert!(
                is_error(&json!(text), None, AnswerType::Text, None),
                "{text}"
            );
        }
        let answers = [
            "Errors rose by 5 %",
            "Error: 5 %",
            "Error 5 %",
            "Terror: the film",
            "Failure: none seen",
            "Error rates fell in May",
            "No errors",
            "",
            "The error: none",
        ];
        for text in answers {
            assert!(
                !is_error(&json!(text), None, AnswerType::Text, None),
                "{text}"
            );
        }
        for wanted in AnswerType::NAMES.map(|(_, wanted)| wanted) {
            let is_error = |value: &Value, error| is_error(value, error, wanted, None);
            assert!(is_error(&json!({ "error": "x" }), None));
            assert!(!is_error(&json!({ "error": "x", "n": 1 }), None));
            assert!(is_error(&json!("{\"error\": \"no such table\"}"), None));
            assert!(!is_error(&json!({ "error": 0.05 }), None));
            assert!(!is_error(&json!(["Error: one", "Error: two"]), None));
            for own in [
                json!(" timed out "),
                json!(["timed out"]),
                json!([{ "error": "timed out" }]),
                json!({ "message": "timed out" }),
            ] {
                assert!(is_error(&own, Some("timed out")), "{wanted:?} {own}");
            }
            // A row may have a column of that name; a plan is no row.
            let is_plan = matches!(
                wanted,
                AnswerType::Analysis | AnswerType::Plan | AnswerType::OptimizationPlan
            );
            assert_eq!(is_error(&json!([{ "error": "x" }]), None), is_plan);
            // What holds one text is that text.
            for one in [
                json!(["Error: no such table"]),
                json!([["Error: x"]]),
                json!([{ "error": "Error: x" }]),
                json!({ "message": "Error: x" }),
                json!({ "columns": ["a"], "rows": [["Error: x"]] }),
            ] {
                assert!(is_error(&one, None), "{wanted:?} {one}");
            }
        }
        // Unless errors are what is listed.
        let listed = json!(["all is well", { "message": "Error: two" }]);
        for (wanted, found) in [(AnswerType::List, false), (AnswerType::Text, true)] {
            let one = json!(["Error: one"]);
            assert_eq!(is_error(&one, None, wanted, Some(&listed)), found);
            assert!(is_error(&json!("Error: one"), None, wanted, Some(&listed)));
        }
    }
}
