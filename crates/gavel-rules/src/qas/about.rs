//! What kind `qas` says of itself.

use serde_json::{Value, json};

use super::{FIELDS, QasCase};
use crate::about::{About, Column, Component, CriteriaForm, Origin, STATUS, Sides};
use crate::criteria::{
    ACTUAL_ANSWER, EXPECTED_ANSWER, EXPECTED_QUERY, GENERATED_QUERY, QUESTION, SCHEMA,
};
use crate::reading::Spelling;

const COMPONENTS: &[Component] = &[
    Component {
        words: "/breakdown/semantic_explanation",
        ..Component::new("semantic", "Semantic", "Semantic Score", "/semantic_score")
    },
    Component {
        words: "/breakdown/execution_explanation",
        ..Component::new(
            "execution",
            "Execution",
            "Execution Score",
            "/execution_score",
        )
    },
    Component {
        words: "/breakdown/datatype_explanation",
        ..Component::new("datatype", "Datatype", "Datatype Score", "/datatype_score")
    },
];

const COLUMNS: &[Column] = &[
    Column("Test ID", 16, Origin::Id),
    Column("Question", 40, Origin::Payload(&["question"])),
    Column("Agent Used", 11, Origin::Payload(&["agent_used"])),
    Column("Category", 14, Origin::Payload(&["category"])),
    Column("Difficulty", 10, Origin::Payload(&["difficulty"])),
    Column(
        "Answer Type",
        12,
        Origin::Payload(&["expected_answer_type"]),
    ),
    Column("Expected SQL", 50, Origin::Payload(&["expected_sql"])),
    Column("Generated SQL", 50, Origin::Payload(&["generated_sql"])),
    Column(
        "Expected Results",
        30,
        Origin::Payload(&["expected_results"]),
    ),
    Column("Actual Results", 30, Origin::Payload(&["actual_results"])),
    Column("Execution Error", 24, Origin::Payload(&["error"])),
    Column("Total Score", 11, Origin::Total),
    Column(STATUS, 13, Origin::Status),
    Column("Semantic Score", 12, Origin::Score(0)),
    Column("Execution Score", 12, Origin::Score(1)),
    Column("Datatype Score", 12, Origin::Score(2)),
    Column("Semantic Explanation", 60, Origin::Words(0)),
    Column("Execution Explanation", 40, Origin::Words(1)),
    Column("Datatype Explanation", 40, Origin::Words(2)),
    Column("Threshold", 10, Origin::Threshold),
];

/// The kind, described.
pub const ABOUT: About = About {
    title: "Question",
    items: "questions with the answers of SQL and docking agents",
    read: |payload| QasCase::read(payload).map(|case| Box::new(case) as _),
    criteria: CriteriaForm {
        keys: &["answer_prompt"],
        placeholders: &[QUESTION, EXPECTED_QUERY, GENERATED_QUERY, SCHEMA],
        answer_placeholders: &[QUESTION, EXPECTED_ANSWER, ACTUAL_ANSWER, SCHEMA],
        is_of_session: false,
    },
    built_in_criteria: (
        "qas.yaml",
        include_str!("../../../../config/criteria/qas.yaml"),
    ),
    fields: FIELDS,
    spelling: Spelling::Snake,
    name: "test_id",
    question: &["question"],
    distinctive: &["question", "agent_used", "expected_answer_type"],
    sides: Sides {
        generated: "generated_sql",
        expected: "expected_sql",
        generated_rows: "actual_results",
        expected_rows: "expected_results",
    },
    execution_error: Some("error"),
    line_fields: &[
        "test_id",
        "question",
        "agent_used",
        "difficulty",
        "expected_sql",
        "generated_sql",
        "expected_results",
        "actual_results",
    ],
    asks_agents: true,
    is_grouped: true,
    is_in_percent: false,
    has_threshold: true,
    deadline: None,
    components: COMPONENTS,
    columns: COLUMNS,
    verdict: ("/final_score", "/passed"),
    judge: Some("/judge"),
    is_computed: |result| result.get("judge").is_some_and(Value::is_null),
    reasoning: |result| COMPONENTS.first()?.words(Some(result)),
    stamp: |_, _| {},
    samples,
};

fn samples() -> [Value; 2] {
    [
        json!({"test_id": "sql-01", "question": "How many warehouses do we have?", "agent_used": "sql", "category": "counts",
                "difficulty": "easy", "expected_sql": "SELECT count(*) FROM warehouses", "generated_sql": "SELECT count(id) FROM warehouses",
                "expected_answer_type": "number", "expected_results": 12, "actual_results": 12, "success": true}),
        json!({"test_id": "sql-02", "question": "Which warehouse is the largest?", "agent_used": "sql", "category": "lookups",
                "difficulty": "medium", "expected_sql": "SELECT name FROM warehouses ORDER BY area DESC LIMIT 1",
                "generated_sql": "SELECT name FROM warehouses ORDER BY area DESC", "expected_answer_type": "text", "expected_results": "Hamburg",
                "actual_results": "Hamburg", "success": true}),
    ]
}
