//! Golden files that need no data: OpenAPI document, problem types, command help and settings.

use serde_json::Value;

use crate::golden;
use crate::seeded_service::{Output, gavel};

pub(crate) fn pretty(value: &Value) -> String {
    use serde::Serialize as _;
    let mut bytes = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, form);
    value.serialize(&mut serializer).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn run(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    gavel(dir.path(), &[], args)
}

#[test]
fn openapi_matches_golden_file() {
    let document: Value = serde_json::from_str(&run(&["openapi"]).stdout).unwrap();
    golden::check("openapi.json", &pretty(&document));
}

#[test]
fn problem_types_match_golden_file() {
    let rows = gavel::api::problem::ALL.iter().map(|row| {
        format!(
            "{}: {}\n    {}\n    {}\n",
            row.slug, row.status, row.title, row.meaning
        )
    });
    golden::check("problems.txt", &rows.collect::<String>());
}

fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:");
    let listed = listed.skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

/// Appends the help of a command and of its subcommands, recursively.
fn append_help(path: &[&str], text: &mut String) {
    let help = run(&[path, &["--help"]].concat()).stdout;
    let line = [&["gavel"], path].concat().join(" ");
    text.push_str(&format!("$ {line} --help\n{help}\n"));
    for name in subcommands(&help) {
        append_help(&[path, &[name.as_str()]].concat(), text);
    }
}

#[test]
fn command_help_matches_golden_file() {
    let mut text = String::new();
    append_help(&[], &mut text);
    golden::check("help.txt", &text);
}

#[test]
fn settings_match_golden_file() {
    let text = run(&["config", "show", "--origin"]).stdout;
    golden::check("settings.txt", &text);
}
