mod demands;
mod fitting;
mod prompts;
mod replies;

use serde_json::json;

use super::*;
use crate::ModelFamily;

pub(super) const LIMITS: Limits = Limits {
    context_window: 128_000,
    max_output_tokens: 8_192,
    family: ModelFamily::Gpt,
};

pub(super) fn criteria() -> Criteria {
    Criteria::from_value(&json!({
        "scoring": { "llm_provider": "openai-default" },
        "judge_prompt": "FRAMEWORK\n\n{{SESSION_CONVERSATION}}\n\nALERT: {{ALERT_DATA}} END\n\nREFOCUS\n{{OUTPUT_SCHEMA}}\n",
    }))
    .unwrap()
}

pub(super) fn message(role: &str, content: &str) -> Message {
    Message {
        role: role.to_owned(),
        content: content.to_owned(),
        ..Message::default()
    }
}

pub(super) fn session() -> SessionRequest {
    SessionRequest {
        completed: true,
        alert_type: Some("PodCrashLooping".to_owned()),
        agent: Some("kubernetes-agent".to_owned()),
        alert_data: json!({ "severity": "critical", "namespace": "shop" }),
        conversation: vec![
            message("user", "Look into it."),
            Message {
                tool_name: Some("kubectl.get_pods".to_owned()),
                at: Some("2026-03-02T10:00:00Z".to_owned()),
                ..message("tool", "NAME READY\ncart-0 0/1")
            },
        ],
        final_analysis: Some("The pod ran out of memory.".to_owned()),
        tools: vec!["kubectl.get_pods".to_owned(), "kubectl.logs".to_owned()],
    }
}

pub(super) fn question(session: &SessionRequest, nonce: &str) -> Question {
    session
        .questions(&criteria(), &LIMITS, &Nonce(nonce.to_owned()))
        .unwrap()
        .remove(0)
}

#[test]
fn rating_bands_match_the_rules() {
    let cases = [
        (0, "failed"),
        (44, "failed"),
        (45, "weak"),
        (59, "weak"),
        (60, "adequate"),
        (74, "adequate"),
        (75, "good"),
        (89, "good"),
        (90, "near_perfect"),
        (100, "near_perfect"),
    ];
    for (total, word) in cases {
        assert_eq!(Rating::from_total(total).as_str(), word, "{total}");
    }
}
