//! Columns of report rows, with the same names in JSON, CSV, XLSX and Parquet.

use std::borrow::Cow;

use serde_json::Value;

use super::Item;
use super::parquet::Holds;
use crate::job::Kind;
use crate::score::sql_metrics::safety::SafetyOutcome;
use crate::score::{Column, Component, Origin, about};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell<'a> {
    Empty,
    Text(Cow<'a, str>),
    /// List or object of the payload; JSON text in a table.
    Json(&'a Value),
    Number(f64),
    Count(i64),
    Flag(bool),
}

impl<'a> Cell<'a> {
    pub(super) fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(Cow::Borrowed(text)))
    }

    pub(super) fn number(number: Option<f64>) -> Self {
        number
            .filter(|number| number.is_finite())
            .map_or(Self::Empty, Self::Number)
    }

    /// Returns a count, or an empty cell if it exceeds the number range.
    pub(super) fn count(count: u64) -> Self {
        i64::try_from(count).map_or(Self::Empty, Self::Count)
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Text(text) => Value::from(text.as_ref()),
            Self::Json(value) => (*value).clone(),
            Self::Number(number) => Value::from(*number),
            Self::Count(count) => Value::from(*count),
            Self::Flag(flag) => Value::from(*flag),
        }
    }
}

const HEAD: [Column; 1] = [Column("Item No", 8, Origin::ItemNo)];
const TAIL: [Column; 8] = [
    Column("Outcome", 11, Origin::Outcome),
    Column("Error Class", 14, Origin::ErrorClass),
    Column("Error Message", 40, Origin::ErrorMessage),
    Column("Simulated", 10, Origin::Simulated),
    Column("Tokens In", 10, Origin::TokensIn),
    Column("Tokens Out", 10, Origin::TokensOut),
    Column("Cost USD", 10, Origin::Cost),
    Column("Job ID", 38, Origin::JobId),
];

fn of_kind(kind: Kind) -> impl Iterator<Item = Column> {
    let own = about(kind).columns;
    HEAD.iter().chain(own).chain(&TAIL).copied()
}

#[derive(Debug)]
pub(super) struct Columns {
    pub(super) heads: Vec<(&'static str, u16)>,
    /// Per kind, the source of each column's value; `None` if the kind doesn't have the column.
    kinds: Vec<(Kind, Vec<Option<Origin>>)>,
}

impl Columns {
    /// Returns the columns of these kinds: all of the first kind, then the additional ones of the others.
    pub(super) fn for_kinds(kinds: &[Kind]) -> Self {
        let mut heads: Vec<(&'static str, u16)> = Vec::new();
        let all = kinds.iter().flat_map(|kind| of_kind(*kind));
        for Column(name, width, _) in all.chain(HEAD).chain(TAIL) {
            if heads.iter().all(|(known, _)| *known != name) {
                heads.push((name, width));
            }
        }
        let found = |kind: Kind, name: &str| of_kind(kind).find(|column| column.0 == name);
        let origins = |kind: &Kind| {
            let origin = |(name, _): &(&str, u16)| found(*kind, name).map(|column| column.2);
            (*kind, heads.iter().map(origin).collect())
        };
        let kinds = kinds.iter().map(origins).collect();
        Self { heads, kinds }
    }

    pub(super) fn row<'a>(&self, item: &'a Item) -> impl Iterator<Item = Cell<'a>> {
        let own = self.kinds.iter().find(|(kind, _)| *kind == item.kind);
        let cell =
            |origin: &Option<Origin>| origin.map_or(Cell::Empty, |origin| self::cell(origin, item));
        own.into_iter().flat_map(|(_, origins)| origins).map(cell)
    }

    pub(super) fn held(&self) -> impl Iterator<Item = (&'static str, Holds)> {
        self.heads.iter().enumerate().map(|(nth, (name, _))| {
            let of_kinds = self.kinds.iter();
            let mut origins =
                of_kinds.filter_map(|(_, origins)| origins.get(nth).copied().flatten());
            (*name, origins.next().map_or(Holds::Text, holds))
        })
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.heads.iter().position(|(known, _)| *known == name)
    }
}

fn holds(origin: Origin) -> Holds {
    match origin {
        Origin::ItemNo | Origin::TokensIn | Origin::TokensOut => Holds::Whole,
        Origin::Total | Origin::Threshold | Origin::Score(_) | Origin::Cost => Holds::Number,
        Origin::Simulated => Holds::Flag,
        Origin::Id
        | Origin::Payload(_)
        | Origin::Status
        | Origin::Words(_)
        | Origin::Reasoning
        | Origin::ParseError
        | Origin::Faults
        | Origin::Safety
        | Origin::Outcome
        | Origin::ErrorClass
        | Origin::ErrorMessage
        | Origin::JobId => Holds::Text,
    }
}

fn cell(origin: Origin, item: &Item) -> Cell<'_> {
    let component = |nth: usize| item.about().components.get(nth);
    let result = item.result.as_ref();
    match origin {
        Origin::ItemNo => Cell::count(item.item_no),
        Origin::Id => Cell::text(item.id.as_deref()),
        Origin::Payload(names) => payload(item, names),
        Origin::Total => Cell::number(item.total),
        Origin::Status => Cell::text(Some(item.status().as_str())),
        Origin::Threshold => Cell::number(item.threshold()),
        Origin::Score(nth) => Cell::number(component(nth).and_then(|part| part.score(result))),
        Origin::Words(nth) => Cell::text(component(nth).and_then(|part| part.words(result))),
        Origin::Reasoning => Cell::text(item.reasoning()),
        Origin::ParseError => Cell::text(item.parse_error()),
        Origin::Faults => faults(item),
        Origin::Safety => Cell::text(item.safety().map(SafetyOutcome::as_str)),
        Origin::Outcome => Cell::text(Some(item.outcome.as_str())),
        Origin::ErrorClass => Cell::text(item.error.as_ref().map(|error| error.class.as_str())),
        Origin::ErrorMessage => Cell::text(item.error.as_ref().map(|error| error.message.as_str())),
        Origin::Simulated => Cell::Flag(item.simulated),
        Origin::TokensIn => Cell::Count(item.usage.tokens_in),
        Origin::TokensOut => Cell::Count(item.usage.tokens_out),
        Origin::Cost => Cell::number(item.usage.cost_usd),
        Origin::JobId => item
            .job_id
            .map_or(Cell::Empty, |id| Cell::Text(Cow::Owned(id.to_string()))),
    }
}

fn payload<'a>(item: &'a Item, names: &[&str]) -> Cell<'a> {
    match names.iter().find_map(|name| item.payload.get(name)) {
        None | Some(Value::Null) => Cell::Empty,
        Some(Value::String(text)) => Cell::Text(Cow::Borrowed(text)),
        Some(Value::Bool(flag)) => Cell::Flag(*flag),
        Some(other @ (Value::Number(_) | Value::Array(_) | Value::Object(_))) => Cell::Json(other),
    }
}

fn faults(item: &Item) -> Cell<'_> {
    let result = item.result.as_ref();
    let fault = |part: &Component| Some(format!("{}: {}", part.name, part.fault(result)?));
    let faults: Vec<String> = item.about().components.iter().filter_map(fault).collect();
    if faults.is_empty() {
        Cell::Empty
    } else {
        Cell::Text(Cow::Owned(faults.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_lists_columns_of_each_kind() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
        let documents = std::fs::read_dir(folder).unwrap().map(|entry| {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let documents: Vec<String> = documents.collect();
        let assert_told = |line: &str| {
            let told: Vec<_> = documents
                .iter()
                .filter(|document| document.contains(line))
                .collect();
            assert_eq!(told.len(), 1, "so many documents have: {line}");
            assert!(told[0].matches("The columns of").count() <= 1, "{line}");
        };
        for &kind in Kind::ALL {
            let names: Vec<&str> = about(kind).columns.iter().map(|column| column.0).collect();
            let kind = kind.as_str();
            assert_told(&format!(
                "The columns of `{kind}` are {}.",
                names.join(", ")
            ));
        }
        let shared: Vec<&str> = TAIL.iter().map(|column| column.0).collect();
        assert_told(&format!("are common to all kinds: {}.", shared.join(", ")));
    }
    use crate::report::source::tests::any_item;
    use proptest::prelude::*;

    fn names(kinds: &[Kind]) -> Vec<&'static str> {
        Columns::for_kinds(kinds)
            .heads
            .iter()
            .map(|head| head.0)
            .collect()
    }

    #[test]
    fn query_columns_follow_the_rules() {
        let names = names(&[Kind::Query]);
        let rules = [
            "Total Score",
            "Score Status",
            "Schema Match Score",
            "Semantic Similarity Score",
            "Results Match Score",
            "LLM Grading Score",
            "LLM Reasoning",
        ];
        let at = names.iter().position(|name| *name == rules[0]).unwrap();
        assert_eq!(names[at..at + rules.len()], rules);
        assert_eq!(names[..2], ["Item No", "ID"]);
        assert_eq!(names.last(), Some(&"Job ID"));
    }

    #[test]
    fn kinds_share_columns_of_the_same_name() {
        for kinds in [&[][..], Kind::ALL] {
            let mut names = names(kinds);
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{names:?}");
        }
    }

    proptest! {
        #[test]
        fn rows_have_a_cell_per_column(item in any_item()) {
            for kinds in [vec![item.kind], Kind::ALL.to_vec()] {
                let columns = Columns::for_kinds(&kinds);
                prop_assert_eq!(columns.row(&item).count(), columns.heads.len());
            }
        }
    }
}
