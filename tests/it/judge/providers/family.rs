//! Per-family wire format: calls, replies and errors.

use serde_json::Value;
use wiremock::ResponseTemplate;

pub(super) type Headers = Vec<(&'static str, String)>;

pub(super) trait Family: Sync {
    fn name(&self) -> &'static str;
    fn base(&self) -> &'static str {
        ""
    }
    fn path(&self) -> &'static str;
    fn headers(&self) -> Headers;
    fn request(&self, prompt: &str, schema: &Value) -> Value;
    fn reply(&self, reply: Reply<'_>) -> Value;
    fn refusal(&self, refusal: Refusal) -> Wire;
    /// Headers for a limit of requests per minute, or the reason for having none.
    fn limits(&self, limit: u64, left: u64, reset_s: u64) -> Result<Headers, &'static str>;
    /// Output modes, in order of preference.
    fn ladder(&self) -> [&'static str; 3];
    fn rung(&self, request: &Value) -> &'static str;
    fn has_temperature(&self, request: &Value) -> bool {
        request.get("temperature").is_some()
    }
    /// Texts of a request's messages, with their roles.
    fn spoken(&self, request: &Value) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = request["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|message| (text(&message["role"]), text(&message["content"])))
            .collect()
    }
    fn model_role(&self) -> &'static str {
        "assistant"
    }
    /// The same body as a list, or the reason for having none.
    fn in_a_list(&self, body: &Value) -> Result<Value, &'static str>;
}

/// Good reply: 1,000 tokens in, 400 of them cached, and 100 out, including hidden ones.
#[derive(Clone, Copy)]
pub(super) enum Reply<'a> {
    Says(&'a str),
    /// Preceded by thoughts with another total.
    AfterThoughts(&'a str),
    CutOff(&'a str),
    Declines,
    StopsFor(&'a str),
    By(&'a str),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Refusal {
    Overloaded,
    /// Retry after 17 s, in the family's format.
    Throttled,
    UsedUp,
    WrongKey,
    NoSuchModel,
    Temperature,
    /// First output mode.
    Schema,
    NextRung,
    TooLong,
    Odd,
}

pub(super) struct Wire(pub(super) u16, pub(super) Headers, pub(super) Value);

impl Wire {
    pub(super) fn bare(status: u16, body: Value) -> Self {
        Self(status, Vec::new(), body)
    }

    pub(super) fn template(self) -> ResponseTemplate {
        let template = ResponseTemplate::new(self.0).set_body_json(self.2);
        self.1
            .into_iter()
            .fold(template, |template, (name, value)| {
                template.insert_header(name, value)
            })
    }
}
