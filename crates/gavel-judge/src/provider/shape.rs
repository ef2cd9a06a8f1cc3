//! Which fields a request has.

/// How the reply's shape is asked for, the strictest way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rung {
    /// The server holds the model to the schema.
    JsonSchema,
    /// The model must call one tool, whose input has the schema.
    Tool,
    /// The server holds the model to JSON; the schema stands in the prompt.
    JsonObject,
    /// The schema stands in the prompt.
    Prompt,
}

impl Rung {
    /// Its name in `structured:`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::Tool => "tool",
            Self::JsonObject => "json_object",
            Self::Prompt => "prompt",
        }
    }
}

/// Fields that some servers or models refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Temperature,
    /// The output cap under its new name, where it has two. The old one is no such field: every request has it.
    MaxCompletionTokens,
    /// Whatever asks for the reply's shape.
    Format,
    Seed,
}

impl Field {
    pub(super) const ALL: [Self; 4] = [
        Self::Temperature,
        Self::MaxCompletionTokens,
        Self::Format,
        Self::Seed,
    ];
}

/// Which fields a request has besides those that every request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rung: Rung,
    /// Whether the output cap has its new name.
    pub(super) new_cap: bool,
    pub(super) temperature: bool,
    pub(super) seed: bool,
}

impl Shape {
    /// What both can do without.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            rung: self.rung.max(other.rung),
            new_cap: self.new_cap && other.new_cap,
            temperature: self.temperature && other.temperature,
            seed: self.seed && other.seed,
        }
    }

    pub(super) fn has(self, field: Field) -> bool {
        match field {
            Field::Temperature => self.temperature,
            Field::MaxCompletionTokens => self.new_cap,
            Field::Format => self.rung != Rung::Prompt,
            Field::Seed => self.seed,
        }
    }

    /// The next shape, with the field dropped, renamed or one rung down `ladder`; `None` if nothing is left to try.
    pub(super) fn without(mut self, field: Field, ladder: &[Rung]) -> Option<Self> {
        if !self.has(field) {
            return None;
        }
        match field {
            Field::Temperature => self.temperature = false,
            Field::Seed => self.seed = false,
            Field::MaxCompletionTokens => self.new_cap = false,
            Field::Format => self.rung = *ladder.iter().find(|rung| **rung > self.rung)?,
        }
        Some(self)
    }
}
