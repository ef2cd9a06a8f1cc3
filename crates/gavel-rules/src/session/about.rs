use crate::Field;
use crate::about::{About, Column, Component, CriteriaForm, Origin, STATUS};
use crate::criteria::{ALERT, CONVERSATION, SCHEMA};

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
    name: "session_id",
    question: &["session_id"],
    components: COMPONENTS,
    columns: COLUMNS,
    judge: None,
    // Every session score needs a judge.
    is_computed: |_| false,
    reasoning: |result| result.get("score_reasoning")?.as_str(),
    samples: include_str!("samples.jsonl"),
    ..About::DEFAULT
};
