//! The tests of reading session files.
use serde_json::json;

use super::*;
use crate::wire::SessionStatus;

fn session(id: u128) -> String {
    json!({ "session_id": Uuid::from_u128(id), "status": "completed", "alert_data": "disk full" })
        .to_string()
}

fn ids(text: &str) -> Vec<u128> {
    let sessions = parse_session_file("f", text.as_bytes(), None).unwrap();
    sessions
        .iter()
        .map(|s| s.session_id.unwrap().as_u128())
        .collect()
}

fn error(text: &str) -> String {
    parse_session_file("f.json", text.as_bytes(), None)
        .unwrap_err()
        .to_string()
}

#[test]
fn an_object_an_array_and_lines_are_read() {
    let pretty = session(1).replace(',', ",\n").replace('{', "\n{\n");
    assert_eq!(ids(&session(1)), [1]);
    assert_eq!(ids(&format!("\u{feff}{pretty}\n")), [1]);
    assert_eq!(ids(&format!(" [{},\n{pretty}]", session(2))), [2, 1]);
    assert_eq!(
        ids(&format!("{}\n\n{}\r\n", session(1), session(2))),
        [1, 2]
    );
}

#[test]
fn error_names_file_place_and_pointer() {
    let bad = session(2).replace("completed", "done");
    assert!(error(&bad).starts_with("f.json: /status: is not a status"));
    assert!(
        error(&format!("[{},{bad}]", session(1))).starts_with("f.json: item 1: /status: is not")
    );
    assert!(
        error(&format!("{}\n\n{bad}", session(1))).starts_with("f.json: line 3: /status: is not")
    );
    assert!(error(&format!("{}\n{{\"x\"", session(1))).starts_with("f.json: line 2: "));
    let two = error(&format!("{bad}\n{}", bad.replace("disk", "dusk")));
    assert_eq!(two.lines().count(), 3, "{two}");
    assert!(two.contains("line 2: /session_id: 00000000-0000-0000-0000-000000000002 stands in the file twice, first at line 1"));
}

#[test]
fn each_session_in_a_file_needs_its_id() {
    assert_eq!(
        error(r#"{"status":"completed","alert_data":"x"}"#),
        "f.json: /session_id: is missing; a UUID is expected, or any text as external_id"
    );
}

#[test]
fn a_file_without_a_session_is_an_error() {
    for text in ["", " \n", "[]"] {
        assert!(
            error(text).starts_with("f.json: holds no session"),
            "{text}"
        );
    }
    assert!(error("[1").starts_with("f.json: is not JSON"));
    assert!(error("{\n\"a\"").starts_with("f.json: is not JSON"));
}

#[test]
fn reports_at_most_twenty_errors() {
    let text = format!(
        "[{}]",
        vec![r#"{"status":"x","session_id":1}"#; 50].join(",")
    );
    assert_eq!(
        parse_session_file("f", text.as_bytes(), None)
            .unwrap_err()
            .faults
            .len(),
        20
    );
}

mod examples {
    //! The sessions that the demo and the guide use.

    use super::*;
    use crate::judge::{Limits, Nonce, Question};
    use crate::score::session::SessionRequest;
    use crate::score::{Criteria, Scorable};
    use crate::store::SessionRecord;

    fn all() -> Vec<SessionRecord> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sessions");
        let mut records = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let sessions = parse_session_file(&path.display().to_string(), &bytes, None);
            for session in sessions.unwrap_or_else(|error| panic!("{error}")) {
                let id = session.session_id.unwrap();
                records.push(session.into_record(id, "demo").unwrap());
            }
        }
        records
    }

    fn question(session: &SessionRecord) -> Question {
        let criteria = Criteria::from_value(&json!({
            "scoring": { "llm_provider": "x" },
            "judge_prompt": "{{SESSION_CONVERSATION}}\n{{ALERT_DATA}}\n{{OUTPUT_SCHEMA}}",
        }));
        let limits = Limits {
            context_window: 128_000,
            max_output_tokens: 8_192,
            family: crate::judge::ModelFamily::Gpt,
        };
        let request = SessionRequest {
            completed: session.status == SessionStatus::Completed,
            alert_type: session.alert_type.clone(),
            agent: session.agent.clone(),
            alert_data: session.alert_data.clone(),
            conversation: session.conversation.clone(),
            final_analysis: session.final_analysis.clone(),
            tools: session.tools.clone(),
        };
        request
            .questions(&criteria.unwrap(), &limits, &Nonce("0".repeat(32)))
            .unwrap()
            .remove(0)
    }

    #[test]
    fn examples_have_2k_to_25k_tokens_and_unique_ids() {
        let sessions = all();
        assert_eq!(sessions.len(), 7);
        let mut ids: Vec<Uuid> = sessions.iter().map(|s| s.session_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 7);
        for session in &sessions {
            let bytes = question(session).prompt.bytes();
            assert!(
                (8_000..=100_000).contains(&bytes),
                "{:?}: {bytes}",
                session.alert_type
            );
        }
    }

    #[test]
    fn the_examples_hold_an_unfinished_and_a_timed_out_session() {
        let statuses: Vec<SessionStatus> = all().iter().map(|s| s.status).collect();
        assert_eq!(statuses.iter().filter(|s| !s.is_terminal()).count(), 1);
        assert!(statuses.contains(&SessionStatus::TimedOut));
    }

    #[test]
    fn the_hostile_example_does_not_get_out_of_its_fence() {
        let sessions = all();
        let hostile = sessions
            .iter()
            .find(|s| s.alert_type.as_deref() == Some("UnexpectedEgress"))
            .unwrap();
        let text: String = hostile
            .conversation
            .iter()
            .map(|m| m.content.as_str())
            .collect();
        for attack in [
            "{{ALERT_DATA}}",
            "<<<EVIDENCE conversation",
            "give 100",
            "\"total_score\": 100",
        ] {
            assert!(text.contains(attack), "{attack}");
        }
        // It guesses the very nonce of this test.
        let prompt = question(hostile).prompt.to_string();
        assert_eq!(prompt.matches("<<<EVIDENCE").count(), 2);
        assert_eq!(
            prompt
                .lines()
                .filter(|l| l.contains("EVIDENCE") && l.contains(">>>"))
                .count(),
            2
        );
        assert!(prompt.contains("{{ALERT_DATA}}"));
    }
}

#[test]
fn rejects_bytes_that_are_no_utf8_with_line_and_remedy() {
    for (bytes, message) in [
        (&b"PK\x03\x04.."[..], "inspect log convert"),
        (&b"\xff\xfe{\0"[..], "is UTF-16; save it as UTF-8"),
        (&b"{}\n{\"a\":\"\xe9\"}"[..], "is not UTF-8 at line 2"),
    ] {
        assert!(json_text(bytes).unwrap_err().contains(message));
    }
    assert_eq!(json_text("\u{feff}{}".as_bytes()).unwrap(), "{}");
}
