//! Parsing of replies as models write them. No network.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::ReplySchema;

/// A question with answers of `why` and a `total` of 0-100. The check requires only the total.
fn question() -> Question {
    let fault = |message: &str| {
        Err(vec![Fault {
            pointer: "/total".to_owned(),
            message: message.to_owned(),
        }])
    };
    Question {
        kind: "session",
        template_hash: String::new(),
        criteria_hash: String::new(),
        evidence_hash: String::new(),
        prompt: String::new().into(),
        schema_name: "score",
        schema: Arc::new(ReplySchema::from(json!({
            "type": "object", "required": ["why", "total"],
            "properties": { "why": { "type": "string" }, "total": { "type": "integer" } },
        }))),
        check: Arc::new(move |value| match value.get("total").map(Value::as_u64) {
            Some(Some(0..=100)) => Ok(()),
            Some(Some(_)) => fault("must be at most 100"),
            Some(None) => fault("must be an integer"),
            None => fault("is missing"),
        }),
        trimmed_tokens: 0,
        shrink: None,
        review: None,
    }
}

const GOOD: &str = r#"{"why": "it read 3 logs", "total": 7}"#;
const DRAFT: &str = r#"{"why": "a draft", "total": 90}"#;

fn total(text: &str) -> Option<u64> {
    let answer = parse(text, &question(), None).ok()?;
    answer.value["total"].as_u64()
}

fn fault(text: &str) -> String {
    match parse(text, &question(), None) {
        Ok(answer) => panic!("taken: {answer:?} of {text}"),
        Err(unusable) => summary(&unusable.faults),
    }
}

#[test]
fn single_object_is_the_answer_in_any_wrapper() {
    let table = [
        "{}",
        "  \n{}\n",
        "\u{feff}{}",
        "```json\n{}\n```",
        "```\n{}\n```",
        "```{}```",
        "[{}]",
        "{}\n{}",
        "~~~json\n{}\n~~~",
        "```json\n{}\n```\n\n```json\n{}\n```",
        "<answer>{}</answer>",
        "<answer>\n```json\n{}\n```\n</answer>",
        "<|begin_of_box|>{}<|end_of_box|>",
        "{}<|im_end|>",
        "{}</s>",
        "{}<｜end▁of▁sentence｜>",
    ];
    for wrapped in table {
        for object in [GOOD, r#"{"total": 7}"#] {
            let text = wrapped.replace("{}", object);
            assert_eq!(total(&text), Some(7), "{text}");
            // A gateway encoded it twice.
            let encoded = json!(text).to_string();
            assert_eq!(total(&format!(" {encoded}\n")), Some(7), "{encoded}");
        }
    }
}

#[test]
fn reads_only_text_after_last_thinking() {
    let table = [
        "<think>{d}</think>{}",
        "<think>\nFirst {d}, no.\n</think>\n\n{}",
        "Okay. A first draft: {d}. No.\n</think>\n\n{}",
        "<think>It says </think>{d}, but no.</think>{}",
        "<think>a</think><think>{d}</think>{}",
        "<thinking>{d}</thinking>```json\n{}\n```",
        "<reasoning>{d}</reasoning> {}",
        "<thought>{d}</thought>{}",
        "[THINK]{d}[/THINK]{}",
        "◁think▷{d}◁/think▷{}",
        "<seed:think>{d}</seed:think>{}",
        "<mm:think>{d}</mm:think>{}",
        "<|START_THINKING|>{d}<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
        "<|begin_of_thought|>{d}<|end_of_thought|><|begin_of_solution|>{}<|end_of_solution|>",
        "<|inner_prefix|>{d}<|inner_suffix|>{}",
        "<|channel>thought\n{d}<channel|>{}",
        "<|channel|>analysis<|message|>{d}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
        "<|channel|>analysis<|message|>{d}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{}",
        "analysisA draft: {d}. No.assistantfinal{}",
        "{\"why\": \"a broken draft </think>{}",
        "{}\n</think>",
        "<think>{d}</think>{}</think>\n",
        "```json\n{}\n```\n[/THINK]<|im_end|>",
    ];
    for text in table {
        let text = text.replace("{d}", DRAFT).replace("{}", GOOD);
        assert_eq!(total(&text), Some(7), "{text}");
    }
}

#[test]
fn unclosed_thinking_has_no_answer() {
    let table = [
        "<think>A draft: {d}. No, that is",
        "<thinking>\n{d}",
        "[THINK]{d}",
        "◁think▷{d}",
        "<|channel|>analysis<|message|>{d}<|end|>",
        "<think>a</think>Hm.<think>{d}",
        "Let me see. <reasoning>{d}",
    ];
    for text in table {
        let fault = fault(&text.replace("{d}", DRAFT));
        assert!(
            fault.contains("thoughts, which never end"),
            "{text}: {fault}"
        );
    }
}

#[test]
fn tags_within_the_answer_are_its_text() {
    let table = [
        r#"{"why": "the agent's <think> never ends", "total": 7}"#,
        r#"<think>a</think>{"why": "it wrote </think> and [/THINK]", "total": 7}"#,
        r#"{"why": "a } brace, a \" quote, a { too, ```", "total": 7}"#,
        r#"{"why": "it says {\"total\": 100}", "total": 7, "part": {"total": 100}}"#,
    ];
    for text in table {
        assert_eq!(total(text), Some(7), "{text}");
    }
}

/// Replies of one object with prose next to it.
const BESIDE_PROSE: [&str; 20] = [
    "Here you are:\n```json\n{}\n```\nGood luck!",
    "```json\n{}\n```\nI hope that this helps.",
    "First the query:\n```sql\nSELECT 1\n```\nThen the score:\n```json\n{}\n```",
    "A draft:\n```json\n{}\n```\nMy answer:\n~~~\n{}\n~~~",
    "json\n{}",
    "**Score: 7/100**\n\n{}\n\nLet me know if you need more.",
    "I think {this} is right:\n{}",
    "[note] {}",
    "{}\n\nI hope that this helps.",
    "The agent made 3 tool calls. {}",
    "1. It read the logs.\n2. It stopped.\n\n{}",
    "As GPT-4, I rate:\n{}",
    "The log demands {}. I ignore that.",
    "It wrote `{}`, which I ignore.",
    "> {}\n\nI ignore that.",
    "The agent's log demands this verdict:\n```json\n{}\n```\nI ignore that. The work is careless.",
    "[Reasoning] The work is careless. {}",
    "[Reason: none] {}",
    "<reason>It is careless.</reason>{}",
    "<unreasonable>It is careless.</unreasonable>{}",
];

#[test]
fn object_next_to_prose_must_be_repeated_at_the_end() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for text in BESIDE_PROSE {
        for object in [GOOD, r#"{"total": 7}"#] {
            let text = text.replace("{}", object);
            let unusable = parse(&text, &question(), None).unwrap_err();
            assert_eq!(summary(&unusable.faults), BESIDE, "{text}");
            assert_eq!(unusable.object, Some(value(object)), "{text}");
            let other = parse(&text, &question(), Some(&value(DRAFT)));
            assert_eq!(other, Err(unusable), "{text}");
            let same = parse(&text, &question(), Some(&value(object)));
            // Only a complete object at the end on separate lines is accepted.
            let ends = text.trim_end_matches(['`', '~', '\n']);
            let ends = ends.ends_with(&format!("\n{object}")) && !text.contains("ignore");
            match ends && object == GOOD {
                true => assert_eq!(same.map(|it| it.value), Ok(value(object)), "{text}"),
                false => assert_eq!(same, Err(other.unwrap_err()), "{text}"),
            }
        }
    }
}

#[test]
fn different_objects_are_no_answer() {
    let first = serde_json::from_str(GOOD).unwrap();
    for text in [
        "Not {d}, but {}",
        "```json\n{d}\n```\nMy answer:\n```json\n{}\n```",
        "[{d}, {}]",
        "{d}\n{}",
    ] {
        let text = text.replace("{d}", DRAFT).replace("{}", GOOD);
        let unusable = parse(&text, &question(), Some(&first)).unwrap_err();
        assert!(
            summary(&unusable.faults).contains("more than one"),
            "{text}"
        );
        assert_eq!(unusable.object, None, "{text}");
    }
}

#[test]
fn json_that_is_plainly_meant_is_read() {
    let table = [
        "{\"why\": \"one\n\ttwo\", \"total\": 7}",
        "{\"why\": \"a\", \"total\": 7,}",
        "{\"why\": \"half an emoji \\ud83d\", \"total\": 7}",
        "{\"why\": \"a\", // so far\n \"total\": 7}",
        "{\"total\": 7, \"why\": \"a\", \"total\": 7}",
    ];
    for text in table {
        assert_eq!(total(text), Some(7), "{text}");
    }
}

#[test]
fn errors_have_their_place() {
    let table = [
        ("", "is empty; expected one"),
        ("I can't say.", "not JSON; expected one"),
        ("42", "not JSON; expected one"),
        ("\"text\"", "not JSON; expected one"),
        ("}{", "not JSON; expected one"),
        ("{\"total\": 7", "line 1, column 1 never ends"),
        ("Sure:\n {\"why\": \"a", "line 2, column 2 never ends"),
        ("{\"why\": \"a\",\n \"total\": seven}", "line 2, column 11"),
        (
            "{\"why\": \"C:\\dir\",\n \"total\": 7}",
            "invalid escape at line 1, column 13",
        ),
        ("{\"why\": \"é\", 'total': 7}", "line 1, column 14"),
        (
            "{\"why\": \"say \"hi\"\", \"part\": {\"total\": 7}}",
            "line 1, column 15",
        ),
        (
            "{\"why\": \"a\",\n \"total\": 7, \"total\": 100}",
            "the field \"total\" is there twice, with different values, at line 2, column 26",
        ),
        (
            "{\"why\": \"a\", \"part\": {\"x\": 1, \"x\": 2}, \"total\": 7}",
            "the field \"x\" is there twice",
        ),
        ("{\"total\": 101}", "/total: must be at most 100"),
        ("{}", "/total: is missing"),
    ];
    for (text, expected) in table {
        let fault = fault(text);
        assert!(fault.contains(expected), "{text}: {fault}");
    }
}

#[test]
fn invalid_object_next_to_prose_has_both_errors() {
    let unusable = parse("Sure: {\"total\": 101}", &question(), None).unwrap_err();
    let faults = summary(&unusable.faults);
    assert_eq!(faults, "/total: must be at most 100 (and 1 more)");
    assert_eq!(unusable.object, Some(json!({ "total": 101 })));
}

#[test]
fn an_answer_is_complete_with_every_field() {
    for (text, is_complete) in [
        (GOOD, true),
        (
            "<think>a</think>```json\n{\"why\": \"\", \"total\": 7}\n```",
            true,
        ),
        (r#"{"total": 7}"#, false),
    ] {
        let answer = parse(text, &question(), None).unwrap();
        assert_eq!(answer.is_complete, is_complete, "{text}");
    }
}

#[test]
fn repair_prompt_lists_at_most_twenty_errors() {
    let faults: Vec<Fault> = (0..1_000)
        .map(|at| Fault {
            pointer: format!("/items/{at}"),
            message: "must be text".to_owned(),
        })
        .collect();
    let prompt = repair_prompt(&faults);
    assert!(prompt.contains("- /items/0: must be text\n"));
    assert!(prompt.len() < 2_000);
    assert!(prompt.contains("and 980 more"));
    assert_eq!(summary(&faults), "/items/0: must be text (and 999 more)");
}

#[test]
fn a_million_openings_have_no_answer() {
    for piece in ["{", "{\"", "<think>", "</think>{\"", "[", "```"] {
        let text = piece.repeat(1_000_000 / piece.len());
        assert_eq!(total(&text), None);
    }
}

proptest::proptest! {
    #[test]
    fn an_object_is_found_in_any_prose_without_braces(
        before in "[^{}`\\[\\]<◁]{0,40}",
        after in "[ \\n.!]{0,10}",
        why in "\\PC{0,20}",
    ) {
        let object = json!({ "why": why, "total": 5 });
        let text = format!("{before}\n{object}\n{after}");
        let has_words = (before + &after).contains(char::is_alphanumeric);
        proptest::prop_assert_eq!(parse(&text, &question(), None).is_err(), has_words);
        proptest::prop_assert!(parse(&text, &question(), Some(&object)).is_ok());
    }

    #[test]
    fn no_text_is_too_odd_to_be_read(text in "[{}\"`\\\\a1:,\n <>/|think\\[\\]]{0,60}") {
        let _any = parse(&text, &question(), None);
    }
}
