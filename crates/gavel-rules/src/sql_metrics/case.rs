//! Parses a metric case, reporting all errors at once. Also accepts the camelCase names of the original tool.

use serde_json::Value;

use super::calibration::Confidence;
use crate::Fault;
use crate::Field;
use crate::reading::{ObjectReader, Spelling};
use query_shape::sql::Dialect;

pub const FIELDS: &[Field] = &[
    Field::text("id"),
    Field::text("generated_sql"),
    Field::text("expected_sql"),
    Field::json("expected_tables"),
    Field::flag("safety_valid"),
    Field::flag("is_valid"),
    Field::json("errors"),
    Field::flag("should_pass"),
    Field::text("confidence"),
    Field::text("dialect"),
];

const FLAGS: [&str; 2] = ["safety_valid", "is_valid"];

/// A generated query with its expectations. Each optional field enables a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsCase {
    pub id: Option<String>,
    /// Generated query; empty if the agent generated no query.
    pub generated_sql: String,
    /// Expected query; enables query correctness.
    pub expected_sql: Option<String>,
    /// Tables that the query should read or write; enables table accuracy.
    pub expected_tables: Option<Vec<String>>,
    /// Result of the safety check; enables safety validation.
    pub safety_valid: Option<bool>,
    /// Result of the validator; enables validation accuracy.
    pub is_valid: Option<bool>,
    pub errors: Vec<String>,
    /// Expected value of both flags; present if at least one of them is.
    pub should_pass: Option<bool>,
    pub confidence: Option<Confidence>,
    pub dialect: Dialect,
}

impl MetricsCase {
    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        const LEVELS: [(&str, Confidence); 3] = [
            ("high", Confidence::High),
            ("medium", Confidence::Medium),
            ("low", Confidence::Low),
        ];
        let mut reading = ObjectReader::begin(payload, FIELDS, Spelling::SnakeOrCamel)?;
        let id = reading.name("id");
        let generated_sql = reading.text("generated_sql");
        if generated_sql.is_none() {
            reading.missing(
                "generated_sql",
                "the generated query, \"\" where nothing was generated,",
            );
        }
        let case = Self {
            id,
            generated_sql: generated_sql.unwrap_or_default(),
            expected_sql: reading.solid_text("expected_sql"),
            expected_tables: expected_tables(&mut reading),
            safety_valid: reading.boolean("safety_valid"),
            is_valid: reading.boolean("is_valid"),
            errors: reading.texts("errors").unwrap_or_default(),
            should_pass: reading.boolean("should_pass"),
            confidence: reading.choice("confidence", &LEVELS),
            dialect: reading.dialect("dialect"),
        };
        reading.check_expected_sql(case.expected_sql.as_deref(), case.dialect);
        check_flags(&mut reading);
        let asks = [
            "expected_sql",
            "expected_tables",
            "safety_valid",
            "is_valid",
            "should_pass",
        ];
        if !asks.iter().any(|name| reading.value(name).is_some()) {
            reading.fault("", "asks for no metric: give expected_sql, expected_tables, or should_pass with safety_valid or is_valid");
        }
        reading.finish()?;
        Ok(case)
    }
}

/// Reports a missing flag, because it must not default to false.
fn check_flags(reading: &mut ObjectReader<'_>) {
    let given = |name: &&str| reading.value(name).is_some();
    let flags: Vec<&str> = FLAGS.iter().copied().filter(|name| given(name)).collect();
    match (flags.as_slice(), reading.value("should_pass")) {
        ([], Some(found)) => {
            reading.fault(
                found.pointer,
                "has nothing to be held against: give safety_valid or is_valid, or leave it out",
            );
        }
        ([_, ..], None) => {
            let expected = format!(
                "beside {} whether the query should pass, true or false,",
                flags.join(" and ")
            );
            reading.missing("should_pass", &expected);
        }
        ([], None) | ([_, ..], Some(_)) => {}
    }
}

fn expected_tables(reading: &mut ObjectReader<'_>) -> Option<Vec<String>> {
    let tables = reading.texts("expected_tables")?;
    if let Some(found) = reading.value("expected_tables")
        && let Some(at) = tables.iter().position(|table| table.trim().is_empty())
    {
        let pointer = format!("{}/{at}", found.pointer);
        reading.fault(pointer, "is empty; the name of a table is expected");
    }
    Some(tables)
}
