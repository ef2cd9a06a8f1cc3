use std::time::Duration;

use serde_json::Value;

use super::{FIELDS, MetricsCase};
use crate::about::{About, Column, Component, CriteriaForm, Origin, STATUS};
use crate::criteria::{EXPECTED_QUERY, GENERATED_QUERY, SCHEMA};
use crate::reading::Spelling;

const JUDGE: &str = "/metrics/query_correctness/details/judge";

const COMPONENTS: &[Component] = &[
    Component::new(
        "query_correctness",
        "Correctness",
        "Query Correctness Score",
        "/metrics/query_correctness",
    ),
    Component::new(
        "table_accuracy",
        "Tables",
        "Table Accuracy Score",
        "/metrics/table_accuracy",
    ),
    Component::new(
        "safety_validation",
        "Safety",
        "Safety Validation Score",
        "/metrics/safety_validation",
    ),
    Component::new(
        "validation_accuracy",
        "Validation",
        "Validation Accuracy Score",
        "/metrics/validation_accuracy",
    ),
];

const COLUMNS: &[Column] = &[
    Column("ID", 16, Origin::Id),
    Column(
        "Generated SQL",
        50,
        Origin::Payload(&["generated_sql", "generatedSql"]),
    ),
    Column(
        "Expected SQL",
        50,
        Origin::Payload(&["expected_sql", "expectedSql"]),
    ),
    Column(
        "Expected Tables",
        24,
        Origin::Payload(&["expected_tables", "expectedTables"]),
    ),
    Column("Dialect", 11, Origin::Payload(&["dialect"])),
    Column("Confidence", 11, Origin::Payload(&["confidence"])),
    Column("Total Score", 11, Origin::Total),
    Column(STATUS, 13, Origin::Status),
    Column("Query Correctness Score", 12, Origin::Score(0)),
    Column("Table Accuracy Score", 12, Origin::Score(1)),
    Column("Safety Validation Score", 12, Origin::Score(2)),
    Column("Validation Accuracy Score", 12, Origin::Score(3)),
    Column("LLM Reasoning", 60, Origin::Reasoning),
    Column("Safety Outcome", 14, Origin::Safety),
    Column("Parse Error", 40, Origin::ParseError),
    Column("Metric Errors", 40, Origin::Faults),
];

pub const ABOUT: About = About {
    title: "Case",
    items: "generated SQL",
    read: |payload| MetricsCase::read(payload).map(|case| Box::new(case) as _),
    criteria: CriteriaForm {
        placeholders: &[EXPECTED_QUERY, GENERATED_QUERY, SCHEMA],
        ..CriteriaForm::OF_CASE
    },
    built_in_criteria: (
        "query_correctness.yaml",
        include_str!("../../../../config/criteria/query_correctness.yaml"),
    ),
    fields: FIELDS,
    spelling: Spelling::SnakeOrCamel,
    question: &["generated_sql", "generatedSql"],
    distinctive: &["generated_sql", "generatedSql"],
    deadline: Some(Duration::from_secs(30)),
    components: COMPONENTS,
    columns: COLUMNS,
    judge: Some(JUDGE),
    // The judge is stored with the only metric that needs one.
    is_computed: |result| result.pointer(JUDGE).is_none_or(Value::is_null),
    reasoning: |result| COMPONENTS.first()?.words(Some(result)),
    samples: include_str!("samples.jsonl"),
    ..About::DEFAULT
};
