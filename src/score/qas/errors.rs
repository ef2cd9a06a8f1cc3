//! Tells an error that stands where an answer should from an answer. What an error is worth is the execution's to say.

use serde_json::Value;

use super::answer::{AnswerType, Comparison, WRAPPINGS, boolean, number, opened, single};

/// An error's text begins within so many bytes of where a text begins.
const OPENING: usize = 200;

/// Whether an answer is an error rather than an answer: the case's own error, a text that begins as errors do, or an object that says
/// `error` and nothing of its own; also as the one value of a list, of a row or of an object. Where rows are asked for, a row's column may
/// well be called `error`. Where errors are what is expected, texts about them are told from an agent's own by their words alone.
pub(super) fn is_error(
    value: &Value,
    error: Option<&str>,
    wanted: AnswerType,
    expected: Option<&Value>,
) -> bool {
    let opened = opened(value);
    let value = opened.as_ref();
    if is_error_object(value, wanted, expected) {
        return true;
    }
    let Value::String(text) = single(value) else {
        return false;
    };
    let text = text.trim();
    if error.is_some_and(|error| !text.is_empty() && error.trim() == text) {
        return true;
    }
    let may_tell_of_one = match wanted.comparison() {
        Comparison::Texts => true,
        Comparison::Tables => !value.is_string(),
        Comparison::Numbers | Comparison::Booleans => false,
    };
    reads_as_error(text) && !(may_tell_of_one && expected.is_some_and(holds_an_error))
}

/// `{"error": ..}`: what an agent says in place of an answer. A number there is a rate, and what is false or null is no error.
fn is_error_object(value: &Value, wanted: AnswerType, expected: Option<&Value>) -> bool {
    /// What stands beside an error that is told, and says no more.
    const BESIDE: [&str; 10] = [
        "error",
        "code",
        "status",
        "status_code",
        "success",
        "message",
        "detail",
        "type",
        "hint",
        "traceback",
    ];
    let wants_rows = wanted.comparison() == Comparison::Tables;
    let is_list_nothing = match wanted {
        AnswerType::Table | AnswerType::List | AnswerType::Schedule => false,
        // One row of a query may be the text that is asked for.
        AnswerType::Text => expected.is_none(),
        AnswerType::Number
        | AnswerType::Kpi
        | AnswerType::Boolean
        | AnswerType::Analysis
        | AnswerType::Plan
        | AnswerType::OptimizationPlan => true,
    };
    let mut value = value;
    if is_list_nothing {
        for _ in 0..WRAPPINGS {
            let Some([one]) = value.as_array().map(Vec::as_slice) else {
                break;
            };
            value = one;
        }
    }
    let Some(members) = value.as_object() else {
        return false;
    };
    let failed = members.get("success") == Some(&Value::Bool(false));
    let says_no_more = match wants_rows && !failed {
        // A row may have more columns.
        true => members.len() == 1,
        false => members.keys().all(|name| {
            BESIDE
                .iter()
                .any(|beside| name.eq_ignore_ascii_case(beside))
        }),
    };
    let said = members
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("error"))
        .filter(|_| says_no_more);
    match said.map(|(_, said)| said) {
        Some(said) if is_wanted(said, wanted) => false,
        // `5 %` is a rate.
        Some(Value::String(text)) => {
            !says_no_error(text)
                && (text.contains(char::is_alphabetic) || !text.trim().ends_with('%'))
        }
        Some(Value::Bool(failed)) => *failed,
        Some(Value::Object(what)) => !what.is_empty(),
        Some(Value::Array(what)) => !what.is_empty(),
        Some(Value::Null | Value::Number(_)) | None => false,
    }
}

/// Whether a text in an error's place says that there is none.
pub fn says_no_error(text: &str) -> bool {
    const NONE: [&str; 12] = [
        "",
        "none",
        "null",
        "nil",
        "no",
        "no error",
        "no errors",
        "none found",
        "n/a",
        "ok",
        "false",
        "0",
    ];
    let text = text.trim().trim_end_matches('.');
    text == "-" || NONE.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether what is said is the number or the boolean that is asked for, of a column that is called `error`.
fn is_wanted(said: &Value, wanted: AnswerType) -> bool {
    match wanted.comparison() {
        // It begins with the number: `5 ms`, not `timeout after 30 s`.
        Comparison::Numbers => {
            let begins = |text: &str| {
                let first = text.trim_start().chars().next();
                first.is_some_and(|c| c.is_ascii_digit() || "+-−.$€£".contains(c))
            };
            number(said).is_some() && single(said).as_str().is_none_or(begins)
        }
        Comparison::Booleans => boolean(said).is_some(),
        Comparison::Tables | Comparison::Texts => false,
    }
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

/// `Error: ..`, `ERROR 1064 ..`, `Error executing ..`, `psycopg2.errors.UndefinedTable: ..`, `(sqlite3.OperationalError) ..`,
/// `Traceback (most recent ..`. Not `Errors rose`, `Terror: ..`, `Error: 5 %` or `Error: 12, Warning: 30`.
fn reads_as_error(text: &str) -> bool {
    let text = text.trim_start_matches(['`', '"', '\'']);
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
    // `[OperationalError: x]` is one too.
    let first = match first.contains(')') {
        true => first,
        false => first.trim_start_matches(['(', '[']),
    };
    // `Error:no blank` is one too, `std::error` is a path.
    let glued = first
        .split_once(':')
        .filter(|(_, behind)| !behind.is_empty() && !behind.starts_with(':'))
        .filter(|(_, behind)| !behind.ends_with('%'));
    let label = first.strip_suffix(':').or(glued.map(|(name, _)| name));
    let is_label = label.is_some_and(is_name_of_error) && !is_rate && !is_tally(text);
    let in_brackets = first
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'))
        .filter(|inner| inner.contains('.'));
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
        || in_brackets.is_some_and(is_name_of_error)
        || is_said && !is_rate
        || opening.starts_with("sql error")
        || opening.starts_with("database error")
}

/// `Error: 12, Warning: 30`, `TimeoutError: 42 times`: how often, and not what went wrong. A number alone may be the error's own.
fn is_tally(text: &str) -> bool {
    const UNITS: [&str; 9] = [
        "times",
        "x",
        "errors",
        "entries",
        "events",
        "hits",
        "lines",
        "occurrences",
        "rows",
    ];
    // How much of a part is told: `None`: no count; whether its unit is.
    let counted = |part: &str| -> Option<bool> {
        let (label, count) = part.split_once(':')?;
        // What is told in more words is what went wrong: `ParseError: line: 5`.
        if label.split_whitespace().count() > 2 || count.contains(':') {
            return None;
        }
        let count = count.split('(').next().unwrap_or_default();
        let count = count.trim_start_matches('*').trim().trim_end_matches('.');
        let (number, unit) = count.split_once(char::is_whitespace).unwrap_or((count, ""));
        let is_unit = UNITS
            .iter()
            .any(|known| unit.trim().eq_ignore_ascii_case(known));
        let is_share = number.ends_with('%') || unit.trim() == "%";
        let is_number = number.trim_end_matches('%').parse::<f64>().is_ok();
        (is_number && (unit.is_empty() || is_unit || is_share)).then_some(is_unit || is_share)
    };
    let mut parts = 0;
    let mut has_unit = false;
    for part in text.split([',', ';', '\n']).map(str::trim) {
        if part.is_empty() {
            continue;
        }
        let Some(is_told) = counted(part) else {
            return false;
        };
        parts += 1;
        has_unit |= is_told;
    }
    parts > 1 || has_unit
}

/// `Error`, `FATAL`, `OperationalError`, `psycopg2.errors.UndefinedTable`, `java.lang.NullPointerException`; not `Terror`.
fn is_name_of_error(name: &str) -> bool {
    if name.contains(|c: char| !(c.is_alphanumeric() || ".:_-$".contains(c))) {
        return false;
    }
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
            "Error:no such table",
            "`Error: no such table`",
            "[OperationalError: no such table: t]",
            "(sqlite3.OperationalError: no such table)",
            "\"Error: x\"",
            "DatabaseError:no such table",
            "(sqlite3.OperationalError) no such table: t",
            "(psycopg2.errors.UndefinedTable) relation \"t\" does not exist",
            "Error: 1064, near x",
            "Error: 404 Not Found",
            "ParseError: line: 5, column: 7",
            "HTTPError: status: 503; retries: 3",
            "Error: limit exceeded: 10000 rows",
            "Error: 42",
            "std::runtime_error: x",
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
            "Error: 12, Warning: 30",
            "Error: 12; Fatal: 3.",
            "Error:5%",
            "std::error",
            "(Error bars are shown)",
            "(TimeoutError) was the most frequent",
            "TimeoutException: 42 times",
            "FATAL: 3 entries, ERROR: 12 entries",
            "OutOfMemoryError: 12 (60 %), TimeoutError: 8 (40 %)",
            "**Error:** 12, **Warning:** 30",
        ];
        for text in answers {
            assert!(
                !is_error(&json!(text), None, AnswerType::Text, None),
                "{text}"
            );
        }
    }

    #[test]
    fn an_object_that_says_error_is_one_unless_it_holds_what_was_asked_for() {
        for wanted in AnswerType::NAMES.map(|(_, wanted)| wanted) {
            let is_error = |value: &Value, error| is_error(value, error, wanted, None);
            assert!(is_error(&json!({ "error": "x" }), None));
            assert!(!is_error(&json!({ "error": "x", "n": 1 }), None));
            assert!(is_error(&json!({ "Error": "x" }), None));
            for none in [
                json!(null),
                json!(false),
                json!(" "),
                json!("None"),
                json!([]),
            ] {
                assert!(!is_error(&json!({ "error": none }), None), "{none}");
            }
            let told = json!({ "error": true });
            assert_eq!(is_error(&told, None), wanted != AnswerType::Boolean);
            // The number or the boolean that is asked for, of a column of that name.
            for (said, comparison) in [
                ("5.01", Comparison::Numbers),
                ("5 ms", Comparison::Numbers),
                ("yes", Comparison::Booleans),
                ("true", Comparison::Booleans),
            ] {
                let found = is_error(&json!({ "error": said }), None);
                assert_eq!(
                    found,
                    wanted.comparison() != comparison,
                    "{wanted:?} {said}"
                );
            }
            assert!(is_error(&json!({ "error": "timeout after 30 s" }), None));
            // A row may have more columns.
            let wants_rows = wanted.comparison() == Comparison::Tables;
            let told = json!({ "error": "x", "code": 1 });
            assert_eq!(is_error(&told, None), !wants_rows);
            let told = json!({ "success": false, "error": "x", "code": 1 });
            assert!(is_error(&told, None));
            assert!(!is_error(
                &json!({ "status": "ok", "error": "No error." }),
                None
            ));
            assert!(!is_error(&json!({ "error": "5 %" }), None));
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
            assert_eq!(is_error(&json!([{ "error": "x" }]), None), !wants_rows);
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
        // Unless errors are what is expected: a list of them, or a text about one.
        let listed = json!(["all is well", { "message": "Error: two" }]);
        let one = json!(["Error: one"]);
        for (wanted, is_one, is_bare) in [
            (AnswerType::List, false, true),
            (AnswerType::Text, false, false),
            (AnswerType::Number, true, true),
        ] {
            let is_error = |value: &Value| is_error(value, None, wanted, Some(&listed));
            assert_eq!(is_error(&one), is_one, "{wanted:?}");
            assert_eq!(is_error(&json!("Error: one")), is_bare, "{wanted:?}");
        }
        let own = Some("Error: one");
        assert!(is_error(&one, own, AnswerType::Text, Some(&listed)));
        // A row with the text that is asked for.
        let row = json!([{ "error": "disk full" }]);
        let expected = json!("the disk is full");
        assert!(!is_error(&row, None, AnswerType::Text, Some(&expected)));
    }
}
