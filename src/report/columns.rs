//! Columns of report rows, with the same names in JSON, CSV, XLSX and Parquet.

use serde_json::Value;

use super::Item;
use crate::job::Kind;
use crate::score::sql_metrics::safety::SafetyOutcome;
use crate::score::{Column, Component, Origin, about};

/// Type of a column. Any cell may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Text,
    Json,
    /// RFC 3339 time; microseconds of UTC in Parquet.
    Time,
    Whole,
    Number,
    Flag,
}

#[derive(Debug, PartialEq)]
pub(super) struct TableColumn {
    pub(super) name: &'static str,
    /// Characters, in a workbook.
    pub(super) width: u16,
    pub(super) holds: ColumnType,
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
    pub(super) list: Vec<TableColumn>,
    /// Per kind, the source of each column's value; `None` if the kind doesn't have the column.
    kinds: Vec<(Kind, Vec<Option<Origin>>)>,
}

impl Columns {
    /// Returns the columns of these kinds: all of the first kind, then the additional ones of the others.
    pub(super) fn for_kinds(kinds: &[Kind]) -> Self {
        let mut list: Vec<TableColumn> = Vec::new();
        let all = kinds.iter().flat_map(|kind| of_kind(*kind));
        for Column(name, width, origin) in all.chain(HEAD).chain(TAIL) {
            if list.iter().all(|known| known.name != name) {
                let holds = column_type(origin);
                list.push(TableColumn { name, width, holds });
            }
        }
        let found = |kind: Kind, name: &str| of_kind(kind).find(|column| column.0 == name);
        let origins = |kind: &Kind| {
            let origin = |column: &TableColumn| found(*kind, column.name).map(|column| column.2);
            (*kind, list.iter().map(origin).collect())
        };
        let kinds = kinds.iter().map(origins).collect();
        Self { list, kinds }
    }

    /// Returns the cells of an item in the order of the columns.
    pub(super) fn row(&self, item: &Item) -> impl Iterator<Item = Value> {
        let own = self.kinds.iter().find(|(kind, _)| *kind == item.kind);
        let cell =
            |origin: &Option<Origin>| origin.map_or(Value::Null, |origin| self::cell(origin, item));
        own.into_iter().flat_map(|(_, origins)| origins).map(cell)
    }
}

fn column_type(origin: Origin) -> ColumnType {
    match origin {
        Origin::ItemNo | Origin::TokensIn | Origin::TokensOut => ColumnType::Whole,
        Origin::Total | Origin::Threshold | Origin::Score(_) | Origin::Cost => ColumnType::Number,
        Origin::Simulated => ColumnType::Flag,
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
        | Origin::JobId => ColumnType::Text,
    }
}

fn cell(origin: Origin, item: &Item) -> Value {
    let component = |nth: usize| item.about().components.get(nth);
    let result = item.result.as_ref();
    match origin {
        Origin::ItemNo => item.item_no.into(),
        Origin::Id => item.id.as_deref().into(),
        Origin::Payload(names) => {
            let mut values = names.iter().filter_map(|name| item.payload.get(name));
            values.next().cloned().unwrap_or_default()
        }
        Origin::Total => item.total.into(),
        Origin::Status => item.status().as_str().into(),
        Origin::Threshold => item.threshold().into(),
        Origin::Score(nth) => component(nth).and_then(|part| part.score(result)).into(),
        Origin::Words(nth) => component(nth).and_then(|part| part.words(result)).into(),
        Origin::Reasoning => item.reasoning().into(),
        Origin::ParseError => item.parse_error().into(),
        Origin::Faults => faults(item).into(),
        Origin::Safety => item.safety().map(SafetyOutcome::as_str).into(),
        Origin::Outcome => item.outcome.as_str().into(),
        Origin::ErrorClass => item.error.as_ref().map(|error| error.class.as_str()).into(),
        Origin::ErrorMessage => item
            .error
            .as_ref()
            .map(|error| error.message.as_str())
            .into(),
        Origin::Simulated => item.simulated.into(),
        Origin::TokensIn => item.usage.tokens_in.into(),
        Origin::TokensOut => item.usage.tokens_out.into(),
        Origin::Cost => item.usage.cost_usd.into(),
        Origin::JobId => item.job_id.map(|id| id.to_string()).into(),
    }
}

fn faults(item: &Item) -> Option<String> {
    let result = item.result.as_ref();
    let fault = |part: &Component| Some(format!("{}: {}", part.name, part.fault(result)?));
    let faults: Vec<String> = item.about().components.iter().filter_map(fault).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
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
        let columns = Columns::for_kinds(kinds).list;
        columns.iter().map(|column| column.name).collect()
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
                prop_assert_eq!(columns.row(&item).count(), columns.list.len());
            }
        }
    }
}
