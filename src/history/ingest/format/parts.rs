//! Messages and their parts, as every dialect spells them, in the form of [`super::transcript`].

use serde_json::Value;

use super::calls::{call_items, result};
use super::field::{first, is_blank, is_one_of, list, moment, rfc3339, text};
use super::kind::{Kind, inner, is_message, named_type, role, type_of, unwrapped};
use super::known::Known;
use super::shown::{BOOKKEEPING, joined, part_text, shown, unknown, without_base64};
use super::transcript::{Entry, Item, THINKING};

/// The error for a value that is no message.
pub(super) const NO_MESSAGE: &str = "is no message; an object with a role and a content is expected, such as {\"role\": \"user\", \"content\": \"..\"}";

/// Fields of a message with its thinking. The first with a value counts, because others repeat it.
const THOUGHTS: &str =
    "reasoning_content reasoning thinking reasoning_text thinking_blocks reasoning_details";
/// Fields of a message without content for a judge.
const KNOWN: &str = "role content parts refusal tool_calls additional_kwargs response_metadata usage usage_metadata \
    metadata stop_reason stop_sequence model finish_reason timestamp created_at createdAt source weight session_id thread_id \
    conversation_id uuid meta";
/// Names of fields that add no meaning to the only value of an object.
pub(super) const TEXTS: &str =
    "input inputs output outputs question query answer response text content prompt";

/// Fields of an object with messages, a row each with the role of plain text there. The first field of a row counts.
const PLACES: [(&str, &str); 4] = [
    (
        "/system /instructions /system_instruction /systemInstruction",
        "system",
    ),
    (
        "/messages /values/messages /chat_history /contents /prompts /prompt /input",
        "user",
    ),
    ("/intermediate_steps", "assistant"),
    (
        "/output /completion /choices /generations /candidates /message /response",
        "assistant",
    ),
];

/// Returns the messages of an object, a request, its answer or both: pointer, role of plain text, value.
pub(super) fn located(document: &Value) -> Vec<(&'static str, &'static str, &Value)> {
    let find = |(names, role): &(&'static str, &'static str)| {
        let mut names = names.split(' ');
        names.find_map(|name| Some((name, *role, first(document, name)?)))
    };
    let located: Vec<_> = PLACES.iter().filter_map(find).collect();
    // Instructions without messages are no conversation.
    match located.iter().any(|(_, role, _)| *role != "system") {
        true => located,
        false => Vec::new(),
    }
}

/// Returns the entries of a message or of an item, which has the role of its place; `None` for other values.
pub(super) fn read_message(value: &Value, place: &str) -> Option<Vec<Entry>> {
    let (class, message) = unwrapped(value);
    // Gemini's user and instructions need no role.
    let of_place = || if place == "system" { "system" } else { "user" }.to_owned();
    let role = role(class, message).or_else(|| message["parts"].is_array().then(of_place));
    if role.is_none() && named_type(message).is_none() {
        return None;
    }
    let agent =
        text(message, "source").filter(|source| source != "user" && message["role"].is_null());
    let at = first(message, "timestamp created_at createdAt")
        .and_then(moment)
        .map(rfc3339);
    let mut reader = Reader::default();
    match &role {
        Some(role) => reader.message(role, message),
        None => reader.part(place, message),
    }
    let entry = |item| Entry {
        item,
        agent: agent.clone(),
        at: at.clone(),
    };
    Some(reader.items.into_iter().map(entry).collect())
}

/// Returns the items of any input or output of a model: messages, lists of them, text, or other JSON as its text.
pub(super) fn read_any(value: &Value, role: &str) -> Vec<Item> {
    let each = |values: &[Value]| {
        values
            .iter()
            .flat_map(|value| read_any(value, role))
            .collect()
    };
    match value {
        Value::String(said) if said.trim_start().starts_with(['[', '{', '"']) => {
            match serde_json::from_str(said) {
                Ok(Value::String(inner)) => text_item(role, &inner),
                Ok(value) if is_conversation(&value) => read_any(&value, role),
                Ok(_) | Err(_) => text_item(role, said),
            }
        }
        Value::Array(values) if values.is_empty() || values.iter().any(is_conversation) => {
            each(values)
        }
        Value::Object(fields) => {
            let located = located(value);
            if !located.is_empty() && !is_message(value) {
                let items = located.iter();
                return items
                    .flat_map(|(_, role, value)| read_any(value, role))
                    .collect();
            }
            if let Some(entries) = read_message(value, role) {
                return entries.into_iter().map(|entry| entry.item).collect();
            }
            let mut only = fields.iter();
            match (only.next(), only.next()) {
                (None, _) => Vec::new(),
                (Some((name, inner)), None) if is_one_of(name, TEXTS) => read_any(inner, role),
                _ => text_item(role, &shown(value)),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::String(_) => {
            text_item(role, &shown(value))
        }
    }
}

fn is_conversation(value: &Value) -> bool {
    match value.as_array() {
        Some(values) => !values.is_empty() && values.iter().all(is_conversation),
        None => is_message(value) || !located(value).is_empty(),
    }
}

fn text_item(role: &str, said: &str) -> Vec<Item> {
    let mut reader = Reader::default();
    reader.text(role, said);
    reader.items
}

/// Reads one message.
#[derive(Default)]
struct Reader {
    items: Vec<Item>,
}

impl Reader {
    fn message(&mut self, role: &str, message: &Value) {
        let extra = &message["additional_kwargs"];
        self.text("system", &shown(&message["instructions"]));
        if let Some(responses) = message["tool_responses"].as_array() {
            let results = responses
                .iter()
                .map(|response| Item::Result(result(response, "tool_result", None)));
            return self.items.extend(results);
        }
        if let Some(thought) = first(message, THOUGHTS).or_else(|| first(extra, THOUGHTS)) {
            self.text(THINKING, &joined(parts(thought).iter().map(part_text)));
        }
        let is_thought =
            type_of(message).is_some_and(|name| Kind::of(&name, message) == Kind::Thinking);
        let part_role = if is_thought { THINKING } else { role };
        let before = self.items.len();
        for name in ["parts", "content", "blocks", "contents", "items"] {
            // Of several contents the first that isn't empty counts.
            if self.items.len() == before {
                self.content(part_role, &message[name]);
            }
        }
        self.text(role, &shown(&message["refusal"]));
        for name in ["audio", "images", "attachments", "experimental_attachments"] {
            for attachment in parts(&message[name]).iter().filter(|it| !it.is_null()) {
                self.text(role, &unknown(name, attachment));
            }
        }
        self.calls(message, extra);
        if self.items.is_empty() && role != "tool" {
            self.text(role, &unread(message));
        }
        if role == "tool"
            && self
                .items
                .iter()
                .all(|item| matches!(item, Item::Text { .. }))
        {
            let texts = self.items.drain(..).filter_map(|item| match item {
                Item::Text { text, .. } => Some(text),
                Item::Call(_) | Item::Result(_) => None,
            });
            let content = joined(texts);
            self.items
                .push(Item::Result(result(message, "tool_result", Some(content))));
        }
    }

    fn content(&mut self, role: &str, content: &Value) {
        let is_part = |part: &Value| part.is_string() || part.is_object();
        match content
            .as_array()
            .filter(|parts| !parts.iter().all(is_part))
        {
            Some(_) => self.text(role, &shown(content)),
            None => parts(content).iter().for_each(|part| self.part(role, part)),
        }
    }

    /// Reads the calls outside the content. Frameworks record a call both as a part and in a list; one of the two counts.
    fn calls(&mut self, message: &Value, extra: &Value) {
        let mut known = Known::default();
        self.items.iter().for_each(|item| known.add(item));
        let lists = [
            "tool_calls",
            "invalid_tool_calls",
            "toolInvocations",
            "function_call",
        ];
        for name in lists {
            let calls = if message[name].is_null() {
                &extra[name]
            } else {
                &message[name]
            };
            // The legacy field repeats the only call of the list.
            if name == "function_call"
                && self.items.iter().any(|item| matches!(item, Item::Call(_)))
            {
                continue;
            }
            known.start_history();
            for call in list(calls) {
                let items = call_items(&call, "tool_call");
                if items.first().is_some_and(|call| known.is_new(call)) {
                    self.items.extend(items);
                }
            }
        }
    }

    fn part(&mut self, role: &str, part: &Value) {
        let merged;
        let part = match part["message_content"].as_object() {
            // OpenInference stores a call next to the part of its type.
            Some(content) => {
                let mut fields = part.as_object().cloned().unwrap_or_default();
                fields.shift_remove("message_content");
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
                let fields = "thinking reasoning reasoningText reasoning_text text summary content";
                let thoughts = fields.split(' ').filter_map(|name| first(inner, name));
                let thoughts = joined(thoughts.map(part_text));
                match thoughts.is_empty() {
                    true => self.text(THINKING, &unknown(&name, inner)),
                    false => self.text(THINKING, &thoughts),
                }
            }
            Kind::Call => self.items.extend(call_items(inner, &name)),
            Kind::Result => self.items.push(Item::Result(result(inner, &name, None))),
            Kind::Unknown => self.text(role, &unknown(&name, inner)),
        }
    }

    fn text(&mut self, role: &str, said: &str) {
        // Open models write their thoughts into the text.
        let inline = said
            .trim_start()
            .strip_prefix("<think>")
            .filter(|_| role == "assistant");
        if let Some((thought, rest)) = inline.and_then(|said| said.split_once("</think>")) {
            self.text(THINKING, thought.trim());
            return self.text(role, rest.trim_start());
        }
        if said.trim().is_empty() {
            return;
        }
        match self.items.last_mut() {
            Some(Item::Text { role: before, text }) if before == role => {
                text.push('\n');
                text.push_str(said);
            }
            _ => self.items.push(Item::Text {
                role: role.to_owned(),
                text: said.to_owned(),
            }),
        }
    }
}

/// Returns the fields of a message without a known content as JSON.
fn unread(message: &Value) -> String {
    let mut fields = message.as_object().cloned().unwrap_or_default();
    let is_known = |name: &str| is_one_of(name, BOOKKEEPING) || is_one_of(name, KNOWN);
    fields.retain(|name, value| !is_known(name) && !is_blank(value));
    let only = fields.values().next().and_then(Value::as_str);
    match (fields.len(), only) {
        (0, _) => String::new(),
        (1, Some(text)) => text.to_owned(),
        _ => without_base64(&Value::Object(fields)).to_string(),
    }
}

fn parts(content: &Value) -> &[Value] {
    content
        .as_array()
        .map_or(std::slice::from_ref(content), Vec::as_slice)
}
