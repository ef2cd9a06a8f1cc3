//! The datatype component: whether an answer has the form that the question asks for. Never looks at what is expected.

use std::borrow::Cow;

use serde_json::Value;

use super::answer::{self, AnswerType};
use super::case::QasCase;
use super::number::Loss;
use super::table::{AnswerTable, RowsForm};

/// A plan or an analysis in prose has so many characters at least to be one.
const PROSE: usize = 50;

/// What the form of a case's answer is worth, from 0 to 1, and why.
pub(super) fn datatype(case: &QasCase) -> (f64, String) {
    let Some(actual) = &case.actual else {
        return (0.0, "there is no answer".to_owned());
    };
    if case.answers_with_an_error() {
        return (0.0, "the answer is an error".to_owned());
    }
    form(case.answer_type, actual, &case.question)
}

fn form(wanted: AnswerType, actual: &Value, question: &str) -> (f64, String) {
    let (score, why) = match wanted {
        AnswerType::Number | AnswerType::Kpi => number(actual, question),
        AnswerType::Boolean => match answer::boolean(actual) {
            Some(_) => (1.0, "a boolean"),
            None => (0.0, "no boolean: true, false, yes, no, 1 or 0 is expected"),
        },
        AnswerType::Table => table(actual),
        AnswerType::List | AnswerType::Schedule => list(wanted, actual),
        AnswerType::Text => match answer::single(actual).as_str().map(str::trim) {
            Some("") => (0.0, "empty text"),
            Some(_) => (1.0, "text"),
            None => (0.0, "no text"),
        },
        AnswerType::Analysis | AnswerType::Plan | AnswerType::OptimizationPlan => prose(actual),
    };
    (score, why.to_owned())
}

fn number(actual: &Value, question: &str) -> (f64, &'static str) {
    match answer::number(actual, question) {
        Some((_, Loss::None)) => (1.0, "a number"),
        Some((_, Loss::Some)) => (0.5, "a number, once the text around it is dropped"),
        None => (0.0, "no number without words that may change it"),
    }
}

fn table(actual: &Value) -> (f64, &'static str) {
    match AnswerTable::of(actual).map(|table| table.form) {
        Some(RowsForm::Named) => (1.0, "rows with named columns"),
        Some(RowsForm::Empty) => (0.5, "a table without rows"),
        Some(RowsForm::Lists) => (0.5, "rows whose columns have no names"),
        Some(RowsForm::Values) => (0.5, "values, taken as a table of one column"),
        Some(RowsForm::One) => (0.5, "an object, taken as a table of one row"),
        None => (0.0, "no table"),
    }
}

fn list(wanted: AnswerType, actual: &Value) -> (f64, &'static str) {
    let Some(table) = AnswerTable::of(actual) else {
        return (0.0, "no list");
    };
    match table.form {
        RowsForm::Named
            if table.has_one_column() && (wanted == AnswerType::List || actual.is_object()) =>
        {
            (0.5, "a table of one column, taken as a list")
        }
        RowsForm::Named | RowsForm::Lists | RowsForm::Values | RowsForm::Empty => (1.0, "a list"),
        RowsForm::One => (0.0, "no list"),
    }
}

fn prose(actual: &Value) -> (f64, &'static str) {
    let actual = answer::opened(actual).unwrap_or(Cow::Borrowed(actual));
    let inner = match actual.as_array().map(Vec::as_slice) {
        Some([only]) => only,
        Some(_) | None => &actual,
    };
    match inner {
        Value::Object(members) if !members.is_empty() => (1.0, "an object"),
        Value::String(text) => match text.trim().chars().count() {
            0 => (0.0, "empty text"),
            PROSE.. => (0.8, "text of 50 characters or more; an object is expected"),
            _ => (
                0.5,
                "text of less than 50 characters; an object is expected",
            ),
        },
        Value::Object(_) => (0.0, "an empty object"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            (0.0, "neither an object nor text")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_type_has_its_forms() {
        use AnswerType::{
            Analysis, Boolean, Kpi, List, Number, OptimizationPlan, Plan, Schedule, Table, Text,
        };
        let long = "x".repeat(50);
        let cases = [
            (Number, json!(3), 1.0),
            (Kpi, json!([{ "n": 3 }]), 1.0),
            (Number, json!("3"), 1.0),
            (Number, json!("3 rows"), 0.5),
            (Number, json!("many"), 0.0),
            (Number, json!([1, 2]), 0.0),
            (Table, json!([{ "a": 1 }]), 1.0),
            (Table, json!([]), 0.5),
            (Table, json!([[1]]), 0.5),
            (Table, json!([1]), 0.5),
            (Table, json!("[{\"a\": 1}]"), 1.0),
            (Table, json!("a"), 0.0),
            (Boolean, json!("yes"), 1.0),
            (Boolean, json!(0), 1.0),
            (Boolean, json!("perhaps"), 0.0),
            (List, json!(["a"]), 1.0),
            (List, json!([]), 1.0),
            (List, json!([{ "a": 1 }, { "a": 2 }]), 0.5),
            (List, json!([{ "a": 1, "b": 2 }]), 1.0),
            (List, json!({ "columns": ["a"], "rows": [[1]] }), 0.5),
            (Schedule, json!([{ "at": "08:00" }]), 1.0),
            (List, json!("a, b"), 0.0),
            (Text, json!("a"), 1.0),
            (Text, json!("  "), 0.0),
            (Text, json!(["a", "b"]), 0.0),
            (Analysis, json!({ "trend": "up" }), 1.0),
            (Plan, json!(long), 0.8),
            (OptimizationPlan, json!("short"), 0.5),
            (Plan, json!(""), 0.0),
            (Plan, json!(5), 0.0),
        ];
        for (wanted, actual, score) in cases {
            let read = answer::opened(&actual).unwrap();
            assert_eq!(form(wanted, &read, "?").0, score, "{wanted:?} {actual}");
        }
    }
}
