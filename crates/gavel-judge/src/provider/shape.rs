//! Optional fields of requests.

use std::collections::BTreeSet;

/// Output mode of a request, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rung {
    /// The server enforces the schema.
    JsonSchema,
    /// The model must call a tool with the schema as its input.
    Tool,
    /// The server enforces JSON; the schema is in the prompt.
    JsonObject,
    /// The schema is in the prompt.
    Prompt,
}

impl Rung {
    /// Returns its value in `structured:`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::Tool => "tool",
            Self::JsonObject => "json_object",
            Self::Prompt => "prompt",
        }
    }
}

/// The output modes of a format, strictest first, each with the names of its fields in errors, separated by `|`.
pub(crate) type Ladder = [(Rung, &'static str)];

/// A field that some servers or models reject, by its name.
pub(super) type Field = &'static str;
/// Stands for the fields of the output mode.
pub(super) const FORMAT: Field = "output mode";
/// The output cap under its new name. Every request may have the old one.
pub(super) const NEW_CAP: Field = "max_completion_tokens";
pub(super) const FIELDS: [Field; 4] = ["temperature", NEW_CAP, FORMAT, "seed"];

/// Returns a field's names in errors about a request in output mode `rung`, separated by `|`.
pub(super) fn names(field: Field, ladder: &Ladder, rung: Rung) -> &'static str {
    match field {
        FORMAT => ladder.iter().find(|it| it.0 == rung).map_or("", |it| it.1),
        name => name,
    }
}

/// Optional fields of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rung: Rung,
    /// Those that don't depend on the output mode.
    pub(super) fields: BTreeSet<Field>,
}

impl Shape {
    /// Returns the fields that both shapes have.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            rung: self.rung.max(other.rung),
            fields: &self.fields & &other.fields,
        }
    }

    pub(super) fn has(&self, field: Field) -> bool {
        self.fields.contains(field) || field == FORMAT && self.rung != Rung::Prompt
    }

    /// Returns the shape with the field removed, renamed or in the next output mode; `None` if that is impossible.
    pub(super) fn without(&self, field: Field, ladder: &Ladder) -> Option<Self> {
        let mut rest = self.clone();
        if field == FORMAT {
            rest.rung = ladder.iter().find(|it| it.0 > self.rung)?.0;
        } else if !rest.fields.remove(field) {
            return None;
        }
        Some(rest)
    }
}
