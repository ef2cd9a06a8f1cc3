//! What a family has to word: calls, replies and refusals.

use serde_json::Value;
use wiremock::ResponseTemplate;

pub(super) type Headers = Vec<(&'static str, String)>;

/// How one family words what a server does.
pub(super) trait Family: Sync {
    /// Its `type:` in llm_providers.yaml.
    fn name(&self) -> &'static str;
    /// What stands behind the server's address in `base_url`.
    fn base(&self) -> &'static str {
        ""
    }
    /// Where a call goes.
    fn path(&self) -> &'static str;
    /// The headers that show who asks.
    fn headers(&self) -> Headers;
    /// The body of a first call.
    fn request(&self, prompt: &str, schema: &Value) -> Value;
    /// A body of status 200.
    fn reply(&self, reply: Reply<'_>) -> Value;
    /// A refusal.
    fn refusal(&self, refusal: Refusal) -> Told;
    /// Headers that say so much of a limit of requests a minute, or why there are none.
    fn limits(&self, limit: u64, left: u64, reset_s: u64) -> Result<Headers, &'static str>;
    /// The ways to ask for the reply's shape, in order.
    fn ladder(&self) -> [&'static str; 3];
    /// Which of them a request is.
    fn rung(&self, request: &Value) -> &'static str;
    /// Whether a request sets a temperature.
    fn has_temperature(&self, request: &Value) -> bool {
        request.get("temperature").is_some()
    }
    /// The texts of a request's messages, with who spoke.
    fn spoken(&self, request: &Value) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = request["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|message| (text(&message["role"]), text(&message["content"])))
            .collect()
    }
    /// What the model's own words are marked as.
    fn model_role(&self) -> &'static str {
        "assistant"
    }
    /// The same body as a list, or why there is no such thing.
    fn in_a_list(&self, body: &Value) -> Result<Value, &'static str>;
}

/// A good answer: 1,000 tokens in, 400 of them cached, and 100 out, hidden ones included.
#[derive(Clone, Copy)]
pub(super) enum Reply<'a> {
    Says(&'a str),
    /// Thoughts of another total stand before it.
    AfterThoughts(&'a str),
    CutOff(&'a str),
    Declines,
    StopsFor(&'a str),
    By(&'a str),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Refusal {
    Overloaded,
    /// Come again in 17 s, said in the family's own way.
    Throttled,
    UsedUp,
    WrongKey,
    NoSuchModel,
    Temperature,
    /// The first rung of the ladder.
    Schema,
    /// The second.
    NextRung,
    TooLong,
    Odd,
}

/// Status, headers, body.
pub(super) struct Told(pub(super) u16, pub(super) Headers, pub(super) Value);

impl Told {
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
