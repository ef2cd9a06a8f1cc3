//! What kind `qas` says of itself.

use super::{FIELDS, QasCase};
use crate::about::{About, Column, Component, CriteriaForm, Origin, STATUS};
use crate::criteria::{
    ACTUAL_ANSWER, EXPECTED_ANSWER, EXPECTED_QUERY, GENERATED_QUERY, QUESTION, SCHEMA,
};

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
        ..CriteriaForm::OF_CASE
    },
    built_in_criteria: (
        "qas.yaml",
        include_str!("../../../../config/criteria/qas.yaml"),
    ),
    fields: FIELDS,
    name: "test_id",
    question: &["question"],
    distinctive: &["question", "agent_used", "expected_answer_type"],
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
    has_threshold: true,
    components: COMPONENTS,
    columns: COLUMNS,
    verdict: ("/final_score", "/passed"),
    reasoning: |result| COMPONENTS.first()?.words(Some(result)),
    samples: include_str!("samples.jsonl"),
    ..About::DEFAULT
};
