//! A payload of any kind but `session`, read and checked: what enqueue, suites and runs have in common.

use serde_json::Value;

use super::qas::QasCase;
use super::query::QueryCase;
use super::sql_metrics::MetricsCase;
use super::{Request, about};
use crate::Fault;
use gavel_wire::Kind;

/// One case to be scored.
#[derive(Debug, Clone, PartialEq)]
pub enum Case {
    /// Kind `query`.
    Query(Box<QueryCase>),
    /// Kind `qas`.
    Qas(Box<QasCase>),
    /// Kind `sql_metrics`.
    SqlMetrics(Box<MetricsCase>),
}

impl Case {
    /// Reads a payload.
    ///
    /// # Errors
    /// Every fault found, each with its JSON pointer. A session has no payload to check here: its fault says so.
    pub fn read(kind: Kind, payload: &Value) -> Result<Self, Vec<Fault>> {
        match kind {
            Kind::Query => QueryCase::read(payload).map(|case| Self::Query(Box::new(case))),
            Kind::Qas => QasCase::read(payload).map(|case| Self::Qas(Box::new(case))),
            Kind::SqlMetrics => {
                MetricsCase::read(payload).map(|case| Self::SqlMetrics(Box::new(case)))
            }
            Kind::Session => Err(vec![Fault {
                pointer: String::new(),
                message: "a session is no case: it is scored by its id".to_owned(),
            }]),
        }
    }

    /// Whether a judge has a part in it. Without one it needs none, and no lane.
    pub fn needs_judge(&self) -> bool {
        match self {
            Self::Query(case) => case.needs_judge(),
            Self::Qas(case) => case.needs_judge(),
            Self::SqlMetrics(case) => case.needs_judge(),
        }
    }

    /// The judge or the model that the case itself names.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Query(case) => case.model.as_deref(),
            Self::Qas(_) | Self::SqlMetrics(_) => None,
        }
    }

    /// The case's own name for itself, if it has one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Query(case) => case.id.as_deref(),
            Self::Qas(case) => case.test_id.as_deref(),
            Self::SqlMetrics(case) => case.id.as_deref(),
        }
    }

    pub fn into_request(self) -> Box<dyn Request> {
        match self {
            Self::Query(case) => case,
            Self::Qas(case) => case,
            Self::SqlMetrics(case) => case,
        }
    }
}

/// A field of a payload: what columns of suites and reports are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    pub form: FieldForm,
}

/// How a cell of a table holds a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldForm {
    Text,
    /// As JSON: a list, an object, a number, a boolean; in answers also plain text.
    Json,
    /// As true or false, in any case: spreadsheets write TRUE and FALSE.
    Flag,
}

impl Field {
    pub const fn text(name: &'static str) -> Self {
        Self {
            name,
            form: FieldForm::Text,
        }
    }

    pub const fn flag(name: &'static str) -> Self {
        Self {
            name,
            form: FieldForm::Flag,
        }
    }

    pub const fn json(name: &'static str) -> Self {
        Self {
            name,
            form: FieldForm::Json,
        }
    }
}

/// The field that a payload of a kind calls so: `generated_sql`, and of kind `sql_metrics` also `generatedSql`.
pub fn field(kind: Kind, name: &str) -> Option<Field> {
    let about = about(kind);
    let mut fields = about.fields.iter();
    fields
        .find(|field| about.spelling.takes(field, name))
        .copied()
}

/// The fields of a kind's payload, in the order of a report.
pub fn fields(kind: Kind) -> &'static [Field] {
    about(kind).fields
}
