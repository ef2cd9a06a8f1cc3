//! Expected and generated result rows side by side. Shows the first rows and the total number.

use serde_json::Value;

use super::words;

/// Maximum number of rows per side.
const MAX_ROWS: usize = 50;
const MAX_COLUMNS: usize = 24;
/// Maximum length of a cell, characters.
const MAX_CELL_CHARS: usize = 200;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResultRows {
    pub(super) expected: Side,
    pub(super) generated: Side,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Side {
    /// Column names. Empty if the rows have none.
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) count: usize,
    pub(super) columns_left: usize,
}

impl ResultRows {
    /// Returns `None` if both sides are empty.
    pub(super) fn new(expected: Option<&Value>, generated: Option<&Value>) -> Option<Self> {
        let given = |side: Option<&Value>| side.is_some_and(|value| !value.is_null());
        (given(expected) || given(generated)).then(|| Self {
            expected: Side::from_value(expected),
            generated: Side::from_value(generated),
        })
    }

    pub(super) fn sides(&self) -> [(&'static str, &Side); 2] {
        [("Expected", &self.expected), ("Generated", &self.generated)]
    }
}

impl Side {
    fn from_value(value: Option<&Value>) -> Self {
        let rows: &[Value] = match value {
            None | Some(Value::Null) => &[],
            Some(Value::Array(rows)) => rows,
            // A single value instead of rows.
            Some(single) => std::slice::from_ref(single),
        };
        let mut names: Vec<String> = Vec::new();
        for row in rows.iter().take(MAX_ROWS) {
            for name in row.as_object().into_iter().flat_map(|row| row.keys()) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        let columns_left = names.len().saturating_sub(MAX_COLUMNS);
        names.truncate(MAX_COLUMNS);
        Self {
            rows: rows
                .iter()
                .take(MAX_ROWS)
                .map(|row| cells(row, &names))
                .collect(),
            count: rows.len(),
            names,
            columns_left,
        }
    }

    pub(super) fn left(&self) -> usize {
        self.count - self.rows.len()
    }
}

fn cells(row: &Value, names: &[String]) -> Vec<String> {
    match row {
        Value::Object(fields) => {
            let cell = |name: &String| fields.get(name).map_or_else(|| "–".to_owned(), cell);
            names.iter().map(cell).collect()
        }
        Value::Array(values) => values.iter().take(MAX_COLUMNS).map(cell).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![cell(row)],
    }
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    words::clip(&text, MAX_CELL_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shows_first_rows_and_counts_the_rest() {
        let many: Vec<Value> = (0..60).map(|n| json!({"n": n})).collect();
        let rows = ResultRows::new(Some(&json!(many)), Some(&json!([]))).unwrap();
        assert_eq!((rows.expected.rows.len(), rows.expected.left()), (50, 10));
        assert_eq!((rows.generated.count, rows.generated.left()), (0, 0));
        assert_eq!(ResultRows::new(None, Some(&Value::Null)), None);
    }

    #[test]
    fn accepts_rows_of_any_shape() {
        let side = Side::from_value(Some(
            &json!([{"a": 1}, {"b": null}, [1, "x"], "y", {"a": {"k": []}}]),
        ));
        assert_eq!(side.names, ["a", "b"]);
        assert_eq!(
            side.rows,
            [
                vec!["1", "–"],
                vec!["–", "null"],
                vec!["1", "x"],
                vec!["y"],
                vec!["{\"k\":[]}", "–"]
            ]
        );
        let long = Side::from_value(Some(&json!("é".repeat(300))));
        assert_eq!(long.rows[0][0].chars().count(), 201);
    }
}
