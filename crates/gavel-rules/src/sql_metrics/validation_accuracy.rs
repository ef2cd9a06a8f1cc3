use gavel_wire::text_enum;
use serde::Serialize;

text_enum! {
    pub enum ValidationOutcome {
        CorrectAcceptance = "correct acceptance",
        CorrectRejection = "correct rejection",
        FalseRejection = "false rejection",
        FalseAcceptance = "false acceptance",
    }
}

impl ValidationOutcome {
    fn from_flags(is_valid: bool, should_pass: bool) -> Self {
        match (is_valid, should_pass) {
            (true, true) => Self::CorrectAcceptance,
            (false, false) => Self::CorrectRejection,
            (false, true) => Self::FalseRejection,
            (true, false) => Self::FalseAcceptance,
        }
    }
}

text_enum! {
    /// Reason of a rejection, derived from its errors.
    pub enum RejectionKind {
        Safety = "safety violation",
        Schema = "schema violation",
        Syntax = "syntax error",
        Other = "other",
    }
}

text_enum! {
    /// Object of a schema violation. `Table` includes other relations.
    pub enum SchemaDetail {
        Table = "table",
        Column = "column",
    }
}

/// Details of the metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Validation<'a> {
    pub outcome: ValidationOutcome,
    /// Kind of the rejection; `None` if accepted.
    pub category: Option<RejectionKind>,
    /// For a schema violation, the missing object, if the errors name it.
    pub detail: Option<SchemaDetail>,
    /// Whether the validator accepted the query but listed errors.
    pub contradictory: bool,
    pub message: Option<&'static str>,
    pub errors: &'a [String],
}

const SAFETY: &[&str] = &[
    "unsafe",
    "dangerous",
    "forbidden",
    "injection",
    "not allowed",
    "not permitted",
    "disallowed",
    "prohibited",
    "blocked",
    "read-only",
    "only select",
];
const SCHEMA: &[&str] = &[
    "does not exist",
    "doesn't exist",
    "unknown column",
    "unknown table",
    "no such",
    "not found",
    // SQL Server, Snowflake
    "invalid column",
    "invalid object",
    "invalid identifier",
    "could not be bound",
    // BigQuery, ClickHouse
    "unrecognized name",
    "unknown expression identifier",
    "unknown table expression identifier",
    "missing columns",
    // Postgres, Databricks, Hive
    "missing from-clause entry",
    "cannot be resolved",
    "cannot be found",
    "invalid table alias or column reference",
];
const SYNTAX: &[&str] = &[
    "syntax",
    "parse",
    "parser",
    "parsing",
    "unexpected",
    "near",
    "unclosed",
    "unterminated",
    "unrecognized token",
    "incomplete input",
    "mismatched input",
    "cannot recognize input",
];
const COLUMN: &[&str] = &["column", "field"];
const TABLE: &[&str] = &["table", "relation", "view"];

/// Classifies a validator's decision about one case. `safety_valid` is the result of its safety check, if any.
pub fn validation(
    is_valid: bool,
    should_pass: bool,
    errors: &[String],
    safety_valid: Option<bool>,
) -> Validation<'_> {
    let outcome = ValidationOutcome::from_flags(is_valid, should_pass);
    let (category, detail) = (!is_valid).then(|| rejection(errors, safety_valid)).unzip();
    let contradictory = is_valid && !errors.is_empty();
    let message = if outcome == ValidationOutcome::FalseRejection {
        Some("Investigation needed")
    } else {
        contradictory.then_some("The query was accepted, and yet errors are listed")
    };
    Validation {
        outcome,
        category,
        detail: detail.flatten(),
        contradictory,
        message,
        errors,
    }
}

/// Returns the kind of a rejection, with priority safety, schema, syntax. Quoted names are ignored, because a missing column may be called
/// `unsafe`.
fn rejection(
    errors: &[String],
    safety_valid: Option<bool>,
) -> (RejectionKind, Option<SchemaDetail>) {
    let errors: Vec<String> = errors.iter().map(|error| plain(error)).collect();
    let says = |phrases: &[&str]| {
        errors
            .iter()
            .any(|error| first_of(error, phrases).is_some())
    };
    let category = if safety_valid == Some(false) || says(SAFETY) {
        RejectionKind::Safety
    } else if says(SCHEMA) {
        RejectionKind::Schema
    } else if says(SYNTAX) {
        RejectionKind::Syntax
    } else {
        RejectionKind::Other
    };
    let mut of_schema = errors
        .iter()
        .filter(|error| category == RejectionKind::Schema && first_of(error, SCHEMA).is_some());
    let detail = of_schema.next().and_then(|error| detail(error));
    (category, detail)
}

/// Returns the object mentioned first: `column u.x of relation t does not exist` is about a column.
fn detail(error: &str) -> Option<SchemaDetail> {
    match (first_of(error, COLUMN), first_of(error, TABLE)) {
        (Some(column), Some(table)) if table < column => Some(SchemaDetail::Table),
        (Some(_), _) => Some(SchemaDetail::Column),
        (None, Some(_)) => Some(SchemaDetail::Table),
        (None, None) => None,
    }
}

/// Returns the first position of any of the phrases, at word boundaries.
fn first_of(text: &str, phrases: &[&str]) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    phrases
        .iter()
        .filter_map(|phrase| {
            text.match_indices(phrase).map(|(at, _)| at).find(|at| {
                !text[..*at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
            })
        })
        .min()
}

/// Returns an error in lower case, with normalized spaces and without quoted text.
fn plain(error: &str) -> String {
    let lower = error.to_lowercase().replace('’', "'");
    let mut plain = String::with_capacity(lower.len());
    let mut rest = lower.as_str();
    while let Some(at) = rest.find(['"', '\'', '`']) {
        let (before, quoted) = rest.split_at(at);
        plain.push_str(before);
        let quote = &quoted[..1];
        // A quote inside a word is an apostrophe.
        let opens = !before.ends_with(char::is_alphanumeric);
        match quoted[1..].find(quote).filter(|_| opens) {
            Some(length) => rest = &quoted[length + 2..],
            None => {
                plain.push_str(quote);
                rest = &quoted[1..];
            }
        }
    }
    plain.push_str(rest);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rejected(error: &str) -> (RejectionKind, Option<SchemaDetail>) {
        rejection(&[error.to_owned()], None)
    }

    #[test]
    fn outcome_compares_validator_with_expectation() {
        let cases = [
            (true, true, "correct acceptance", None),
            (false, false, "correct rejection", None),
            (false, true, "false rejection", Some("Investigation needed")),
            (true, false, "false acceptance", None),
        ];
        for (is_valid, should_pass, name, message) in cases {
            let found = validation(is_valid, should_pass, &[], None);
            assert_eq!(serde_json::to_value(found.outcome).unwrap(), name);
            assert_eq!(found.message, message, "{name}");
        }
    }

    #[test]
    fn rejection_kind_follows_priority() {
        use RejectionKind::{Other, Safety, Schema, Syntax};
        use SchemaDetail::{Column, Table};
        let cases = [
            ("Query contains a DANGEROUS operation", Safety, None),
            ("DROP is not  allowed", Safety, None),
            ("possible SQL injection: syntax", Safety, None),
            ("column \"deleted_at\" does not exist", Schema, Some(Column)),
            ("column \"unsafe\" does not exist", Schema, Some(Column)),
            ("relation 'forbidden' does not exist", Schema, Some(Table)),
            (
                "column x of relation y does not exist",
                Schema,
                Some(Column),
            ),
            ("Unknown column 'a' in 'field list'", Schema, Some(Column)),
            ("Table 'a.b' doesn't exist", Schema, Some(Table)),
            ("no such table: a", Schema, Some(Table)),
            ("function f() does not exist", Schema, None),
            ("Invalid column name 'foo'.", Schema, Some(Column)),
            ("Invalid object name 'dbo.foo'.", Schema, None),
            (
                "The multi-part identifier \"a.b\" could not be bound.",
                Schema,
                None,
            ),
            ("Unrecognized name: foo at [1:8]", Schema, None),
            ("invalid identifier 'FOO'", Schema, None),
            (
                "missing FROM-clause entry for table \"x\"",
                Schema,
                Some(Table),
            ),
            (
                "A column with name `a` cannot be resolved",
                Schema,
                Some(Column),
            ),
            ("The table or view `t` cannot be found", Schema, Some(Table)),
            ("Missing columns: 'a' while processing query", Schema, None),
            ("DROP statements are not permitted", Safety, None),
            ("Only SELECT statements are accepted", Safety, None),
            ("Blocked keyword: DELETE", Safety, None),
            ("read-only access required", Safety, None),
            ("unrecognized token: \"@\"", Syntax, None),
            ("incomplete input", Syntax, None),
            ("Unclosed quotation mark after 'x'", Syntax, None),
            ("near \"from\": syntax error", Syntax, None),
            ("Unexpected token", Syntax, None),
            ("could not parse", Syntax, None),
            ("nearly unsafely linear", Other, None),
            ("undangerous unsafe_column", Other, None),
            ("timeout", Other, None),
            ("", Other, None),
        ];
        for (error, category, detail) in cases {
            assert_eq!(rejected(error), (category, detail), "{error}");
        }
    }

    #[test]
    fn failed_safety_check_is_a_safety_violation() {
        let kind = |safe| rejection(&["syntax error".to_owned()], Some(safe)).0;
        assert_eq!(kind(false), RejectionKind::Safety);
        assert_eq!(kind(true), RejectionKind::Syntax);
    }

    #[test]
    fn acceptance_with_errors_is_contradictory() {
        let errors = ["no such table: a".to_owned()];
        let accepted = validation(true, true, &errors, None);
        assert!(accepted.contradictory);
        assert_eq!(accepted.category, None);
        let rejected = validation(false, true, &errors, None);
        assert!(!rejected.contradictory);
        assert_eq!(rejected.outcome, ValidationOutcome::FalseRejection);
    }

    proptest! {
        #[test]
        fn every_error_has_a_kind(errors in prop::collection::vec(any::<String>(), 0..4)) {
            let _ = validation(false, true, &errors, None);
        }
    }
}
