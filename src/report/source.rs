//! Source of a report's items. It can be read repeatedly, in item order, one item at a time.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use super::line_reader::{LineReader, LineSpan};
use super::{Item, ReportError, line};

/// Maximum bytes of a line: a service accepts a body of 8 MiB, and the result is added to it.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

pub trait Source {
    /// Calls `visit` with every item in order. Stops at its first error.
    fn each(
        &self,
        visit: &mut dyn FnMut(&Item) -> Result<(), ReportError>,
    ) -> Result<(), ReportError>;
}

impl Source for [Item] {
    fn each(
        &self,
        visit: &mut dyn FnMut(&Item) -> Result<(), ReportError>,
    ) -> Result<(), ReportError> {
        self.iter().try_for_each(visit)
    }
}

/// Items of an `evaluation-results.jsonl`.
///
/// Keeps 32 bytes per item: the position of its line. Lines may be in any order. If an item has several lines (retries), the last one
/// counts. An unfinished last line of a killed run is skipped.
#[derive(Debug)]
pub struct ResultLines {
    file: File,
    path: String,
    places: Vec<(u64, LineSpan)>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    gavel: Option<HeadNo>,
}

#[derive(Deserialize)]
struct HeadNo {
    item_no: u64,
}

impl ResultLines {
    pub fn open(path: &Path) -> Result<Self, ReportError> {
        let file =
            File::open(path).map_err(|error| reading(&path.display().to_string(), &error))?;
        Self::from_file(file, path.display().to_string())
    }

    /// Reads the items of an open file; `path` is used in errors.
    pub(super) fn from_file(file: File, path: String) -> Result<Self, ReportError> {
        let places = places(&file, &path)?;
        Ok(Self { file, path, places })
    }

    pub fn len(&self) -> u64 {
        self.places.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl Source for ResultLines {
    fn each(
        &self,
        visit: &mut dyn FnMut(&Item) -> Result<(), ReportError>,
    ) -> Result<(), ReportError> {
        let failed = |error: std::io::Error| reading(&self.path, &error);
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(0)).map_err(failed)?;
        let (mut at, mut text) = (0_u64, Vec::new());
        for (item_no, place) in &self.places {
            // Most lines are contiguous, and a seek within the buffer costs no read.
            let step = place.offset.cast_signed() - at.cast_signed();
            reader.seek_relative(step).map_err(failed)?;
            text.clear();
            (&mut reader)
                .take(place.length)
                .read_to_end(&mut text)
                .map_err(failed)?;
            at = place.offset + text.len() as u64;
            let item = line::read(&text, *item_no);
            visit(&item.map_err(|reason| bad_line(&self.path, place.number, reason))?)?;
        }
        Ok(())
    }
}

fn places(file: &File, path: &str) -> Result<Vec<(u64, LineSpan)>, ReportError> {
    let failed = |error: std::io::Error| reading(path, &error);
    let mut lines = LineReader::new(file, MAX_LINE_BYTES).map_err(failed)?;
    let mut places: Vec<(u64, LineSpan)> = Vec::new();
    while let Some((span, text)) = lines.next().map_err(failed)? {
        match serde_json::from_slice::<Head>(text) {
            Ok(head) => {
                let nth = places.len() as u64;
                places.push((head.gavel.map_or(nth, |gavel| gavel.item_no), span));
            }
            // The run was killed while writing this line, so its item has no line yet.
            Err(error) if !text.ends_with(b"\n") && error.is_eof() => break,
            Err(error) => return Err(bad_line(path, span.number, error.to_string())),
        }
    }
    places.sort_by_key(|(item_no, span)| (*item_no, std::cmp::Reverse(span.number)));
    places.dedup_by_key(|(item_no, _)| *item_no);
    Ok(places)
}

fn bad_line(path: &str, line: u64, reason: String) -> ReportError {
    ReportError::Line {
        path: path.to_owned(),
        line,
        reason,
    }
}

fn reading(path: &str, error: &std::io::Error) -> ReportError {
    let reason = if error.kind() == ErrorKind::NotFound {
        "no such file".to_owned()
    } else {
        error.to_string()
    };
    ReportError::Read {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::job::{Kind, Usage};
    use crate::report::{ItemError, Outcome};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};
    use std::io::Write as _;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-100_000_i32..100_000).prop_map(|n| json!(f64::from(n) / 100.0)),
            "\\PC{0,12}|[\\x00-\\x1f=+@-]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Payload with some of the fields that lines and columns use.
    fn any_payload() -> impl Strategy<Value = Value> {
        let names = prop::sample::subsequence(
            vec![
                "test_id",
                "question",
                "difficulty",
                "generated_sql",
                "actual_results",
                "prompt",
                "confidence",
                "payload",
                "gavel",
                "qas_evaluation",
            ],
            0..10,
        );
        let fields = (names, prop::collection::vec(any_json(), 10)).prop_map(|(names, values)| {
            let fields = names.into_iter().map(str::to_owned).zip(values);
            Value::Object(fields.collect::<Map<_, _>>())
        });
        prop_oneof![4 => fields, 1 => any_json()]
    }

    /// Any item. Numbers have few digits, so that all JSON parsers agree.
    pub(in crate::report) fn any_item() -> impl Strategy<Value = Item> {
        let share = || prop::option::of((0_u32..=1000).prop_map(|n| f64::from(n) / 1000.0));
        let outcome =
            prop::sample::select(vec![Outcome::Scored, Outcome::Incomplete, Outcome::Failed]);
        let error = prop::option::of(
            ("[a-z_]{1,12}", "\\PC{0,20}")
                .prop_map(|(class, message)| ItemError { class, message }),
        );
        let head = (
            any::<u32>(),
            prop::sample::select(Kind::ALL.to_vec()),
            prop::option::of("\\PC{0,8}"),
            any_payload(),
            outcome,
        );
        let tail = (
            share(),
            any::<Option<bool>>(),
            prop::option::of(any_json().prop_filter("null is none", |v| !v.is_null())),
            error,
            any::<bool>(),
            (0_i64..1_000_000, 0_i64..1_000_000, share()),
            prop::option::of(any::<u128>()),
        );
        (head, tail).prop_map(
            |(
                (item_no, kind, id, payload, outcome),
                (total, passed, result, error, simulated, usage, job),
            )| Item {
                item_no: item_no.into(),
                kind,
                id,
                payload,
                outcome,
                total,
                passed,
                result,
                error,
                simulated,
                usage: Usage {
                    tokens_in: usage.0,
                    tokens_out: usage.1,
                    cost_usd: usage.2,
                },
                job_id: job.map(uuid::Uuid::from_u128),
            },
        )
    }

    fn lines(text: &str) -> Result<ResultLines, ReportError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        ResultLines::from_file(file, "results.jsonl".to_owned())
    }

    fn line(item_no: u64, id: &str) -> String {
        format!(
            "{{\"id\":\"{id}\",\"payload\":{{}},\"gavel\":{{\"item_no\":{item_no},\"kind\":\"query\",\"outcome\":\"failed\"}}}}\n"
        )
    }

    fn ids(source: &ResultLines) -> Vec<String> {
        let mut ids = Vec::new();
        source
            .each(&mut |item| {
                ids.extend(item.id.clone());
                Ok(())
            })
            .unwrap();
        ids
    }

    #[test]
    fn items_are_ordered_and_last_line_counts() {
        let text = [
            line(2, "c"),
            line(0, "old"),
            "\n".to_owned(),
            line(1, "b"),
            line(0, "a"),
        ];
        let source = lines(&text.concat()).unwrap();
        assert_eq!(source.len(), 3);
        assert_eq!(ids(&source), ["a", "b", "c"]);
        assert_eq!(ids(&source), ["a", "b", "c"]);
    }

    #[test]
    fn skips_torn_line_and_reports_malformed_one() {
        let torn = line(1, "b");
        let whole = line(0, "a");
        for length in 1..torn.len() - 1 {
            let source = lines(&format!("{whole}{}", &torn[..length])).unwrap();
            assert_eq!(ids(&source), ["a"], "{length}");
        }
        // Only its line feed is missing.
        let source = lines(&format!("{whole}{}", torn.trim_end())).unwrap();
        assert_eq!(ids(&source), ["a", "b"]);
        let error = lines(&format!("{whole}{}\n{whole}", &torn[..20])).unwrap_err();
        let words = error.to_string();
        assert!(words.starts_with("results.jsonl, line 2: "), "{words}");
    }

    #[test]
    fn empty_file_has_no_items() {
        assert!(lines("").unwrap().is_empty());
        assert!(ids(&lines("\n \n").unwrap()).is_empty());
    }
}
