//! Line diff of two criteria versions, shared by all pages that compare them.

use super::words;
use crate::wire::{CriteriaDiff, DiffPart};

pub(super) type ChangedPart = (String, Vec<DiffLine>);

/// A line with its CSS class. Its sign repeats the class so that colour isn't needed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DiffLine {
    pub(super) text: String,
    pub(super) class: &'static str,
}

pub(super) fn changed_parts(diff: CriteriaDiff) -> Vec<ChangedPart> {
    diff.parts.into_iter().map(part).collect()
}

fn part(part: DiffPart) -> ChangedPart {
    // The two header lines name the versions and don't count as changed lines.
    let is_head = |at: usize, line: &str| match at {
        0 => line.starts_with("--- "),
        1 => line.starts_with("+++ "),
        _ => false,
    };
    let lines = part.diff.lines().enumerate().map(|(at, line)| DiffLine {
        class: match line.as_bytes().first() {
            _ if is_head(at, line) => "",
            Some(b'+') => "ins",
            Some(b'-') => "del",
            Some(_) | None => "",
        },
        text: line.to_owned(),
    });
    (words::heading(&part.part), lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_diff_lines() {
        let diff = CriteriaDiff {
            a: String::new(),
            b: String::new(),
            parts: vec![DiffPart {
                part: "judge_prompt".to_owned(),
                diff:
                    "--- a prompt\n+++ b prompt\n@@ -1,2 +1,2 @@\n-old\n--- a rule\n+new\n same\n"
                        .to_owned(),
            }],
        };
        let parts = changed_parts(diff);
        let [(name, lines)] = parts.as_slice() else {
            panic!("one part: {parts:?}");
        };
        let classes: Vec<&str> = lines.iter().map(|line| line.class).collect();
        assert_eq!(
            (name.as_str(), classes),
            ("Judge prompt", vec!["", "", "", "del", "del", "ins", ""])
        );
    }
}
