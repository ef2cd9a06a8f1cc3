use super::{FIELDS, QueryCase};
use crate::about::{About, Column, Component, CriteriaForm, Details, Origin, STATUS, Sides};
use crate::criteria::{EXPECTED_QUERY, GENERATED_QUERY, QUESTION, SCHEMA};

/// Returns a component. If execution failed, its score is a real 0.
const fn query_part(
    name: &'static str,
    title: &'static str,
    column: &'static str,
    at: &'static str,
) -> Component {
    Component {
        counts_with_error: true,
        ..Component::new(name, title, column, at)
    }
}

const COMPONENTS: &[Component] = &[
    Component {
        details: Details::Columns,
        ..query_part(
            "schema_match",
            "Schema",
            "Schema Match Score",
            "/components/schema_match",
        )
    },
    query_part(
        "semantic_similarity",
        "Semantic",
        "Semantic Similarity Score",
        "/components/semantic_similarity",
    ),
    query_part(
        "results_match",
        "Results",
        "Results Match Score",
        "/components/results_match",
    ),
    Component {
        details: Details::Reasons,
        ..query_part(
            "llm_grading",
            "LLM",
            "LLM Grading Score",
            "/components/llm_grading",
        )
    },
];

const COLUMNS: &[Column] = &[
    Column("ID", 16, Origin::Id),
    Column("Prompt", 40, Origin::Payload(&["prompt"])),
    Column("Generated KQL", 50, Origin::Payload(&["generated_kql"])),
    Column("Expected KQL", 50, Origin::Payload(&["expected_kql"])),
    Column("Execution Error", 24, Origin::Payload(&["generated_error"])),
    Column("Total Score", 11, Origin::Total),
    Column(STATUS, 13, Origin::Status),
    Column("Schema Match Score", 12, Origin::Score(0)),
    Column("Semantic Similarity Score", 12, Origin::Score(1)),
    Column("Results Match Score", 12, Origin::Score(2)),
    Column("LLM Grading Score", 12, Origin::Score(3)),
    Column("LLM Reasoning", 60, Origin::Reasoning),
    Column("Threshold", 10, Origin::Threshold),
];

pub const ABOUT: About = About {
    title: "Query",
    items: "generated, expected",
    read: |payload| QueryCase::read(payload).map(|case| Box::new(case) as _),
    criteria: CriteriaForm {
        keys: &["ignore_case"],
        placeholders: &[QUESTION, EXPECTED_QUERY, GENERATED_QUERY, SCHEMA],
        ..CriteriaForm::OF_CASE
    },
    built_in_criteria: (
        "query.yaml",
        include_str!("../../../../config/criteria/query.yaml"),
    ),
    fields: FIELDS,
    question: &["prompt", "generated_kql"],
    distinctive: &["generated_kql", "expected_kql"],
    sides: Sides {
        generated: "generated_kql",
        expected: "expected_kql",
        generated_rows: "generated_results",
        expected_rows: "expected_results",
    },
    execution_error: Some("generated_error"),
    is_in_percent: true,
    has_threshold: true,
    components: COMPONENTS,
    columns: COLUMNS,
    verdict: ("/total_score", "/is_successful"),
    reasoning: |result| COMPONENTS.last()?.words(Some(result)),
    samples: include_str!("samples.jsonl"),
    ..About::DEFAULT
};
