/// Payload field, used as a column of suites and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub form: FieldForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldForm {
    Text,
    /// Text that may be empty, because an agent may have written an empty answer.
    TextOrEmpty,
    /// JSON (list, object, number, boolean); answers may also be plain text.
    Json,
    /// True or false in any case, because spreadsheets write TRUE and FALSE.
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
