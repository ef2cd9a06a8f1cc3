//! Optional fields of requests.

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

/// Fields that some servers or models reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Temperature,
    /// The output cap under its new name. Every request may have the old one.
    MaxCompletionTokens,
    /// Fields of the output mode.
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

    /// Returns its names in errors about a request in output mode `rung`, separated by `|`.
    pub(super) fn names(self, ladder: &Ladder, rung: Rung) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::Format => ladder.iter().find(|it| it.0 == rung).map_or("", |it| it.1),
            Self::Seed => "seed",
        }
    }
}

/// Optional fields of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rung: Rung,
    /// Whether the output cap has its new name.
    pub(super) new_cap: bool,
    pub(super) temperature: bool,
    pub(super) seed: bool,
}

impl Shape {
    /// Returns the fields that both shapes have.
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

    /// Returns the shape with the field removed, renamed or in the next output mode; `None` if that is impossible.
    pub(super) fn without(mut self, field: Field, ladder: &Ladder) -> Option<Self> {
        match field {
            _ if !self.has(field) => return None,
            Field::Temperature => self.temperature = false,
            Field::Seed => self.seed = false,
            Field::MaxCompletionTokens => self.new_cap = false,
            Field::Format => self.rung = ladder.iter().find(|it| it.0 > self.rung)?.0,
        }
        Some(self)
    }
}
