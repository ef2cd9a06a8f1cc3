//! Messages and their parts in every dialect, converted into the items of [`super::transcript`].

use serde_json::{Value, json};

use super::calls::{ERRORS, call, result};
use super::field::{fields_except, first, is_one_of, list, moment};
use super::kind::{
    Kind, inner, is_message, named_type, pair, role, snake, speaker, type_of, unwrapped,
};
use super::shown::{BOOKKEEPING, joined, part_text, shown, unknown};
use super::transcript::{ALTERNATIVE, Item, ItemKind, Known, THINKING, tool_text};

pub(super) const NO_MESSAGE: &str = "is no message; an object with a role and a content is expected, such as {\"role\": \"user\", \"content\": \"..\"}";

/// Fields of a message with its thinking. The first with a value is used, because others repeat it.
const THOUGHTS: &str = "reasoning_content reasoning thinking reasoning_text thinking_blocks reasoning_details thoughts";
/// Fields of a thinking part, which are all used.
const THOUGHT_FIELDS: &str = "thinking reasoning reasoningText reasoning_text text summary content";
/// Fields of a message that the reader reads, then fields that a judge doesn't need.
const KNOWN: &str = "role content parts blocks contents items refusal tool_calls toolCalls invalid_tool_calls toolInvocations \
    function_call function tool tool_name tool_args tool_call_error is_error tool_responses instructions additional_kwargs \
    source author info channel thinking_blocks \
    stop_reason stop_sequence finish_reason finishReason created weight version phase raw _type state node_info \
    nodeInfo canonical_system";
/// Words in the names of fields that a judge doesn't need.
const METADATA: &str =
    "id ids uuid name at date timestamp model provider usage tokens metrics metadata meta";
/// Fields that add no meaning if they are the only field of an object.
const TEXTS: &str =
    "input inputs output outputs question query answer response text content prompt";

/// Fields of an object with messages: in each row the first field with a value is used. Plain text in it has the role.
const PLACES: [(&str, &str); 4] = [
    (INSTRUCTIONS, "system"),
    (REQUESTS, "user"),
    ("/intermediate_steps", "assistant"),
    (ANSWERS, "assistant"),
];
const INSTRUCTIONS: &str = "/system /instructions /system_instruction /systemInstruction";
const REQUESTS: &str = "/messages /values/messages /chat_history /contents /prompts /prompt /input";
const ANSWERS: &str = "/output /completion /choices /generations /candidates /message /response";

/// Returns the messages of a request, a response, or an object with both: pointer, role of plain text, value.
pub(super) fn located(document: &Value) -> Vec<(&'static str, &'static str, &Value)> {
    let find = |(names, role): &(&'static str, &'static str)| {
        let mut names = names.split(' ');
        names.find_map(|name| Some((name, *role, first(document, name)?)))
    };
    let located: Vec<_> = PLACES.iter().filter_map(find).collect();
    // Instructions without messages aren't a conversation.
    match located.iter().any(|(_, role, _)| *role != "system") {
        true => located,
        false => Vec::new(),
    }
}

/// Returns the items of a message, or of an item with the role of its place; `None` for other values.
pub(super) fn read_message(value: &Value, place: &str) -> Option<Vec<Item>> {
    let (class, message) = unwrapped(value);
    // In Gemini's format the user's messages and the instructions may consist of parts alone.
    let is_parts = message["parts"].is_array() && fields_except(message, "parts").is_empty();
    let of_place = || if place == "system" { "system" } else { "user" }.to_owned();
    let mut reader = Reader::default();
    match role(class, message).or_else(|| is_parts.then(of_place)) {
        Some(role) => reader.message(&role, message),
        None => {
            // The speaker of an unknown item is unknown, so it can't be the agent's conclusion.
            let is_unknown = Kind::of(&named_type(message)?, message) == Kind::Unknown;
            let is_system = is_unknown && place == "assistant";
            reader.part(if is_system { "system" } else { place }, message);
        }
    }
    let agent = speaker(message).filter(|speaker| speaker != "user");
    for item in &mut reader.items {
        item.agent.clone_from(&agent);
        item.at = time(message);
    }
    Some(reader.items)
}

fn time(message: &Value) -> Option<chrono::DateTime<chrono::Utc>> {
    first(message, "timestamp created_at createdAt").and_then(moment)
}

/// Reads a list in the order of time. Of several answers to one request the first is read as such, the others as alternatives. The error is
/// the index of a value that isn't read.
pub(super) fn read_list(
    values: &[Value],
    is_answers: bool,
    read: impl Fn(&Value) -> Option<Vec<Item>>,
) -> Result<Vec<Item>, usize> {
    let mut values: Vec<(usize, &Value)> = values.iter().enumerate().collect();
    let times = values.iter().map(|(_, value)| time(unwrapped(value).1));
    let times: Option<Vec<_>> = times.collect();
    if times.is_some_and(|times| times.is_sorted_by(|later, sooner| later > sooner)) {
        values.reverse();
    }
    let fields = "finish_reason finishReason generation_info";
    let is_answer = |(_, value): &(usize, &Value)| first(value, fields).is_some();
    let is_answers = is_answers || values.iter().all(is_answer);
    let mut items = Vec::new();
    for (n, value) in values {
        let read = read(value).ok_or(n)?.into_iter();
        match is_answers && n > 0 {
            true => items.extend(read.map(alternative)),
            false => items.extend(read),
        }
    }
    Ok(items)
}

/// Converts an item of an answer that the agent didn't use; its calls weren't made.
fn alternative(item: Item) -> Item {
    let call = tool_text(item.arguments.as_ref(), None);
    let text = match item.kind {
        ItemKind::Text => item.text,
        ItemKind::Call | ItemKind::Result => format!("{}: {call}", item.name.unwrap_or_default()),
    };
    Item::text(ALTERNATIVE, text)
}

/// Returns the items of any input or output of a model: messages, lists of them, text, or the text of other JSON.
pub(super) fn read_any(value: &Value, role: &str) -> Vec<Item> {
    let each = |values: &[Value], is_answers| {
        let read = |value: &Value| Some(read_any(value, role));
        read_list(values, is_answers, read).unwrap_or_default()
    };
    if let Some(text) = value.as_str() {
        let is_json = text.trim_start().starts_with(['[', '{', '"']);
        return match serde_json::from_str(text).ok().filter(|_| is_json) {
            Some(Value::String(inner)) => text_item(role, &inner),
            Some(value) if is_conversation(&value) => read_any(&value, role),
            Some(_) | None => text_item(role, text),
        };
    }
    if let Some((role, said)) = pair(value) {
        return text_item(&role, said);
    }
    if let Some(values) = value.as_array() {
        if values.is_empty() || values.iter().any(is_conversation) {
            return each(values, false);
        }
    } else if !is_message(value) && is_conversation(value) {
        let located = located(value).into_iter();
        let items = located.flat_map(|(name, role, value)| match value.as_array() {
            Some(values) if is_answers(name) => each(values, true),
            Some(_) | None => read_any(value, role),
        });
        return items.collect();
    } else if let Some(items) = read_message(value, role) {
        return items;
    }
    let inner = only_value(value);
    if !std::ptr::eq(inner, value) {
        read_any(inner, role)
    } else if *value == json!({}) {
        Vec::new()
    } else {
        text_item(role, &shown(value))
    }
}

/// Returns the value of the only field if its name is in [`TEXTS`], otherwise the value.
pub(super) fn only_value(value: &Value) -> &Value {
    let mut fields = value.as_object().into_iter().flatten();
    match (fields.next(), fields.next()) {
        (Some((name, only)), None) if is_one_of(name, TEXTS) => only,
        _ => value,
    }
}

/// Whether the entries of a field's list are answers to one request.
pub(super) fn is_answers(field: &str) -> bool {
    field == "/choices" || field == "/candidates"
}

fn is_conversation(value: &Value) -> bool {
    match value.as_array() {
        Some(_) if pair(value).is_some() => true,
        Some(values) => !values.is_empty() && values.iter().all(is_conversation),
        None => is_message(value) || located(value).iter().any(|(_, _, it)| !it.is_string()),
    }
}

fn text_item(role: &str, said: &str) -> Vec<Item> {
    let mut reader = Reader::default();
    reader.text(role, said);
    reader.items
}

#[derive(Default)]
struct Reader {
    items: Vec<Item>,
}

impl Reader {
    fn message(&mut self, role: &str, message: &Value) {
        let extra = &message["additional_kwargs"];
        self.text("system", &shown(&message["instructions"]));
        if let Some(thought) = first(message, THOUGHTS).or_else(|| first(extra, THOUGHTS)) {
            let text = joined(parts(thought).iter().map(part_text));
            let json = Some(shown(thought)).filter(|_| text.is_empty());
            self.text(THINKING, &json.unwrap_or(text));
        }
        let kind = type_of(message).map(|name| Kind::of(&name, message));
        let is_thought = kind == Some(Kind::Thinking) || message["channel"] == "analysis";
        let part_role = if is_thought { THINKING } else { role };
        let before = self.items.len();
        for name in "tool_responses parts content blocks contents items".split(' ') {
            // The first content that isn't empty is used.
            if self.items.len() == before {
                self.content(part_role, &message[name]);
            }
        }
        self.text(role, &shown(&message["refusal"]));
        self.calls(message, extra);
        let unread = unread(message, self.items.is_empty());
        // The user's text stays the first, because it may be the task, and the agent's the last, because it may be the conclusion.
        let is_first = role == "assistant";
        let place = if is_first { 0 } else { self.items.len() };
        if !unread.is_empty() {
            self.items.insert(place, Item::text(role, unread));
        }
        let is_text = |item: &Item| item.kind == ItemKind::Text;
        if role == "tool" && self.items.iter().all(is_text) {
            let content = joined(self.items.drain(..).map(|item| item.text));
            let result = result(message, "tool_result", Some(content));
            self.items.push(result);
        }
    }

    fn content(&mut self, role: &str, content: &Value) {
        // An event of Google's ADK contains a message of Gemini.
        let parts_of = Some(&content["parts"]).filter(|parts| parts.is_array());
        let content = parts_of.unwrap_or(content);
        let is_part = |part: &Value| part.is_string() || part.is_object();
        match content.as_array() {
            Some(list) if !list.iter().all(is_part) => self.text(role, &shown(content)),
            _ => parts(content).iter().for_each(|part| self.part(role, part)),
        }
    }

    /// Reads the calls outside the content, unless a part repeats them.
    fn calls(&mut self, message: &Value, extra: &Value) {
        let is_call = |item: &Item| item.kind == ItemKind::Call || item.arguments.is_some();
        let mut known = Known::default();
        let calls = self.items.iter().filter(|item| is_call(item));
        calls.for_each(|call| known.add(call.call_key()));
        let names = "tool_calls toolCalls invalid_tool_calls toolInvocations function_call";
        for name in names.split(' ') {
            // The legacy field repeats the only call of the list.
            if name == "function_call" && self.items.iter().any(is_call) {
                continue;
            }
            known.start_history();
            let own = Some(&message[name]).filter(|calls| !calls.is_null());
            let calls = list(own.unwrap_or(&extra[name]));
            let calls = calls.iter().map(|part| call(part, "tool_call"));
            let new = calls.filter(|call| known.is_new(call.call_key()));
            self.items.extend(new);
        }
    }

    fn part(&mut self, role: &str, part: &Value) {
        let merged;
        // OpenInference stores a call next to the part of its type, OpenCode what became of it.
        let part = match first(part, "message_content state").and_then(Value::as_object) {
            Some(content) => {
                let mut fields = fields_except(part, "message_content");
                fields.extend(content.clone());
                merged = Value::Object(fields);
                &merged
            }
            None => part,
        };
        let Some(name) = type_of(part) else {
            return self.text(role, &shown(part));
        };
        let inner = inner(part, &name);
        match Kind::of(&name, inner) {
            Kind::Text if name == "system_prompt" => self.text("system", &part_text(inner)),
            Kind::Text if inner["thought"] == true => self.text(THINKING, &part_text(inner)),
            Kind::Text if inner["content"].is_array() => self.content(role, &inner["content"]),
            Kind::Text => self.text(role, &part_text(inner)),
            Kind::Thinking => {
                let thoughts = THOUGHT_FIELDS.split(' ');
                let thoughts = thoughts.filter_map(|name| first(inner, name));
                let thoughts = Some(joined(thoughts.map(part_text)));
                let thoughts = thoughts.filter(|thoughts| !thoughts.is_empty());
                self.text(THINKING, &thoughts.unwrap_or_else(|| unknown(&name, inner)));
            }
            Kind::Call => self.items.push(call(inner, &name)),
            Kind::Result => self.items.push(result(inner, &name, None)),
            Kind::Unknown => self.text(role, &unknown(&name, inner)),
        }
    }

    fn text(&mut self, role: &str, said: &str) {
        // Open models write their thinking into the text.
        let inline = said.trim_start().strip_prefix("<think>");
        let inline = inline.and_then(|said| said.split_once("</think>"));
        if let Some((thought, rest)) = inline.filter(|_| role == "assistant") {
            self.text(THINKING, thought.trim());
            return self.text(role, rest.trim_start());
        }
        if said.trim().is_empty() {
            return;
        }
        match self.items.last_mut() {
            Some(last) if last.kind == ItemKind::Text && last.role == role => {
                last.text.push('\n');
                last.text.push_str(said);
            }
            _ => self.items.push(Item::text(role, said)),
        }
    }
}

/// Returns the texts, lists and objects in unknown fields of a message, each as JSON under its name. The text of a message's only field
/// needs no name.
fn unread(message: &Value, is_only: bool) -> String {
    let of_result = Some(ERRORS).filter(|_| message["role"] == "tool");
    let of_result = of_result.unwrap_or_default();
    let known = [BOOKKEEPING, KNOWN, THOUGHTS, of_result].join(" ");
    let mut fields = fields_except(message, &known);
    fields.retain(|name, value| {
        let has_text = is_only || !value.is_boolean() && !value.is_number();
        has_text && !snake(name).split('_').any(|word| is_one_of(word, METADATA))
    });
    let only = fields.values().next().and_then(Value::as_str);
    match (fields.len(), only) {
        (1, Some(text)) if is_only => text.to_owned(),
        _ => joined(fields.iter().map(|(name, value)| unknown(name, value))),
    }
}

fn parts(content: &Value) -> &[Value] {
    match content.as_array() {
        Some(parts) => parts,
        None => std::slice::from_ref(content),
    }
}
