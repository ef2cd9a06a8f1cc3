//! Meanings of error bodies. Their shapes are from public reports and from the servers' source; the values are invented.
//!
//! `bodies.jsonl` is the table: a server, a meaning, a status and a body each. The table in `docs/judges.md` is generated from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::entries::Providers;
use crate::provider::WireFormat;
use crate::provider::{FORMATS, openai, shape};

#[derive(Deserialize)]
struct Case {
    server: String,
    meaning: String,
    status: u16,
    #[serde(default = "openai")]
    family: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    wait_s: Option<f64>,
    body: Value,
}

fn openai() -> String {
    "openai".to_owned()
}

/// The meanings, as the docs head their columns, and their names in `bodies.jsonl`.
const COLUMNS: [(&str, &[&str]); 10] = [
    ("throttled", &["throttled"]),
    ("exhausted", &["exhausted"]),
    ("too large", &["too large"]),
    ("refused", &["refused"]),
    ("field", &["temperature", "max_completion_tokens", "seed"]),
    ("schema", &["schema"]),
    ("another turn", &["another turn", "cut off"]),
    ("key, model, cap", &["key or model", "cap"]),
    ("probed", &["unclear"]),
    ("transient", &["transient"]),
];

impl Case {
    fn all() -> Vec<Self> {
        let lines = include_str!("bodies.jsonl").lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn format(&self) -> &'static WireFormat {
        let mut formats = FORMATS.into_iter();
        formats.find(|format| format.name == self.family).unwrap()
    }

    fn body(&self) -> Vec<u8> {
        let text = self.body.as_str().map(str::to_owned);
        text.unwrap_or_else(|| self.body.to_string()).into_bytes()
    }

    fn expected(&self) -> Meaning {
        use ErrorClass::{
            Exhausted, Misconfigured, Refused, Rejected, Throttled, TooLarge, Transient, Truncated,
            Unparsable,
        };
        Meaning::Class(match self.meaning.as_str() {
            "throttled" => Throttled,
            "exhausted" => Exhausted,
            "too large" => TooLarge,
            "refused" => Refused,
            "another turn" => Unparsable,
            "cut off" => Truncated,
            "key or model" => Misconfigured,
            "transient" => Transient,
            "rejected" => Rejected,
            "unclear" => return Meaning::Unclear,
            "cap" => return Meaning::Cap,
            "temperature" => return Meaning::Field("temperature"),
            "max_completion_tokens" => return Meaning::Field(shape::NEW_CAP),
            "seed" => return Meaning::Field("seed"),
            "schema" => return Meaning::Field(shape::FORMAT),
            other => panic!("unknown meaning {other}"),
        })
    }
}

fn sent(format: &WireFormat) -> Shape {
    let entry = json!({"j": {
        "type": format.name, "base_url": "http://h/v1", "model": "m", "auth": "none", "extra_body": {"seed": 7},
    }});
    let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
    Shape::start(providers.spec("j").unwrap().entry())
}

fn of(status: u16, body: &str) -> Meaning {
    let format = &openai::FORMAT;
    let body = ErrorBody::read(body.as_bytes());
    meaning(format, status, &body, &sent(format))
}

#[test]
fn each_server_s_errors_have_their_meaning_and_their_delay() {
    let now = "2026-11-06T08:49:30Z".parse().unwrap();
    let mut wrong = Vec::new();
    for case in Case::all() {
        let headers = headers_of(&case.headers);
        let body = ErrorBody::read(&case.body());
        let format = case.format();
        let read = meaning(format, case.status, &body, &sent(format));
        let wait = match read {
            Meaning::Class(class) => format.wait(class, &headers, &body, now),
            Meaning::Field(_) | Meaning::Unclear | Meaning::Cap => None,
        };
        if read != case.expected() || wait != case.wait_s.map(Duration::from_secs_f64) {
            wrong.push(format!(
                "{} {}: expected {} {:?}, read {read:?} {wait:?}: {}",
                case.server, case.status, case.meaning, case.wait_s, case.body
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn headers_of(pairs: &BTreeMap<String, String>) -> reqwest::header::HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| {
            let name = reqwest::header::HeaderName::try_from(name).unwrap();
            (name, value.parse().unwrap())
        })
        .collect()
}

#[test]
fn the_docs_show_the_table() {
    let mut cells: BTreeMap<(String, &str), BTreeSet<u16>> = BTreeMap::new();
    let mut servers: Vec<String> = Vec::new();
    for case in Case::all() {
        if !servers.contains(&case.server) {
            servers.push(case.server.clone());
        }
        let column = COLUMNS
            .iter()
            .find(|(_, names)| names.contains(&case.meaning.as_str()));
        if let Some((column, _)) = column {
            let cell = cells.entry((case.server, column)).or_default();
            cell.insert(case.status);
        }
    }
    let heads: Vec<&str> = COLUMNS.iter().map(|(head, _)| *head).collect();
    let mut table = format!(
        "| server | {} |\n|{}\n",
        heads.join(" | "),
        " --- |".repeat(heads.len() + 1)
    );
    for server in servers {
        let cells = heads.iter().map(|head| {
            let statuses = cells.get(&(server.clone(), *head)).into_iter().flatten();
            let statuses: Vec<String> = statuses.map(u16::to_string).collect();
            statuses.join(", ")
        });
        let cells: Vec<String> = cells.collect();
        table.push_str(&format!("| {server} | {} |\n", cells.join(" | ")));
    }
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/judges.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    assert!(
        docs.contains(&table),
        "docs/judges.md needs this table:\n{table}"
    );
}

#[test]
fn ignores_unsent_fields_and_parts_of_longer_names() {
    for body in [
        r#"{"error": {"message": "bad temperature", "param": "messages"}}"#,
        r#"{"error": {"message": "max_tokens is wrong"}}"#,
        r#"{"error": {"message": "temperatures and seeds are odd"}}"#,
    ] {
        assert_eq!(
            of(400, body),
            Meaning::Class(ErrorClass::Rejected),
            "{body}"
        );
    }
}

#[test]
fn a_rejected_seed_is_named_in_every_format() {
    let body = r#"{"error": {"message": "seed: Extra inputs are not permitted"}}"#;
    let body = ErrorBody::read(body.as_bytes());
    for format in FORMATS {
        let read = meaning(format, 400, &body, &sent(format));
        assert_eq!(read, Meaning::Field("seed"), "{}", format.name);
    }
}

#[test]
fn an_output_cap_that_is_too_high_is_not_renamed() {
    for (param, message) in [
        ("max_tokens", "max_tokens is too large: 32768."),
        (
            "max_completion_tokens",
            "this model supports at most 16384 completion tokens",
        ),
        (
            "max_completion_tokens",
            "integer above maximum value. Expected a value <= 16384",
        ),
    ] {
        let body = json!({"error": { "message": message, "param": param }}).to_string();
        assert_eq!(of(400, &body), Meaning::Cap, "{body}");
    }
}

#[test]
fn an_output_cap_named_for_another_reason_is_not_too_high() {
    for message in [
        "max_tokens must be a positive integer",
        "The list has at most 5 entries. max_tokens is ignored.",
        "messages: at most 100 are accepted",
    ] {
        let body = json!({"error": { "message": message }}).to_string();
        let rejected = Meaning::Class(ErrorClass::Rejected);
        assert_eq!(of(400, &body), rejected, "{body}");
    }
}

#[test]
fn star_in_pattern_matches_within_one_sentence() {
    let mentions = |text: &str| ErrorBody::read(text.as_bytes()).mentions("model*not found");
    for text in [
        "model 'gpt-4.1' not found",
        "This model reads text. The model m is not found.",
    ] {
        assert!(mentions(text), "{text}");
    }
    for text in [
        "The model answered. A file was not found.",
        "The model answered!\nA file was not found.",
        "The model of this deployment wanted to read the file that the prompt names, which was not found",
        "not found: the model",
    ] {
        assert!(!mentions(text), "{text}");
    }
}

#[test]
fn text_of_a_proxy_is_ignored() {
    let page = "<html>The site exceeded its spending limit, per day</html>";
    assert_eq!(of(503, page), Meaning::Class(ErrorClass::Transient));
    assert_eq!(of(521, page), Meaning::Class(ErrorClass::Transient));
    assert_eq!(of(403, page), Meaning::Class(ErrorClass::Exhausted));
}

#[test]
fn message_has_no_markup_and_no_echoed_input() {
    let words = |body: &str| ErrorBody::read(body.as_bytes()).summary();
    let table = [
        (
            "<html><h1>502 Bad Gateway</h1><hr>nginx</html>",
            "502 Bad Gateway nginx",
        ),
        (
            r#"{"detail": [{"msg": "too short", "input": "SECRET PROMPT"}]}"#,
            "too short",
        ),
        (
            r#"{"message": "{\"detail\": [{\"loc\": [\"body\", \"n\"], \"msg\": \"Extra inputs\", \"input\": \"SECRET\"}]}"}"#,
            "Extra inputs",
        ),
        (
            r#"{"message": "1 error: {'loc': ('body', 'n'), 'msg': 'Extra inputs', 'input': 'SECRET'}"}"#,
            "1 error: {'loc': ('body', 'n'), 'msg': 'Extra inputs',",
        ),
        (
            r#"{"error": {"message": "Provider returned error", "metadata": {"raw": "{\"error\": {\"message\": \"no images\"}}"}}}"#,
            "Provider returned error; no images",
        ),
        (
            r#"{"message": "litellm: Exception - {\"error\": {\"message\": \"too hot\"}}. Received Model Group=m"}"#,
            "litellm: Exception; too hot; Received Model Group=m",
        ),
        (
            r#"{"message": "unknown keys in {\"a\": 1} of the schema"}"#,
            r#"unknown keys in {"a": 1} of the schema"#,
        ),
        ("", "no reason given"),
        (r#"{"error": {"code": "overloaded"}}"#, "overloaded"),
    ];
    for (body, expected) in table {
        assert_eq!(words(body), expected, "{body}");
    }
}

#[test]
fn errors_inside_errors_are_followed_to_an_end() {
    let mut body = json!({"code": "insufficient_quota"});
    for _ in 0..200 {
        body = json!({"error": [body]});
    }
    assert_eq!(
        of(400, &body.to_string()),
        Meaning::Class(ErrorClass::Rejected)
    );
}
