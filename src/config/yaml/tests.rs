//! Tests of reading YAML with variables.
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn env(name: &str) -> Option<String> {
    let value = match name {
        "NAME" => "value",
        "EMPTY" => "",
        "DOLLAR" => "${NAME} $$",
        "NUMBER" => "7",
        _ => return None,
    };
    Some(value.to_owned())
}

fn read(text: &str) -> Value {
    resolve("f.yaml", text, &env).unwrap()
}

fn error(text: &str) -> FileError {
    resolve("f.yaml", text, &env).unwrap_err()
}

#[test]
fn substitution_forms_return_text() {
    let cases = [
        ("plain", "plain"),
        ("${NAME}", "value"),
        ("a${NAME}b${NAME}", "avaluebvalue"),
        ("${NAME:-x}", "value"),
        ("${UNSET:-x}", "x"),
        ("${UNSET:-}", ""),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${UNSET:-${NAME}}", "value"),
        ("${UNSET:-${UNSET2:-deep}}!", "deep!"),
        ("${UNSET:-a ${EMPTY:-b} $$ c}", "a b $ c"),
        // An unused default isn't evaluated.
        ("${NAME:-${UNSET}}", "value"),
        // Values aren't substituted again.
        ("${DOLLAR}", "${NAME} $$"),
        ("$${NAME}", "${NAME}"),
        ("$$$${NAME}", "$${NAME}"),
        ("$$${NAME}", "$value"),
        ("$NAME costs $5 or 5$", "$NAME costs $5 or 5$"),
        ("${NUMBER}", "7"),
        ("{{ALERT_DATA}}", "{{ALERT_DATA}}"),
    ];
    for (text, expected) in cases {
        assert_eq!(
            read(&format!("k: '{text}'")),
            json!({ "k": expected }),
            "{text}"
        );
    }
    assert_eq!(
        read(
            "enabled: ${SCORING_ENABLED:-true}\nmodel: ${M:-}  # a comment\np: |\n  ${NAME}\n  {{X}}\n"
        ),
        json!({ "enabled": "true", "model": "", "p": "value\n{{X}}\n" })
    );
}

#[test]
fn values_without_variable_keep_their_type() {
    assert_eq!(
        read(
            "a: 1\nb: -2.5\nc: true\nd:\ne: [1, '${NUMBER}']\n'${NAME}': {x: yes}\nf: &f {g: 1}\nh: *f\n"
        ),
        json!({
            "a": 1, "b": -2.5, "c": true, "d": null, "e": [1, "7"], "${NAME}": { "x": "yes" }, "f": { "g": 1 }, "h": { "g": 1 },
        })
    );
    assert_eq!(read(""), Value::Null);
    assert_eq!(read("\u{feff}a: 1"), json!({ "a": 1 }));
}

#[test]
fn unset_variable_error_has_name_file_and_line() {
    let text =
        "# ${MISSING} in a comment\nscoring:\n  enabled: true\n  llm_provider: ${A:-${MISSING}}\n";
    assert_eq!(
        error(text).to_string(),
        "f.yaml:4:22: the environment variable MISSING is not set; set it, or give a default: ${MISSING:-default}"
    );
    let in_block = error("judge_prompt: |\n  first\n  second ${MISSING}\n");
    assert_eq!(in_block.position, Some((3, 10)));
}

#[test]
fn malformed_dollar_brace_error_has_position() {
    let deep = format!("{}x{}", "${A:-".repeat(40), "}".repeat(40));
    let cases = [
        ("${NAME", "has no closing `}`"),
        ("${UNSET:-x", "`${UNSET` has no closing `}`"),
        ("${UNSET:-${A:-x}", "`${UNSET` has no closing `}`"),
        ("${}", "variable's name"),
        ("${1A}", "variable's name"),
        ("${NAME-x}", "must be followed by"),
        ("${NAME:?x}", "must be followed by"),
        (deep.as_str(), "nested more than 16 levels deep"),
    ];
    for (text, message) in cases {
        let error = error(&format!("a: 1\nk: \"{text}\"\n"));
        assert_eq!(error.position.map(|(line, _)| line), Some(2), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn unreadable_yaml_has_line_and_column() {
    let deep = format!("a: {}\n", "[".repeat(500));
    let cases = [
        ("a: 1\nb: [1, 2\nc: 3\n", "f.yaml:3:", "illegal placement"),
        ("a: 1\n---\nb: 2\n", "f.yaml:3:1", "multiple YAML documents"),
        ("a: *unknown\n", "f.yaml:1:4", "unknown anchor"),
        (
            "a:\n  x: 1\n  x: 2\n",
            "f.yaml:3:3",
            "duplicate mapping key: x",
        ),
        (
            "a:\n  b: !secret x\n",
            "f.yaml:2:",
            "unsupported tag `!secret`",
        ),
        (
            "b: &b {c: 1}\na:\n  <<: *b\n",
            "f.yaml:3:3",
            "merge keys are not allowed",
        ),
        ("a: .nan\n", "f.yaml:1:4", "non-finite float"),
        ("? [a]\n: x\n", "f.yaml:1:3", "expected string"),
        (deep.as_str(), "f.yaml:1:", "recursion limit"),
    ];
    for (text, place, message) in cases {
        let error = error(text).to_string();
        assert!(error.starts_with(place), "{error}");
        assert!(error.contains("not readable as YAML"), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn keys_are_text() {
    assert_eq!(
        read("1: a\ntrue: b\n1.50: c\n"),
        json!({ "1": "a", "true": "b", "1.50": "c" })
    );
}

#[test]
fn finds_keys_by_path() {
    let text = "# scoring: here\nscoring:\n  enabled: true # enabled: no\n  'llm_provider': x\n\njudge_prompt: |\n  scoring:\n    llm_model: z\n\n  dimensions:\n\
                dimensions:\n- name: a\n  max: 1\n-\n  name: b\n  max: 2\n  sub:\n    - - x: 1\n      - y: 2\nflow: {in: 1}\ntext: >-\n  flow:\nlast: 1\n";
    let cases = [
        ("scoring", Some(2)),
        ("scoring.enabled", Some(3)),
        ("scoring.llm_provider", Some(4)),
        ("scoring.llm_model", Some(2)),
        ("judge_prompt", Some(6)),
        ("dimensions", Some(11)),
        ("dimensions.0", Some(12)),
        ("dimensions.0.name", Some(12)),
        ("dimensions.0.max", Some(13)),
        ("dimensions.1", Some(15)),
        ("dimensions.1.max", Some(16)),
        ("dimensions.1.sub.0.0.x", Some(18)),
        ("dimensions.1.sub.0.1", Some(19)),
        ("dimensions.2.max", Some(11)),
        ("flow.in", Some(20)),
        ("last", Some(23)),
        ("nowhere", None),
        (".", None),
        ("", None),
    ];
    let find = |path: &str| FileError::at_path("f.yaml", text, path, "").position;
    for (path, line) in cases {
        assert_eq!(find(path).map(|(line, _)| line), line, "{path}");
    }
    assert_eq!(find("dimensions.0.name"), Some((12, 3)));
}

#[test]
fn error_without_position_has_file_only() {
    let error = FileError::at_path("f.yaml", "a: 1", "b", "is missing");
    assert_eq!(error.to_string(), "f.yaml: is missing");
    assert_eq!(
        FileError::at_path("f.yaml", "a: 1", "a", "is bad").to_string(),
        "f.yaml:1:1: is bad"
    );
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>(), path in "[a-z0-9.]{0,12}") {
        let _ = resolve("f.yaml", &text, &env);
        let _ = FileError::at_path("f.yaml", &text, &path, "");
    }

    #[test]
    fn yaml_like_lines_do_not_panic(text in "( |-|a|b|:|\n|\\||>|\\{|\\}|\\$|'|\"|#|&|\\*|!|1){0,60}", path in "(a|b|0|1|\\.){0,6}") {
        let _ = resolve("f.yaml", &text, &env);
        let _ = FileError::at_path("f.yaml", &text, &path, "");
    }

    #[test]
    fn doubled_dollars_escape_any_text(text in "[ -~]{0,40}") {
        let mut quoted = serde_json::Map::new();
        quoted.insert("k".to_owned(), json!(text.replace('$', "$$")));
        prop_assert_eq!(read(&Value::Object(quoted).to_string()), json!({ "k": text }));
    }
}

mod shipped {
    //! The built-in criteria files are readable and match their comments.

    use super::*;
    use crate::score::Criteria;

    const CURRENT: &str = include_str!("../../../config/scoring_config.yaml");
    const OUTCOME_FIRST: &str = include_str!("../../../config/criteria/session_outcome_first.yaml");

    const TASK: &str = include_str!("../../../config/criteria/session_task.yaml");

    fn criteria(text: &str, variables: &[(&str, &str)]) -> Criteria {
        let env = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(found.1.to_owned())
        };
        Criteria::from_value(&resolve("criteria.yaml", text, &env).unwrap()).unwrap()
    }

    #[test]
    fn builtin_criteria_use_their_dimensions() {
        let default = [("DEFAULT_LLM_PROVIDER", "openai-default")];
        let current = criteria(CURRENT, &default);
        assert_eq!(
            current.dimensions,
            crate::score::criteria::default_dimensions()
        );
        let other = criteria(OUTCOME_FIRST, &default);
        let names: Vec<&str> = other.dimensions.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(
            names,
            ["outcome", "evidence", "tools", "reasoning", "completeness"]
        );
        assert_ne!(current.hash, other.hash);
        let task = criteria(TASK, &default);
        assert_eq!(task.dimensions.iter().map(|d| d.max).sum::<u32>(), 100);
        assert_eq!(task.dimensions[0].name, "task_completion");
        assert!(current.enabled && current.judge == "openai-default");
    }

    #[test]
    fn environment_sets_judge_and_enabled() {
        let chosen = criteria(
            CURRENT,
            &[
                ("DEFAULT_LLM_PROVIDER", "openai-default"),
                ("SCORING_LLM_PROVIDER", "local"),
                ("SCORING_LLM_MODEL", "llama3.1:8b"),
                ("SCORING_ENABLED", "false"),
            ],
        );
        assert_eq!(chosen.judge, "local:llama3.1:8b");
        assert!(!chosen.enabled);
        let error = resolve("scoring_config.yaml", CURRENT, &|_| None).unwrap_err();
        assert!(error.message.contains("DEFAULT_LLM_PROVIDER is not set"));
        assert!(
            error.to_string().starts_with("scoring_config.yaml:12:"),
            "{error}"
        );
    }

    #[test]
    fn prompt_starts_with_framework_and_ends_with_schema() {
        for text in [CURRENT, OUTCOME_FIRST] {
            let prompt = criteria(text, &[("DEFAULT_LLM_PROVIDER", "x")]).prompt.text;
            let places = [
                "{{SESSION_CONVERSATION}}",
                "{{ALERT_DATA}}",
                "{{OUTPUT_SCHEMA}}",
            ]
            .map(|name| prompt.find(name).unwrap());
            assert!(places.is_sorted() && places[0] * 2 > prompt.len());
            assert!(prompt.trim_end().ends_with("{{OUTPUT_SCHEMA}}"));
            // A line that starts like a fence only opens a fence.
            assert!(
                prompt
                    .lines()
                    .all(|line| !line.starts_with("<<<EVIDENCE") && !line.ends_with(">>>"))
            );
        }
    }

    #[test]
    fn hash_ignores_comments_and_key_order() {
        let default = [("DEFAULT_LLM_PROVIDER", "openai-default")];
        let hash = criteria(CURRENT, &default).hash;
        let bare: String = CURRENT
            .lines()
            .filter(|line| !line.trim_start().starts_with("# ") || line.starts_with("  #"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let (head, prompt) = bare.split_once("judge_prompt:").unwrap();
        let moved = format!("# other comment\njudge_prompt:{prompt}\n{head}");
        assert_ne!(moved, CURRENT);
        assert_eq!(criteria(&moved, &default).hash, hash);
        let other = CURRENT.replace("You are severe", "You are mild");
        assert_ne!(criteria(&other, &default).hash, hash);
        assert_ne!(
            criteria(CURRENT, &[("DEFAULT_LLM_PROVIDER", "local")]).hash,
            hash
        );
    }

    #[test]
    fn criteria_error_has_line() {
        let broken = CURRENT.replace(
            "name: tool_relevance, max: 25",
            "name: tool_relevance, max: 250",
        );
        let value = resolve("c.yaml", &broken, &|name| {
            (name == "DEFAULT_LLM_PROVIDER").then(|| "x".to_owned())
        })
        .unwrap();
        let fault = Criteria::from_value(&value).unwrap_err();
        let shown = FileError::at_path("c.yaml", &broken, &fault.path, fault.message);
        let line = 1 + broken.lines().position(|l| l.contains("max: 250")).unwrap();
        assert!(
            shown.to_string().starts_with(&format!("c.yaml:{line}:")),
            "{shown}"
        );
    }
}
