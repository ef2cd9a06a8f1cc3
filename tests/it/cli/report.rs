//! `gavel report` on a run's folder, a file and invalid input.

use super::Sandbox;

/// Lines of a run: a pass, a miss, and the same miss rerun as a pass.
const LINES: &str = r#"{"id":"b","payload":{"prompt":"Errors?","generated_kql":"-- x"},"result":{"threshold":0.9,"components":{"llm_grading":{"score":0.2,"details":{"reasoning":"Wrong table."}}}},"gavel":{"item_no":1,"kind":"query","outcome":"scored","total":0.2,"passed":false}}
{"id":"a","payload":{"prompt":"Errors?"},"result":null,"gavel":{"item_no":0,"kind":"query","outcome":"scored","total":1.0,"passed":true}}
{"id":"c","payload":{"prompt":"Errors?"},"result":null,"gavel":{"item_no":2,"kind":"query","outcome":"scored","total":1.0,"passed":true,"simulated":true}}
{"id":"c","payl"#;

fn place() -> Sandbox {
    let place = Sandbox::new();
    std::fs::create_dir(place.path().join("run-1")).unwrap();
    place.write("run-1/evaluation-results.jsonl", LINES);
    place
}

#[test]
fn report_of_a_run_folder_is_markdown_by_default() {
    let place = place();
    let run = place.run(&["report", "run-1"]).ends(0);
    assert!(run.out.starts_with("# run-1\n"), "{}", run.out);
    let run = run.prints("### b: 0.2").prints("Wrong table.");
    assert!(
        run.out.contains("INCOMPLETE"),
        "a simulated score passes no gate"
    );
}

#[test]
fn report_file_has_the_format_of_its_extension() {
    let place = place();
    place
        .run(&["report", "run-1", "--output", "out.csv"])
        .ends(0)
        .says("wrote out.csv");
    let csv = std::fs::read_to_string(place.path().join("out.csv")).unwrap();
    let ids: Vec<&str> = csv
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1))
        .collect();
    assert_eq!(ids, ["a", "b", "c"], "{csv}");
    assert!(csv.contains("'-- x"), "{csv}");
    for (name, begins) in [
        ("r.xlsx", "PK"),
        ("junit.xml", "<?xml"),
        ("r.jsonl", "{\"id\":\"a\""),
    ] {
        place.run(&["report", "run-1", "-o", name]).ends(0);
        let bytes = std::fs::read(place.path().join(name)).unwrap();
        assert!(bytes.starts_with(begins.as_bytes()), "{name}");
    }
    let json = place
        .run(&[
            "report",
            "run-1/evaluation-results.jsonl",
            "--format",
            "json",
            "--allow-simulated",
        ])
        .ends(0)
        .json();
    assert_eq!(json["summary"]["verdict"], "failed");
    assert_eq!(json["name"], "run-1");
}

#[test]
fn report_of_a_killed_run_lists_missing_items_and_is_no_pass() {
    let place = Sandbox::new();
    let case = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"generated_sql\":\"select 1\",\"expected_sql\":\"select 1\"}}\n"
        )
    };
    place.write("suite.jsonl", &format!("{}{}", case("a"), case("b")));
    let evaluate = ["evaluate", "suite.jsonl", "--output", "run"];
    place.run(&evaluate).ends(0);
    let verdict = |run: &super::Run| {
        let json = run.json();
        let summary = &json["summary"];
        (summary["unfinished"].clone(), summary["verdict"].clone())
    };
    let report = ["report", "run", "--format", "json"];
    let whole = verdict(&place.run(&report).ends(0));
    assert_eq!(whole, (0.into(), "passed".into()));

    let results = std::fs::read_to_string(place.path().join("run/evaluation-results.jsonl"));
    let results = results.unwrap();
    let first = results.lines().next().unwrap();
    place.write("run/evaluation-results.jsonl", &format!("{first}\n"));
    let killed = verdict(&place.run(&report).ends(0));
    assert_eq!(killed, (1.into(), "incomplete".into()));
}

#[test]
fn invalid_report_request_is_exit_2_with_its_remedy() {
    let place = place();
    place
        .run(&["report", "run-2"])
        .ends(2)
        .says("not a run's folder or a batch id");
    place
        .run(&["report", "run-1", "--format", "pdf"])
        .ends(2)
        .says("use json, jsonl, csv, xlsx, parquet, junit.xml or md");
    place
        .run(&["report", "run-1", "--output", "out.pdf"])
        .ends(2)
        .says("out.pdf names no format");
    std::fs::create_dir(place.path().join("empty")).unwrap();
    place
        .run(&["report", "empty"])
        .ends(2)
        .says("evaluation-results.jsonl: no such file");
    place.write("broken.jsonl", "{\"a\": 1}\n");
    place
        .run(&["report", "broken.jsonl"])
        .ends(2)
        .says("broken.jsonl, line 1: it has no object gavel");
    place
        .run(&["report", "run-1", "--output", "none/out.csv"])
        .ends(2)
        .says("--output none/out.csv: no folder none; make its folder");
    place
        .run(&["report", "run-1", "--format", "csv", "--output", "empty"])
        .ends(2)
        .says("--output empty: is a folder");
}
