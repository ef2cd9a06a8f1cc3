use serde_json::{Value, json};

use crate::about::{About, Column, Component, CriteriaForm, Origin, STATUS, Sides};
use crate::criteria::{ALERT, CONVERSATION, SCHEMA};
use crate::reading::Spelling;
use crate::{Fault, Field};

const COMPONENTS: &[Component] = &[Component::new(
    "total_score",
    "Score of 100",
    "Session Score",
    "/total_score",
)];

const COLUMNS: &[Column] = &[
    Column("Session ID", 38, Origin::Payload(&["session_id"])),
    Column("Session Score", 11, Origin::Score(0)),
    Column(STATUS, 13, Origin::Status),
    Column("LLM Reasoning", 60, Origin::Reasoning),
    Column("Judge", 20, Origin::Payload(&["judge"])),
];

pub const ABOUT: About = About {
    title: "Session",
    items: "ids of stored sessions",
    read: |_| {
        Err(vec![Fault {
            pointer: String::new(),
            message: "a session is no case: it is scored by its id".to_owned(),
        }])
    },
    criteria: CriteriaForm {
        keys: &["dimensions", "judge"],
        placeholders: &[CONVERSATION, ALERT, SCHEMA],
        answer_placeholders: &[],
        is_of_session: true,
    },
    built_in_criteria: (
        "scoring_config.yaml",
        include_str!("../../../../config/scoring_config.yaml"),
    ),
    fields: &[Field::text("session_id"), Field::flag("force_rescore")],
    spelling: Spelling::Snake,
    name: "session_id",
    question: &["session_id"],
    distinctive: &[],
    sides: Sides {
        generated: "generated_sql",
        expected: "expected_sql",
        generated_rows: "actual_results",
        expected_rows: "expected_results",
    },
    execution_error: None,
    line_fields: &[],
    asks_agents: false,
    is_grouped: false,
    is_in_percent: false,
    has_threshold: false,
    deadline: None,
    components: COMPONENTS,
    columns: COLUMNS,
    verdict: ("/total", "/passed"),
    judge: None,
    // Every session score needs a judge.
    is_computed: |_| false,
    reasoning: |result| result.get("score_reasoning")?.as_str(),
    stamp: |_, _| {},
    samples,
};

fn samples() -> [Value; 2] {
    [
        json!({"session_id": "00000000-0000-7000-8000-000000000001"}),
        json!({"session_id": "00000000-0000-7000-8000-000000000002"}),
    ]
}
