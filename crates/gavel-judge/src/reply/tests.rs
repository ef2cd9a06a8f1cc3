//! Replies as models write them, and what is read of each. It calls nobody.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::ReplySchema;

/// A question whose answers have `why` and a `total` of 0-100, which alone is required by the check.
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
    let answer = parse(text, &question()).ok()?;
    answer.value["total"].as_u64()
}

fn fault(text: &str) -> String {
    match parse(text, &question()) {
        Ok(answer) => panic!("taken: {answer:?} of {text}"),
        Err(unusable) => summary(&unusable.faults),
    }
}

#[test]
fn an_object_alone_is_the_answer_however_it_is_wrapped() {
    let table = [
        "{}",
        "  \n{}\n",
        "\u{feff}{}",
        "```json\n{}\n```",
        "```\n{}\n```",
        "```{}```",
        "[{}]",
        "{}\n{}",
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
        }
    }
}

#[test]
fn only_what_stands_behind_the_last_thoughts_counts() {
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
    ];
    for text in table {
        let text = text.replace("{d}", DRAFT).replace("{}", GOOD);
        assert_eq!(total(&text), Some(7), "{text}");
    }
}

#[test]
fn thoughts_that_never_close_hold_no_answer() {
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

#[test]
fn a_whole_object_is_taken_from_prose_that_says_nothing_else() {
    let table = [
        "Here you are:\n```json\n{}\n```\nGood luck!",
        "Here is the JSON: {}",
        "json\n{}",
        "**Score: 7/100**\n\n{}\n\nLet me know if you need more.",
        "7 out of 100, after 3 logs:\n{}",
        "I think {this} is right:\n{}",
        "[note] {}",
        "The agent used k8s and gpt-4o.\n{}",
        "{}\n\nI hope that this helps.",
    ];
    for text in table {
        let text = text.replace("{}", GOOD);
        assert_eq!(total(&text), Some(7), "{text}");
    }
}

#[test]
fn an_object_that_may_be_quoted_is_no_answer() {
    let table = [
        (
            "It demands {\"total\": 100}. My verdict is 12.",
            "lacks /why",
        ),
        ("I would say 12. {\"total\": 7}", "lacks /why"),
        ("The log demands {d}. I ignore that.", "within a sentence"),
        ("It wrote `{d}`, which I ignore.", "within a sentence"),
        ("> {d}\n\nI ignore that.", "within a sentence"),
        (
            "The log demands:\n```json\n{d}\n```\nI ignore that: 12 of 100.",
            "says 12 beside",
        ),
        (
            "My own verdict is 12, as the log demands:\n{d}",
            "says 12 beside",
        ),
        ("{d}\nNo: 12.", "says 12 beside"),
        ("Not {d}, but {}", "more than one"),
        (
            "```json\n{d}\n```\nMy answer:\n```json\n{}\n```",
            "more than one",
        ),
        ("[{d}, {}]", "more than one"),
    ];
    for (text, expected) in table {
        let text = text.replace("{d}", DRAFT).replace("{}", GOOD);
        let fault = fault(&text);
        assert!(fault.contains(expected), "{text}: {fault}");
    }
}

#[test]
fn json_that_is_plainly_meant_is_read() {
    let table = [
        "{\"why\": \"one\n\ttwo\", \"total\": 7}",
        "{\"why\": \"a\", \"total\": 7,}",
        "{\"why\": \"half an emoji \\ud83d\", \"total\": 7}",
        "{\"why\": \"a\", // so far\n \"total\": 7}",
    ];
    for text in table {
        assert_eq!(total(text), Some(7), "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let table = [
        ("", "not JSON; expected one"),
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
        ("{\"total\": 101}", "/total: must be at most 100"),
        ("{}", "/total: is missing"),
    ];
    for (text, expected) in table {
        let fault = fault(text);
        assert!(fault.contains(expected), "{text}: {fault}");
    }
}

#[test]
fn a_faulty_object_with_every_field_is_known_as_whole() {
    for (text, is_whole) in [
        (r#"{"why": "a", "total": 101}"#, true),
        (r#"{"total": 101}"#, false),
    ] {
        let unusable = parse(text, &question()).unwrap_err();
        assert_eq!(unusable.is_whole, is_whole, "{text}");
    }
}

#[test]
fn an_answer_is_complete_with_every_field_and_without_prose() {
    let draft = format!("A draft:\n{GOOD}\nNo, that is too low; let me");
    for (text, is_complete) in [
        (GOOD, true),
        (
            "<think>a</think>```json\n{\"why\": \"\", \"total\": 7}\n```",
            true,
        ),
        (r#"{"total": 7}"#, false),
        (&draft, false),
    ] {
        let answer = parse(text, &question()).unwrap();
        assert_eq!(answer.is_complete, is_complete, "{text}");
    }
}

#[test]
fn the_repair_prompt_stays_short_for_a_reply_full_of_faults() {
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
fn a_reply_of_a_million_openings_holds_no_answer() {
    for piece in ["{", "{\"", "<think>", "</think>{\"", "[", "```"] {
        let text = piece.repeat(1_000_000 / piece.len());
        assert_eq!(total(&text), None);
    }
}

proptest::proptest! {
    #[test]
    fn an_object_is_found_in_any_prose_without_braces_and_numbers(
        before in "[^{}`\\[\\]<◁\\p{N}]{0,40}",
        after in "[^{}`\\[\\]<◁\\p{N}]{0,40}",
        why in "\\PC{0,20}",
    ) {
        let object = json!({ "why": why, "total": 5 });
        proptest::prop_assert_eq!(total(&format!("{before}\n{object}\n{after}")), Some(5));
    }

    #[test]
    fn no_text_is_too_odd_to_be_read(text in "[{}\"`\\\\a1:,\n <>/|think\\[\\]]{0,60}") {
        let _any = parse(&text, &question());
    }
}
