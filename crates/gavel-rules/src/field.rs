//! The fields of payloads, as tables of suites and reports hold them.

/// A field of a payload: what columns of suites and reports are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub form: FieldForm,
}

/// How a cell of a table holds a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldForm {
    Text,
    /// A text that may be empty, as of an agent that wrote none: so is its cell.
    TextOrEmpty,
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

    pub const fn text_or_empty(name: &'static str) -> Self {
        Self {
            name,
            form: FieldForm::TextOrEmpty,
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
