//! Answer of an agent: SQL, results and success, found in JSON at the paths in the settings.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::config::AgentSettings;
use crate::score::parse_json;
use crate::score::qas::unfenced;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_sql: Option<String>,
    /// Result of the agent's actions; null: none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub actual_results: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_error"
    )]
    pub error: Option<String>,
    /// Success of a docking agent's API call, if reported separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_success: Option<bool>,
}

impl AgentAnswer {
    /// Fields of a payload and of an answer line that come from the agent.
    pub(in crate::suite::run) const FIELDS: [&str; 5] = [
        "generated_sql",
        "actual_results",
        "success",
        "error",
        "api_success",
    ];

    /// Parses an agent's output: JSON, optionally in a code fence.
    pub(super) fn parse(written: &[u8], paths: &AgentSettings) -> Result<Self, String> {
        let fenced = std::str::from_utf8(written).ok().and_then(unfenced);
        let said = parse_json(fenced.map_or(written, str::as_bytes)).map_err(|error| {
            let bytes = written.len();
            format!("its answer of {bytes} bytes is not read as JSON: {error}")
        })?;
        Self::read(&said, paths)
    }

    fn read(said: &Value, paths: &AgentSettings) -> Result<Self, String> {
        if !said.is_object() && !said.is_array() {
            return Err("it returned JSON that is not an object or a list".to_owned());
        }
        let sql = text(said, "sql_path", &paths.sql_path)?;
        let error = at(said, &paths.error_path).and_then(error_of);
        let results = at(said, &paths.results_path).unwrap_or(&Value::Null);
        let success = match at(said, &paths.success_path) {
            None | Some(Value::Null) => None,
            Some(Value::Bool(success)) => Some(*success),
            Some(_) => {
                return Err(format!(
                    "its answer has no boolean at {:?} (success_path)",
                    paths.success_path
                ));
            }
        };
        if sql.is_none() && results.is_null() && success.is_none() && error.is_none() {
            return Err(format!(
                "its response has no value at {:?}, {:?}, {:?} and {:?}: set agents.<agent>.sql_path, .results_path, \
                 .success_path and .error_path to the paths of its parts",
                paths.sql_path, paths.results_path, paths.success_path, paths.error_path
            ));
        }
        Ok(Self {
            generated_sql: sql,
            actual_results: results.clone(),
            success: success.or(Some(error.is_none())),
            error,
            api_success: at(said, "api_success").and_then(Value::as_bool),
        })
    }
}

fn read_error<'de, D: Deserializer<'de>>(line: D) -> Result<Option<String>, D::Error> {
    Ok(error_of(&Value::deserialize(line)?))
}

/// Returns the error: a text, or another value as JSON. False, 0, null and empty values mean no error.
fn error_of(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) => (!text.trim().is_empty()).then(|| text.clone()),
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::Array(what) if what.is_empty() => None,
        Value::Object(what) if what.is_empty() => None,
        other @ (Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(other.to_string())
        }
    }
}

fn text(said: &Value, key: &str, path: &str) -> Result<Option<String>, String> {
    match at(said, path) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("its answer has no text at {path:?} ({key})")),
    }
}

/// Returns the value at a path of names and list indexes joined by dots; an empty path has none.
fn at<'a>(said: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return None;
    }
    path.split('.').try_fold(said, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(sql: &str, results: &str) -> AgentSettings {
        AgentSettings {
            url: Default::default(),
            token: Default::default(),
            sql_path: sql.to_owned(),
            results_path: results.to_owned(),
            success_path: "success".to_owned(),
            error_path: "error".to_owned(),
        }
    }

    #[test]
    fn finds_parts_at_configured_paths() {
        let said =
            json!({"data": {"choices": [{"sql": "select 1"}], "rows": [[1]]}, "success": true});
        let answer = AgentAnswer::read(&said, &paths("data.choices.0.sql", "data.rows"));
        let answer = answer.unwrap();
        assert_eq!(answer.generated_sql.as_deref(), Some("select 1"));
        assert_eq!(answer.actual_results, json!([[1]]));
        assert_eq!((answer.success, answer.error), (Some(true), None));
    }

    #[test]
    fn reads_fenced_answer_and_rejects_surrounding_text() {
        for written in [
            "{\"sql\": \"s\", \"results\": NaN}",
            "```json\n{\"sql\": \"s\"}\n```\n",
            "\n~~~\r\n{\"sql\": \"s\"}\r\n~~~",
        ] {
            let answer = AgentAnswer::parse(written.as_bytes(), &paths("sql", "results"));
            assert_eq!(answer.unwrap().generated_sql.as_deref(), Some("s"));
        }
        let written = "Done:\n```json\n{\"sql\": \"s\"}\n```";
        let error = AgentAnswer::parse(written.as_bytes(), &paths("sql", "results")).unwrap_err();
        assert!(error.contains("bytes is not read as JSON"), "{error}");
    }

    #[test]
    fn answer_with_error_is_not_successful() {
        let said = json!({"error": "no such table"});
        let answer = AgentAnswer::read(&said, &paths("sql", "results")).unwrap();
        assert_eq!(answer.success, Some(false));
        assert_eq!(answer.error.as_deref(), Some("no such table"));
        let said = json!({"sql": "select 1", "error": null});
        let answer = AgentAnswer::read(&said, &paths("sql", "results")).unwrap();
        assert_eq!(answer.success, Some(true));
    }

    #[test]
    fn rejects_answers_without_valid_parts() {
        for (said, fault) in [
            (json!({"answer": 1}), "no value at"),
            (json!("select 1"), "not an object or a list"),
            (json!({"sql": 7}), "no text at \"sql\" (sql_path)"),
            (
                json!({"sql": "s", "success": "yes"}),
                "no boolean at \"success\"",
            ),
        ] {
            let error = AgentAnswer::read(&said, &paths("sql", "results")).unwrap_err();
            assert!(error.contains(fault), "{said}: {error}");
        }
    }

    #[test]
    fn answer_line_omits_missing_fields() {
        let text = serde_json::to_string(&AgentAnswer::default()).unwrap();
        assert_eq!(text, "{}");
        assert_eq!(
            serde_json::from_str::<AgentAnswer>("{}").unwrap(),
            AgentAnswer::default()
        );
    }
}
