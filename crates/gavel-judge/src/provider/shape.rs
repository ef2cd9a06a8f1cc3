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

/// The names that errors have for a field that a request of this shape has; empty where there is no such field.
pub(super) type FieldNames = fn(Field, Shape) -> &'static [&'static str];

/// Fields that some servers or models refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Temperature,
    /// The output cap under its new name, where it has two.
    MaxCompletionTokens,
    /// The output cap, which every request has.
    MaxTokens,
    /// Whatever asks for the reply's shape.
    Format,
    Seed,
}

impl Field {
    pub(super) const ALL: [Self; 5] = [
        Self::Temperature,
        Self::MaxCompletionTokens,
        Self::MaxTokens,
        Self::Format,
        Self::Seed,
    ];
}

/// Which fields a request has. Narrower shapes compare greater, so that what two calls learned adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rung: Rung,
    pub(super) cap: Cap,
    pub(super) temperature: Sent,
    pub(super) seed: Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cap {
    MaxCompletionTokens,
    MaxTokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sent {
    Yes,
    No,
}

impl Shape {
    /// What both can do without.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            rung: self.rung.max(other.rung),
            cap: self.cap.max(other.cap),
            temperature: self.temperature.max(other.temperature),
            seed: self.seed.max(other.seed),
        }
    }

    pub(super) fn has(self, field: Field) -> bool {
        match field {
            Field::Temperature => self.temperature == Sent::Yes,
            Field::MaxCompletionTokens => self.cap == Cap::MaxCompletionTokens,
            Field::MaxTokens => self.cap == Cap::MaxTokens,
            Field::Format => self.rung != Rung::Prompt,
            Field::Seed => self.seed == Sent::Yes,
        }
    }

    /// The next shape, with the field dropped, renamed or one rung down `ladder`; `None` if nothing is left to try.
    pub(super) fn without(self, field: Field, ladder: &[Rung]) -> Option<Self> {
        if !self.has(field) {
            return None;
        }
        let mut narrower = self;
        match field {
            Field::Temperature => narrower.temperature = Sent::No,
            Field::Seed => narrower.seed = Sent::No,
            Field::MaxCompletionTokens => narrower.cap = Cap::MaxTokens,
            // It was renamed to this one already, or has no other name.
            Field::MaxTokens => return None,
            Field::Format => narrower.rung = *ladder.iter().find(|rung| **rung > self.rung)?,
        }
        Some(narrower)
    }
}
