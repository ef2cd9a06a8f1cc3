//! The request's body, and the fields that it can do without.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::schema::Ordered;
use crate::judge::provider::{CallRequest, Role};
use crate::judge::providers::{Entry, JudgeSpec, Structured};

/// Fields that some servers or models refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Temperature,
    MaxCompletionTokens,
    MaxTokens,
    ResponseFormat,
    Seed,
}

impl Field {
    pub(super) const ALL: [Self; 5] = [
        Self::Temperature,
        Self::MaxCompletionTokens,
        Self::MaxTokens,
        Self::ResponseFormat,
        Self::Seed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
            Self::ResponseFormat => "response_format",
            Self::Seed => "seed",
        }
    }
}

/// Which fields a request has. Narrower shapes compare greater, so that what two calls learned adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    format: Format,
    cap: Cap,
    temperature: Sent,
    seed: Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    JsonSchema,
    JsonObject,
    Prompt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cap {
    MaxCompletionTokens,
    MaxTokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    Yes,
    No,
}

impl Shape {
    /// What is tried first.
    pub(super) fn start(entry: &Entry) -> Self {
        let sent = |yes| if yes { Sent::Yes } else { Sent::No };
        Self {
            format: match entry.structured {
                Structured::Auto | Structured::JsonSchema => Format::JsonSchema,
                Structured::JsonObject => Format::JsonObject,
            },
            cap: Cap::MaxCompletionTokens,
            temperature: sent(entry.temperature.is_some()),
            // There is one only where the entry's extra_body says so.
            seed: sent(entry.extra_body.contains_key(Field::Seed.name())),
        }
    }

    /// What both can do without.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            format: self.format.max(other.format),
            cap: self.cap.max(other.cap),
            temperature: self.temperature.max(other.temperature),
            seed: self.seed.max(other.seed),
        }
    }

    /// Whether a request of this shape holds the field.
    pub(super) fn has(self, field: Field) -> bool {
        match field {
            Field::Temperature => self.temperature == Sent::Yes,
            Field::MaxCompletionTokens => self.cap == Cap::MaxCompletionTokens,
            Field::MaxTokens => self.cap == Cap::MaxTokens,
            Field::ResponseFormat => self.format != Format::Prompt,
            Field::Seed => self.seed == Sent::Yes,
        }
    }

    /// The next shape, with the field dropped, renamed or one rung down; `None` if nothing is left to try.
    pub(super) fn without(self, field: Field) -> Option<Self> {
        if !self.has(field) {
            return None;
        }
        match field {
            Field::Temperature => Some(Self {
                temperature: Sent::No,
                ..self
            }),
            Field::Seed => Some(Self {
                seed: Sent::No,
                ..self
            }),
            Field::MaxCompletionTokens => Some(Self {
                cap: Cap::MaxTokens,
                ..self
            }),
            // It was renamed to this one already.
            Field::MaxTokens => None,
            Field::ResponseFormat => Some(Self {
                format: match self.format {
                    Format::JsonSchema => Format::JsonObject,
                    Format::JsonObject | Format::Prompt => Format::Prompt,
                },
                ..self
            }),
        }
    }
}

/// The body of one call.
pub(super) fn body(
    spec: &JudgeSpec,
    request: &CallRequest,
    shape: Shape,
) -> Result<Vec<u8>, serde_json::Error> {
    let entry = spec.entry();
    let schema = to_raw_value(&Ordered(request.schema.as_ref()))?;
    let messages = messages(request, shape, &schema);
    let text: usize = messages.iter().map(|message| message.content.len()).sum();
    let mut body: BTreeMap<&str, Part<'_>> = BTreeMap::new();
    body.insert("model", raw(spec.model())?);
    body.insert("messages", Part::Messages(&messages));
    match shape.format {
        Format::JsonSchema => {
            let format = BySchema {
                kind: "json_schema",
                json_schema: NamedSchema {
                    name: request.schema_name,
                    strict: true,
                    schema: &schema,
                },
            };
            body.insert("response_format", raw(&format)?);
        }
        Format::JsonObject => {
            let format = json!({ "type": "json_object" });
            body.insert("response_format", raw(&format)?);
        }
        Format::Prompt => {}
    }
    let cap = match shape.cap {
        Cap::MaxCompletionTokens => Field::MaxCompletionTokens,
        Cap::MaxTokens => Field::MaxTokens,
    };
    body.insert(cap.name(), raw(&request.max_output_tokens)?);
    if let (Some(temperature), Sent::Yes) = (entry.temperature, shape.temperature) {
        body.insert(Field::Temperature.name(), raw(&temperature)?);
    }
    for (key, value) in &entry.extra_body {
        if key != Field::Seed.name() || shape.seed == Sent::Yes {
            body.insert(key, raw(value)?);
        }
    }
    // Written once, and held as long as the call lasts: neither grown by doubling nor much too large.
    let escapes = text / 32;
    let mut bytes = Vec::with_capacity(text + escapes + schema.get().len() + OTHER_FIELDS);
    serde_json::to_writer(&mut bytes, &body)?;
    if bytes.capacity() - bytes.len() > escapes + OTHER_FIELDS {
        bytes.shrink_to_fit();
    }
    Ok(bytes)
}

/// Room for what a body holds besides the conversation and the schema.
const OTHER_FIELDS: usize = 512;

/// The value of one field.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Messages(&'a [WireMessage<'a>]),
    Raw(Box<RawValue>),
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Part<'static>, serde_json::Error> {
    to_raw_value(value).map(Part::Raw)
}

#[derive(Serialize)]
struct BySchema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Cow<'a, str>,
}

fn messages<'a>(request: &'a CallRequest, shape: Shape, schema: &RawValue) -> Vec<WireMessage<'a>> {
    let mut messages: Vec<WireMessage<'_>> = request
        .messages
        .iter()
        .map(|message| WireMessage {
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            content: Cow::Borrowed(&message.content),
        })
        .collect();
    if shape.format != Format::JsonSchema
        && let Some(first) = messages.first_mut()
    {
        // The server won't hold the model to the schema, so the model must be told it.
        first.content.to_mut().push_str(&format!(
            "\n\nReply with one JSON object that matches this JSON schema, and with nothing else:\n{schema}\n"
        ));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::providers::Providers;

    fn start(structured: &str) -> Shape {
        let entry = json!({ "j": {
            "type": "openai", "base_url": "http://h", "model": "m", "auth": "none", "structured": structured,
        }});
        let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
        Shape::start(providers.spec("j").unwrap().entry())
    }

    #[test]
    fn a_request_gets_narrower_a_few_times_and_then_no_more() {
        let mut shape = start("auto");
        let mut steps = 0;
        while let Some(narrower) = Field::ALL
            .into_iter()
            .find_map(|field| shape.without(field))
        {
            assert_eq!(shape.and(narrower), narrower);
            shape = narrower;
            steps += 1;
        }
        // Temperature, the cap's name, and two rungs of the format.
        assert_eq!(steps, 4);
    }

    #[test]
    fn what_two_calls_learned_adds_up() {
        let start = start("auto");
        let cool = start.without(Field::Temperature).unwrap();
        let old = start.without(Field::MaxCompletionTokens).unwrap();
        let both = cool.and(old);
        assert_eq!(both, old.and(cool));
        assert!(!both.has(Field::Temperature) && both.has(Field::MaxTokens));
    }

    #[test]
    fn an_entry_may_begin_further_down() {
        assert!(start("json_object").has(Field::ResponseFormat));
        assert!(!start("auto").has(Field::Seed));
        assert_eq!(start("json_object").without(Field::Seed), None);
    }
}
