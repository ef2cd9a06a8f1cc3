//! Transcripts: ```` ```console ```` blocks. `$ ` starts a command, a final `\` or a here-document continues it, and
//! the other lines are its output. `…` matches any text within a line; a line of only `…` matches any lines.

#[derive(Debug, PartialEq)]
pub(super) struct Step {
    /// First line, from 1.
    pub(super) line: usize,
    pub(super) command: String,
    pub(super) expected: Vec<String>,
}

pub(super) fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if line != "```console" {
            continue;
        }
        while let Some((number, line)) = lines.next().filter(|(_, line)| *line != "```") {
            let Some(command) = line.strip_prefix("$ ") else {
                let step = steps.last_mut().expect("a command before its answer");
                step.expected.push(line.to_owned());
                continue;
            };
            let mut command = command.to_owned();
            let end = if command.contains("<<'END'") {
                "\nEND"
            } else {
                ""
            };
            while command.ends_with('\\') || !command.ends_with(end) {
                let (_, more) = lines.next().expect("the rest of a command");
                command.push('\n');
                command.push_str(more);
            }
            steps.push(Step {
                line: number + 1,
                command,
                expected: Vec::new(),
            });
        }
    }
    steps
}

/// Describes missing or unexpected output; `None` on a match.
pub(super) fn mismatch(expected: &[String], output: &str) -> Option<String> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let lines = if lines == [""] { Vec::new() } else { lines };
    let mut at = 0;
    let mut skipping = false;
    for wanted in expected.iter().map(|line| line.trim_end()) {
        if wanted == "…" {
            skipping = true;
            continue;
        }
        let rest = lines.get(at..).unwrap_or_default();
        let found = rest.iter().position(|line| fits(wanted, line.trim_end()));
        match found {
            Some(0) => at += 1,
            Some(skipped) if skipping => at += skipped + 1,
            Some(_) | None => return Some(format!("--- not there: {wanted}")),
        }
        skipping = false;
    }
    let more = lines.get(at..).unwrap_or_default();
    let blank = more.iter().all(|line| line.is_empty());
    (!blank && !skipping).then(|| format!("--- not expected: {}", more.join("\n")))
}

fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in between {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn step_is_a_command_with_its_lines_and_output() {
    let document = "text\n```console\n$ a \\\n  b\none\n\ntwo\n$ c <<'END'\nin\nEND\n```\n$ no\n```console\n$ d\n```\n";
    let found = steps(document);
    let commands: Vec<&str> = found.iter().map(|step| step.command.as_str()).collect();
    assert_eq!(commands, ["a \\\n  b", "c <<'END'\nin\nEND", "d"]);
    assert_eq!(found[0].expected, ["one", "", "two"]);
    assert_eq!((found[0].line, found[1].line), (3, 8));
}

#[test]
fn expected_lines_must_match_completely() {
    let wrong = |expected: &[&str], output: &str| {
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        mismatch(&expected, output).is_some()
    };
    assert!(!wrong(&["a", "b"], "a\nb\n"));
    assert!(!wrong(&[], "\n"));
    assert!(wrong(&["a", "b"], "a\n"));
    assert!(wrong(&["a"], "a\nb\n"));
    assert!(wrong(&[], "a"));
    assert!(!wrong(&["a", "…", "d"], "a\nb\nc\nd\n"));
    assert!(!wrong(&["a", "…", "d"], "a\nd\n"));
    assert!(!wrong(&["a", "…"], "a\nb"));
    assert!(wrong(&["a", "…", "d"], "a\nb\nc\n"));
    assert!(!wrong(
        &["{\"a\":…,\"b\":1…}"],
        "{\"a\":{},\"b\":1,\"c\":2}"
    ));
    assert!(wrong(&["{\"a\":…,\"b\":1…}"], "{\"a\":{},\"b\":2,\"c\":2}"));
    assert!(wrong(&["x…y"], "x-z"));
}
