#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use serde_json::json;

use super::*;

fn session(id: u128) -> String {
    json!({ "session_id": Uuid::from_u128(id), "status": "completed", "alert_data": "disk full" })
        .to_string()
}

fn ids(text: &str) -> Vec<u128> {
    let sessions = parse_session_file("f", text).unwrap();
    sessions
        .iter()
        .map(|s| s.session_id.unwrap().as_u128())
        .collect()
}

fn error(text: &str) -> String {
    parse_session_file("f.json", text).unwrap_err().to_string()
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
fn a_fault_names_file_place_and_pointer() {
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
        "f.json: /session_id: is missing; a UUID is expected"
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
    assert!(error("[1").starts_with("f.json: not a JSON array"));
    assert!(error("{\n\"a\"").starts_with("f.json: "));
}

#[test]
fn no_more_than_twenty_faults_are_told() {
    let text = "[".to_owned() + &vec!["1"; 50].join(",") + "]";
    assert_eq!(parse_session_file("f", &text).unwrap_err().faults.len(), 20);
}
