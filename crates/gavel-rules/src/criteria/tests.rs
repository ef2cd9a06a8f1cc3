use proptest::prelude::*;

use super::*;

const PROMPT: &str = "Judge {{SESSION_CONVERSATION}} and {{ALERT_DATA}}.\n{{OUTPUT_SCHEMA}}\n";

fn file() -> Value {
    json!({
        "scoring": { "enabled": "true", "llm_provider": "openai-default", "llm_model": "" },
        "judge_prompt": PROMPT,
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = file();
    change(&mut value);
    value
}

fn hash_of(value: &Value) -> String {
    Criteria::from_value(value).unwrap().hash.0
}

fn error_of(value: &Value) -> FileError {
    Criteria::from_value(value).unwrap_err()
}

#[test]
fn hash_is_sha256_of_canonical_json() {
    // sha256 of {"dimensions":[{"max":25,"name":"logical_flow"},{"max":25,"name":"consistency"},
    // {"max":25,"name":"tool_relevance"},{"max":25,"name":"synthesis_quality"}],"judge_prompt":"Judge {{SESSION_CONVERSATION}} and
    // {{ALERT_DATA}}.\n{{OUTPUT_SCHEMA}}\n","scoring":{"llm_provider":"openai-default"}}
    assert_eq!(
        hash_of(&file()),
        "ae9dc070695bef195542574cb865197c15e73b80f293e6c1fc3a749170412640"
    );
}

#[test]
fn equal_resolved_values_give_equal_hashes() {
    let expected = hash_of(&file());
    let same = [
        with(|f| f["scoring"] = json!({ "llm_provider": "openai-default" })),
        with(|f| f["scoring"]["enabled"] = json!(false)),
        with(|f| f["scoring"]["enabled"] = json!("no")),
        with(|f| f["scoring"]["enabled"] = json!(0)),
        with(|f| f["scoring"]["llm_model"] = Value::Null),
        with(|f| f["dimensions"] = json!(default_dimensions())),
        with(|f| f["judge"] = Value::Null),
        with(|f| f["judge"] = json!({ "trim": "" })),
        with(|f| f["judge"] = json!({ "trim": "auto" })),
        with(|f| {
            f["dimensions"] = json!([
                { "max": "25", "name": "logical_flow" }, { "max": 25.0, "name": "consistency" },
                { "max": 25, "name": "tool_relevance" }, { "max": 25, "name": "synthesis_quality" },
            ]);
        }),
        json!({ "judge_prompt": PROMPT, "scoring": { "llm_model": "", "llm_provider": "openai-default" } }),
    ];
    for value in same {
        assert_eq!(hash_of(&value), expected, "{value}");
    }
}

#[test]
fn each_value_changes_the_hash() {
    let mut hashes = vec![
        hash_of(&file()),
        hash_of(&with(|f| f["scoring"]["llm_provider"] = json!("other"))),
        hash_of(&with(|f| f["scoring"]["llm_model"] = json!("gpt-4o-mini"))),
        hash_of(&with(|f| f["judge_prompt"] = json!(format!("{PROMPT}\n")))),
        hash_of(&with(|f| f["judge"] = json!({ "trim": "never" }))),
        hash_of(&with(|f| {
            f["dimensions"] = json!([{ "name": "outcome", "max": 100 }]);
        })),
        hash_of(&with(|f| {
            f["dimensions"] = json!([{ "name": "a", "max": 40 }, { "name": "b", "max": 60 }]);
        })),
        hash_of(&with(|f| {
            f["dimensions"] = json!([{ "name": "b", "max": 60 }, { "name": "a", "max": 40 }]);
        })),
    ];
    let all = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), all);
}

#[test]
fn stored_content_round_trips() {
    for value in [
        file(),
        with(|f| f["scoring"]["llm_model"] = json!("gpt-4o-mini")),
        with(|f| f["judge"] = json!({ "trim": " never " })),
        with(|f| f["dimensions"] = json!([{ "name": "outcome", "max": "100" }])),
    ] {
        let first = Criteria::from_value(&value).unwrap();
        let again = Criteria::from_value(&first.content).unwrap();
        assert_eq!(again, first);
        assert_eq!(Criteria::judge_of(&first.content), first.judge);
        assert!(first.content["scoring"].get("enabled").is_none());
    }
}

fn case_file(kind: &str) -> Value {
    let form = &about(kind.parse().unwrap()).criteria;
    let prompt = |placeholders: &[&str]| {
        let each = placeholders.iter().map(|name| format!("{{{{{name}}}}}"));
        each.collect::<Vec<_>>().join(" ")
    };
    let mut file = json!({
        "kind": kind,
        "scoring": { "llm_provider": "openai-default" },
        "judge_prompt": prompt(form.placeholders),
    });
    if !form.answer_placeholders.is_empty() {
        file["answer_prompt"] = prompt(form.answer_placeholders).into();
    }
    file
}

#[test]
fn criteria_of_each_kind_round_trip() {
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_case()) {
        let criteria = Criteria::from_value(&case_file(kind.as_str())).unwrap();
        assert_eq!(criteria.kind, kind);
        assert_eq!(criteria.answer_prompt.is_some(), kind == Kind::Qas);
        assert_eq!(criteria.dimensions, []);
        assert_eq!(Criteria::from_value(&criteria.content).unwrap(), criteria);
    }
    let of_query = hash_of(&case_file("query"));
    let mut of_another = case_file("qas");
    of_another["judge_prompt"] = case_file("query")["judge_prompt"].clone();
    assert_ne!(of_query, hash_of(&of_another));
    assert_eq!(
        hash_of(&with(|f| f["kind"] = json!("session"))),
        hash_of(&file()),
        "a file that says nothing is for sessions"
    );
}

#[test]
fn rejects_keys_and_placeholders_of_other_kinds() {
    let changed = |kind, change: &dyn Fn(&mut Value)| {
        let mut file = case_file(kind);
        change(&mut file);
        error_of(&file)
    };
    let cases = [
        (
            changed("query", &|f| f["dimensions"] = json!([])),
            "dimensions",
            "unknown key",
        ),
        (
            changed("query", &|f| f["answer_prompt"] = json!("x")),
            "answer_prompt",
            "unknown key",
        ),
        (
            changed("qas", &|f| f["answer_prompt"] = Value::Null),
            "answer_prompt",
            "is missing",
        ),
        (
            changed("qas", &|f| f["answer_prompt"] = json!("{{QUESTION}}")),
            "answer_prompt",
            "lacks {{EXPECTED_ANSWER}}",
        ),
        (
            changed("sql_metrics", &|f| {
                f["judge_prompt"] = case_file("query")["judge_prompt"].clone()
            }),
            "judge_prompt",
            "unknown placeholder {{QUESTION}}",
        ),
        (
            changed("query", &|f| f["judge_prompt"] = json!(PROMPT)),
            "judge_prompt",
            "unknown placeholder",
        ),
        (
            changed("query", &|f| f["kind"] = json!("kql")),
            "kind",
            "known: session, query, qas, sql_metrics",
        ),
        (
            changed("query", &|f| f["kind"] = json!(1)),
            "kind",
            "\"1\" is unknown",
        ),
    ];
    for (error, path, message) in cases {
        assert_eq!(error.path, path, "{error}");
        assert!(error.message.contains(message), "{error} lacks {message:?}");
    }
}

#[test]
fn parses_scoring_enabled_and_judge() {
    let criteria = Criteria::from_value(&file()).unwrap();
    assert!(criteria.enabled);
    assert_eq!(criteria.judge, "openai-default");
    assert_eq!(criteria.dimensions, default_dimensions());
    let other = Criteria::from_value(&with(|f| {
        f["scoring"] =
            json!({ "enabled": "False", "llm_provider": "local", "llm_model": "llama3.1:8b" });
    }))
    .unwrap();
    assert!(!other.enabled);
    assert_eq!(other.judge, "local:llama3.1:8b");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, one line a fault")]
fn error_contains_key_and_fix() {
    let long = "a".repeat(65);
    let cases: Vec<(Value, &str, &str)> = vec![
        (json!(null), ".", "expected a map"),
        (json!([1]), ".", "expected a map"),
        (json!({ "judge_prompt": PROMPT }), "scoring", "is missing"),
        (
            with(|f| f["judge_promt"] = json!("x")),
            "judge_promt",
            "did you mean judge_prompt?",
        ),
        (
            with(|f| f["zzz"] = json!("x")),
            "zzz",
            "known: kind, scoring, judge_prompt, dimensions, judge",
        ),
        (
            with(|f| f["scoring"]["llm_provder"] = json!("x")),
            "scoring.llm_provder",
            "did you mean llm_provider?",
        ),
        (
            with(|f| f["scoring"]["llm_provider"] = json!("")),
            "scoring.llm_provider",
            "is missing",
        ),
        (
            with(|f| f["scoring"]["llm_provider"] = json!("${X}")),
            "scoring.llm_provider",
            "write the name out",
        ),
        (
            with(|f| f["scoring"]["llm_provider"] = json!([])),
            "scoring.llm_provider",
            "expected a single value",
        ),
        (
            with(|f| f["scoring"]["llm_model"] = json!("a b")),
            "scoring.llm_model",
            "isn't a name",
        ),
        (
            with(|f| f["scoring"]["enabled"] = json!("maybe")),
            "scoring.enabled",
            "true or false",
        ),
        (
            with(|f| f["judge_prompt"] = json!(null)),
            "judge_prompt",
            "is missing",
        ),
        (
            with(|f| f["judge_prompt"] = json!("a {{ALERT_DATA}} {{OUTPUT_SCHEMA}}")),
            "judge_prompt",
            "lacks {{SESSION_CONVERSATION}}",
        ),
        (
            with(|f| f["judge_prompt"] = json!(format!("{PROMPT}{{{{ALERT_DATA}}}}"))),
            "judge_prompt",
            "{{ALERT_DATA}} 2 times",
        ),
        (
            with(|f| f["judge_prompt"] = json!(format!("{PROMPT}{{{{ALERT_DTA}}}}"))),
            "judge_prompt",
            "did you mean {{ALERT_DATA}}?",
        ),
        (
            with(|f| f["judge_prompt"] = json!(format!("{PROMPT}{{{{X}}}}"))),
            "judge_prompt",
            "unknown placeholder {{X}}; known: {{SESSION_CONVERSATION}}",
        ),
        (
            with(|f| f["judge_prompt"] = json!(format!("{PROMPT}\0"))),
            "judge_prompt",
            "NUL",
        ),
        (
            with(|f| f["judge_prompt"] = json!("x".repeat(300_000))),
            "judge_prompt",
            "at most 262144",
        ),
        (
            with(|f| f["judge"] = json!("never")),
            "judge",
            "expected a map",
        ),
        (
            with(|f| f["judge"] = json!({ "trim": "nevr" })),
            "judge.trim",
            "\"nevr\" is unknown; known: auto, never",
        ),
        (
            with(|f| f["judge"] = json!({ "trim": false })),
            "judge.trim",
            "known: auto, never",
        ),
        (
            with(|f| f["judge"] = json!({ "trm": "never" })),
            "judge.trm",
            "did you mean trim?",
        ),
        (
            with(|f| f["dimensions"] = json!("four")),
            "dimensions",
            "expected a sequence",
        ),
        (
            with(|f| f["dimensions"] = json!([])),
            "dimensions",
            "sum up to 0",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": "a", "max": 99 }])),
            "dimensions",
            "sum up to 99",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": "A", "max": 100 }])),
            "dimensions.0.name",
            "must begin with a-z",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": long, "max": 100 }])),
            "dimensions.0.name",
            "at most 64",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "max": 100 }])),
            "dimensions.0.name",
            "is missing",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": "a" }])),
            "dimensions.0.max",
            "is missing",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": "a", "max": 0 }])),
            "dimensions.0.max",
            "from 1 to 100",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": "a", "max": "12.5" }])),
            "dimensions.0.max",
            "from 1 to 100",
        ),
        (
            with(|f| f["dimensions"] = json!([{ "name": "a", "mx": 100 }])),
            "dimensions.0.mx",
            "did you mean max?",
        ),
        (
            with(|f| {
                f["dimensions"] = json!([{ "name": "a", "max": 50 }, { "name": "a", "max": 50 }])
            }),
            "dimensions.1.name",
            "there twice",
        ),
    ];
    for (value, path, message) in cases {
        let error = error_of(&value);
        assert_eq!(error.path, path, "{error}");
        assert!(error.message.contains(message), "{error} lacks {message:?}");
    }
}

proptest! {
    #[test]
    fn prompt_text_determines_the_hash(a in "[^\\x00{]{0,60}", b in "[^\\x00{]{0,60}") {
        let one = with(|f| f["judge_prompt"] = json!(format!("{PROMPT}{a}")));
        let two = with(|f| f["judge_prompt"] = json!(format!("{PROMPT}{b}")));
        let first = Criteria::from_value(&one).unwrap();
        prop_assert_eq!(&Criteria::from_value(&first.content).unwrap().hash, &first.hash);
        prop_assert_eq!(hash_of(&two) == first.hash.0, a == b);
    }
}

#[test]
fn wrong_type_error_contains_path_and_type() {
    let wrong = |dimension: Value| with(|f| f["dimensions"] = json!([dimension]));
    let cases = [
        (
            with(|f| f["judge_prompt"] = json!(7)),
            "judge_prompt",
            "expected a string",
        ),
        (
            with(|f| f["judge_prompt"] = json!(["x"])),
            "judge_prompt",
            "expected a string",
        ),
        (
            with(|f| f["scoring"]["enabled"] = json!([])),
            "scoring.enabled",
            "expected a single value",
        ),
        (
            with(|f| f["scoring"]["enabled"] = json!({})),
            "scoring.enabled",
            "expected a single value",
        ),
        (
            with(|f| f["scoring"]["llm_model"] = json!({})),
            "scoring.llm_model",
            "expected a single value",
        ),
        (
            with(|f| f["scoring"] = json!("x")),
            "scoring",
            "expected a map",
        ),
        (
            wrong(json!({ "name": null, "max": 100 })),
            "dimensions.0.name",
            "is missing",
        ),
        (
            wrong(json!({ "name": "a", "max": null })),
            "dimensions.0.max",
            "is missing",
        ),
        (
            wrong(json!({ "name": "a", "max": [1] })),
            "dimensions.0.max",
            "expected a single value",
        ),
    ];
    for (value, path, words) in cases {
        let error = error_of(&value);
        assert_eq!(error.path, path);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn very_long_key_gets_no_suggestion() {
    let long = "scorin".repeat(100_000);
    let error = error_of(&with(|f| f[long.as_str()] = json!(1)));
    assert!(error.message.contains("known: "), "no guess is made");
}

#[test]
fn ignore_case_defaults_to_true() {
    let read = |ignore: Value| {
        let mut file = case_file("query");
        file["ignore_case"] = ignore;
        Criteria::from_value(&file).unwrap()
    };
    let plain = Criteria::from_value(&case_file("query")).unwrap();
    assert_eq!(plain.case, Case::Ignored);
    assert_eq!(read(json!(true)).hash, plain.hash);
    let heeding = read(json!("false"));
    assert_eq!(heeding.case, Case::Heeded);
    assert_ne!(heeding.hash, plain.hash);
    assert_eq!(Criteria::from_value(&heeding.content).unwrap(), heeding);
    let mut of_metrics = case_file("sql_metrics");
    of_metrics["ignore_case"] = json!(false);
    assert_eq!(
        Criteria::from_value(&of_metrics).unwrap_err().path,
        "ignore_case"
    );
}
