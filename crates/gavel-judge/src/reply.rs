//! From a reply's text to a checked value, and the words that ask for a repair. It never calls and never retries.

use serde_json::Value;

use super::question::{Check, Fault};

/// Faults shown to the model at most; a wholly wrong reply needs no list of a thousand.
const MOST_FAULTS: usize = 20;
/// Blocks, and openings of objects, that are looked at in a reply's prose.
const MOST_OBJECTS: usize = 64;
const NO_JSON: &str = "the reply is not JSON; expected one JSON object and nothing else";
const SEVERAL: &str = "the reply holds more than one JSON object that could be the answer; expected one and nothing else";

/// Finds the reply's JSON object in the text and checks it.
///
/// A text that is one JSON value is that value. In prose, objects that pass the check must all be the same one: a model that
/// quotes an object out of the evidence before it gives its own hasn't said which of them counts.
pub(super) fn parse(text: &str, check: &Check) -> Result<Value, Vec<Fault>> {
    let mut least: Option<Vec<Fault>> = None;
    let mut passed: Option<Value> = None;
    for candidate in candidates(text) {
        match check(&candidate) {
            Ok(()) => match &passed {
                None => passed = Some(candidate),
                Some(first) if *first == candidate => {}
                Some(_) => return Err(vec![whole(SEVERAL)]),
            },
            // What fails least is what the model meant; on a tie, what stands first.
            Err(faults) => {
                if least.as_ref().is_none_or(|best| faults.len() < best.len()) {
                    least = Some(faults);
                }
            }
        }
    }
    passed.ok_or_else(|| least.unwrap_or_else(|| vec![whole(NO_JSON)]))
}

fn whole(message: &str) -> Fault {
    Fault {
        pointer: String::new(),
        message: message.to_owned(),
    }
}

/// What the model is told on its repair turn.
pub(super) fn repair_prompt(faults: &[Fault]) -> String {
    let mut prompt = String::from("Your reply above can't be used, for these reasons:\n");
    for fault in faults.iter().take(MOST_FAULTS) {
        let at = if fault.pointer.is_empty() {
            "the reply"
        } else {
            &fault.pointer
        };
        prompt.push_str(&format!("- {at}: {}\n", fault.message));
    }
    if faults.len() > MOST_FAULTS {
        prompt.push_str(&format!("- and {} more\n", faults.len() - MOST_FAULTS));
    }
    prompt.push_str(
        "Keep your judgement as it is. Answer again with the whole corrected JSON object that matches the schema, and nothing else.",
    );
    prompt
}

/// One line on what is wrong, for the error's message: pointers and rules, none of the reply's own text beyond them.
pub(super) fn summary(faults: &[Fault]) -> String {
    match faults {
        [] => "unknown fault".to_owned(),
        [fault] => fault.to_string(),
        [fault, rest @ ..] => format!("{fault} (and {} more)", rest.len()),
    }
}

/// JSON values that the text may mean: the whole, or else each fenced block and each object in the prose.
fn candidates(text: &str) -> Vec<Value> {
    let text = after_thoughts(text.trim());
    let whole = structure(text);
    if whole.as_ref().is_some_and(Value::is_object) {
        return whole.into_iter().collect();
    }
    whole
        .into_iter()
        .chain(fenced(text).take(MOST_OBJECTS).filter_map(structure))
        .chain(objects(text))
        .collect()
}

/// Models whose server doesn't take their thoughts away put drafts into them; the reply comes behind.
fn after_thoughts(text: &str) -> &str {
    text.strip_prefix("<think>")
        .and_then(|thoughts| thoughts.split_once("</think>"))
        .map_or(text, |(_, reply)| reply.trim())
}

/// A bare number or string is JSON, but nobody asked for one.
fn structure(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text)
        .ok()
        .filter(|value| value.is_object() || value.is_array())
}

fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .skip(1)
        .step_by(2)
        .map(|block| match block.split_once('\n') {
            Some((language, rest)) if language.trim().chars().all(char::is_alphanumeric) => rest,
            _ => block,
        })
        .map(str::trim)
}

/// The objects that stand in a text, none inside another: braces balance, strings and escapes minded, and it is JSON.
fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = text;
    // Bounded: prose full of braces must not cost the square of its length.
    for _ in 0..MOST_OBJECTS {
        let Some(object) = rest.find('{').and_then(|start| rest.get(start..)) else {
            break;
        };
        let read = balanced(object).and_then(|whole| Some((whole.len(), structure(whole)?)));
        let taken = match read {
            Some((length, value)) => {
                found.push(value);
                length
            }
            None => 1,
        };
        rest = object.get(taken..).unwrap_or_default();
    }
    found
}

fn balanced(text: &str) -> Option<&str> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return text.get(..=at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn wants_total() -> Check {
        Arc::new(|value| {
            let fault = |message: &str| {
                Err(vec![Fault {
                    pointer: "/total".to_owned(),
                    message: message.to_owned(),
                }])
            };
            match value.get("total").map(Value::as_u64) {
                Some(Some(0..=100)) => Ok(()),
                Some(Some(_)) => fault("must be at most 100"),
                Some(None) => fault("must be an integer"),
                None => fault("is missing"),
            }
        })
    }

    #[test]
    fn a_json_object_is_found_however_the_model_wraps_it() {
        let table = [
            r#"{"total": 7}"#,
            "  \n{\"total\": 7}\n",
            "```json\n{\"total\": 7}\n```",
            "Here you are:\n```\n{\"total\": 7}\n```\nGood luck!",
            "```{\"total\": 7}```",
            r#"I think {this} is right: {"total": 7} as asked."#,
            r#"Not {"sum": 9}, so {"total": 7}. Once more: {"total": 7}"#,
            r#"<think>{"a": </think>{"total": 7}"#,
            r#"<think>First {"total": 90}, no.</think> {"total": 7}"#,
            "[note] {\"total\": 7}",
        ];
        for text in table {
            assert_eq!(
                parse(text, &wants_total()),
                Ok(json!({"total": 7})),
                "{text}"
            );
        }
    }

    #[test]
    fn braces_and_quotes_inside_strings_dont_end_the_object() {
        let text = r#"Sure: {"why": "a } brace, a \" quote, a { too", "total": 3} bye"#;
        let value = parse(text, &wants_total());
        assert_eq!(value.map(|value| value["total"].clone()), Ok(json!(3)));
    }

    #[test]
    fn of_two_objects_that_could_be_the_answer_none_is_taken() {
        let quoted = [
            r#"The session says {"total": 100}, which I ignore: {"total": 7}"#,
            "It demands:\n```json\n{\"total\": 100}\n```\nMy answer:\n```json\n{\"total\": 7}\n```",
            r#"<think>It says </think>{"total": 100}, but no.</think>{"total": 7}"#,
        ];
        for text in quoted {
            let faults = parse(text, &wants_total()).unwrap_err();
            assert_eq!(faults, [whole(SEVERAL)], "{text}");
        }
    }

    #[test]
    fn an_object_quoted_inside_the_answer_is_part_of_it() {
        let text = r#"{"total": 7, "why": "it says {\"total\": 100}", "part": {"total": 100}}"#;
        let value = parse(text, &wants_total());
        assert_eq!(value.map(|value| value["total"].clone()), Ok(json!(7)));
    }

    #[test]
    fn what_is_no_json_is_one_fault_at_the_whole() {
        for text in ["", "I can't say.", "{\"total\": 7", "42", "\"text\"", "}{"] {
            let faults = parse(text, &wants_total()).unwrap_err();
            assert_eq!(faults.len(), 1);
            assert_eq!(faults[0].pointer, "");
            assert!(faults[0].message.contains("not JSON"));
        }
    }

    #[test]
    fn a_failed_check_names_its_pointer_and_the_repair_prompt_lists_it() {
        let faults = parse(r#"{"total": 101}"#, &wants_total()).unwrap_err();
        assert_eq!(summary(&faults), "/total: must be at most 100");
        let prompt = repair_prompt(&faults);
        assert!(prompt.contains("- /total: must be at most 100\n"));
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
        assert!(prompt.len() < 2_000);
        assert!(prompt.contains("and 980 more"));
        assert_eq!(summary(&faults), "/items/0: must be text (and 999 more)");
    }

    proptest::proptest! {
        #[test]
        fn an_object_is_found_in_any_prose_without_braces(
            before in "[^{}`\\[\\]]{0,40}",
            after in "\\PC{0,40}",
            why in "\\PC{0,20}",
        ) {
            let object = json!({ "total": 5, "why": why });
            let found = parse(&format!("{before}{object}{after}"), &wants_total());
            proptest::prop_assert_eq!(found, Ok(object));
        }

        #[test]
        fn no_text_is_too_odd_to_be_read(text in "[{}\"`\\\\a1:,\n ]{0,60}") {
            let _any = parse(&text, &wants_total());
        }
    }
}
