//! Messages and their parts in every dialect, converted into the items of [`super::transcript`].

use std::collections::HashSet;
use std::slice::from_ref;

use serde_json::{Value, json};

use super::calls::tool_item;
use super::failure;
use super::field::{Fields, fields_except, first, is_blank, is_one_of, list, moment};
use super::kind::{
    Kind, WRAPPERS, is_message, kind_of, named_type, pair, role, speaker, type_of, unwrapped,
    wrapped,
};
use super::shown::{TEXT_FIELDS, joined, part_text, shown, unknown, unread};
use super::transcript::{ALTERNATIVE, Item, ItemKind, THINKING, UNKNOWN, tool_text};

pub(super) const NO_MESSAGE: &str = "is no message; an object with a role and a content is expected, such as {\"role\": \"user\", \"content\": \"..\"}";

/// Fields of a message with its thinking. The first with a value is used, because others repeat it.
const THOUGHTS: &str = "reasoning_content reasoning thinking reasoning_text thinking_blocks reasoning_details thoughts";
/// Fields of a thinking part, which are all used.
const THOUGHT_FIELDS: &str = "thinking reasoning reasoningText reasoning_text text summary content";
/// Fields with the content of a message. The first that isn't empty is used.
const CONTENTS: &str = "tool_responses parts content blocks contents items transcript";
/// Fields of a message with calls. The last repeats the only call of another one.
const CALLS: &str = "tool_calls toolCalls invalid_tool_calls toolInvocations function_call";
/// Fields of an object around a message that hold or repeat the message.
const ENVELOPE: &str = "message data kwargs role name text lc";
/// Fields that name the speaker of a message.
const SPEAKERS: &str = "role source author channel author_name";
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
const INSTRUCTIONS: &str =
    "/system /system_message /instructions /system_instruction /systemInstruction";
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
    let agent = speaker(message).filter(|speaker| speaker != "user");
    let mut reader = Reader::default();
    match role(class, message).or_else(|| is_parts.then(of_place)) {
        Some(role) => reader.message(&role, message),
        None => {
            // The speaker of an unknown item is unknown, so it can't be the agent's conclusion.
            let is_unknown = Kind::of(&named_type(message)?, message) == Kind::Unknown;
            let is_system = is_unknown && place == "assistant";
            let mut fields = Fields::of(message, "");
            agent.is_some().then(|| fields.take("source"));
            reader.part(if is_system { "system" } else { place }, &fields.0);
        }
    }
    if !std::ptr::eq(message, value) {
        let mut around = Fields::of(value, "");
        ENVELOPE.split(' ').for_each(|name| drop(around.take(name)));
        reader.text(UNKNOWN, &unread(&around.rest(), ""));
    }
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
        let is_used = !is_answers || n == 0;
        let convert = |item| if is_used { item } else { alternative(item) };
        items.extend(read(value).ok_or(n)?.into_iter().map(convert));
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
    match only_value(value) {
        inner if !std::ptr::eq(inner, value) => read_any(inner, role),
        empty if *empty == json!({}) => Vec::new(),
        other => text_item(role, &shown(other)),
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
        let mut fields = Fields::of(message, WRAPPERS);
        let mut take = |name: &str| fields.take(name).unwrap_or_default();
        self.text("system", &shown(&take("instructions")));
        let thought = take(THOUGHTS);
        let thoughts = thought.as_array().map_or(from_ref(&thought), Vec::as_slice);
        let text = joined(thoughts.iter().map(part_text));
        let json = Some(shown(&thought)).filter(|_| text.is_empty() && !is_blank(&thought));
        self.text(THINKING, &json.unwrap_or(text));
        THOUGHTS.split(' ').for_each(|name| drop(take(name)));
        let is_thought = kind_of(message) == Kind::Thinking || message["channel"] == "analysis";
        let part_role = if is_thought { THINKING } else { role };
        // OpenAI's open models write a call as a message to a tool.
        let tool = take("recipient").as_str().map(str::to_owned);
        let tool = tool.filter(|it| role == "assistant" && !is_one_of(it, "all user assistant"));
        self.items.extend(tool.map(|name| Item {
            kind: ItemKind::Call,
            name: Some(name),
            arguments: Some(shown(&take("content")).into()),
            ..Item::default()
        }));
        let before = self.items.len();
        for name in CONTENTS.split(' ') {
            if self.items.len() == before {
                self.content(part_role, &take(name));
            }
        }
        self.text(role, &shown(&take("refusal")));
        SPEAKERS.split(' ').for_each(|name| drop(take(name)));
        let with_calls = self.items.len();
        // A summary of AutoGen repeats calls and results of earlier events.
        let is_summary = fields.0["results"].is_array();
        let names = CALLS.split(' ').filter(|_| !is_summary);
        let mut take = |name: &str| fields.take(name).unwrap_or_default();
        let calls = names.map(|name| {
            let calls = [take(&format!("additional_kwargs.{name}")), take(name)];
            calls.into_iter().rfind(|calls| !is_blank(calls))
        });
        self.calls(&calls.collect::<Vec<_>>());
        let is_result = |item: &Item| item.kind == ItemKind::Text;
        if role == "tool" && self.items.iter().all(is_result) {
            let (unknown, texts): (Vec<_>, Vec<_>) =
                self.items.drain(..).partition(|item| item.role == UNKNOWN);
            let content = joined(texts.into_iter().map(|item| item.text));
            let mut result = tool_item(fields, "tool_result", Some(content));
            let unread = unknown.into_iter().map(|item| item.text);
            result.unread = joined(unread.chain([result.unread]));
            return self.items.push(result);
        }
        let error = ["errorCode error_code", "errorMessage error_message"].map(&mut take);
        let error = joined(error.iter().map(shown));
        let error = (!error.is_empty()).then(|| failure(&error));
        self.items.extend(error);
        fields.take("name");
        let rest = fields.rest();
        let texts = self.items.iter().filter(|item| item.role != THINKING);
        let said = joined(texts.map(|item| item.text.clone()));
        let other = unread(&rest, &said);
        let only = rest.values().next().and_then(Value::as_str);
        match only.filter(|_| rest.len() == 1) {
            // The text of a message's only field needs no name.
            Some(only) if self.items.is_empty() => self.text(role, only),
            _ if self.items.is_empty() => self.unknown(role, &other),
            _ if other.is_empty() => {}
            _ => self.items.insert(with_calls, Item::text(UNKNOWN, other)),
        }
    }

    fn content(&mut self, role: &str, content: &Value) {
        // An event of Google's ADK and an answer of Gemini contain a message, which has no parts if it is empty.
        let of_message = fields_except(content, "parts role");
        let is_empty = content["role"] == "model" && of_message.is_empty();
        if content["parts"].is_array() || is_empty {
            self.content(role, &content["parts"]);
            return self.text(UNKNOWN, &unread(&of_message, ""));
        }
        let is_part = |part: &Value| part.is_string() || part.is_object();
        match content.as_array() {
            Some(list) if list.iter().all(is_part) => {
                list.iter().for_each(|part| self.part(role, part));
            }
            // An object without a type is the answer itself.
            None if named_type(content).is_some() || kind_of(content) != Kind::Unknown => {
                self.part(role, content);
            }
            Some(_) | None => self.text(role, &shown(content)),
        }
    }

    /// Reads the calls outside the content, unless a part repeats them.
    fn calls(&mut self, fields: &[Option<Value>]) {
        let is_call = |item: &&Item| item.kind == ItemKind::Call || item.arguments.is_some();
        for (n, calls) in fields.iter().enumerate() {
            let known = self.items.iter().filter(is_call).map(Item::call_key);
            let known: HashSet<String> = known.collect();
            if n + 1 < fields.len() || known.is_empty() {
                let of = |part: &Value| Fields::of(part, &format!("{WRAPPERS} tool_call"));
                let calls = calls.iter().flat_map(list);
                let calls = calls.map(|part| tool_item(of(&part), "tool_call", None));
                self.items
                    .extend(calls.filter(|call| !known.contains(&call.call_key())));
            }
        }
    }

    fn part(&mut self, role: &str, part: &Value) {
        // OpenInference stores a call next to the part of its type, OpenCode what became of it.
        let fields = Fields::of(part, "message_content state");
        let Some(name) = type_of(&fields.0).filter(|_| part.is_object()) else {
            return match part.is_string() {
                true => self.text(role, &shown(part)),
                false if fields.rest().is_empty() => {}
                false => self.unknown(role, &shown(part)),
            };
        };
        let mut fields = Fields::of(&fields.0, &format!("{WRAPPERS} {name}"));
        let mut said = String::new();
        match Kind::of(&name, &fields.0) {
            Kind::Call | Kind::Result => return self.items.push(tool_item(fields, &name, None)),
            Kind::Text => {
                let is_thought = fields.take("thought") == Some(true.into());
                let role = match name.as_str() {
                    "system_prompt" => "system",
                    _ if is_thought => THINKING,
                    _ => role,
                };
                match fields.take(TEXT_FIELDS) {
                    Some(list) if list.is_array() => self.content(role, &list),
                    Some(found) => {
                        said = shown(&found);
                        self.text(role, &said);
                    }
                    None => return self.unknown(role, &unknown(&name, part)),
                }
            }
            Kind::Thinking => {
                let thoughts = THOUGHT_FIELDS.split(' ');
                let thoughts = thoughts.filter_map(|name| fields.take(name));
                said = joined(thoughts.map(|thought| part_text(&thought)));
                if said.is_empty() {
                    return self.text(THINKING, &unknown(&name, &fields.0));
                }
                self.text(THINKING, &said);
            }
            Kind::Unknown => {
                let inner = wrapped(part).filter(|_| named_type(part).is_none());
                let inner = inner.map_or(part, |(_, inner)| inner);
                return self.unknown(role, &unknown(&name, inner));
            }
        }
        self.text(UNKNOWN, &unread(&fields.rest(), &said));
    }

    /// Adds JSON of a message, which isn't the agent's text.
    fn unknown(&mut self, role: &str, json: &str) {
        let is_agents = matches!(role, "assistant" | THINKING);
        self.text(if is_agents { UNKNOWN } else { role }, json);
    }

    fn text(&mut self, role: &str, said: &str) {
        // Open models write their thinking into the text.
        let within = |(start, end)| said.trim_start().strip_prefix(start)?.split_once(end);
        let inline = [("<think>", "</think>"), ("<thinking>", "</thinking>")];
        let inline = inline.into_iter().find_map(within);
        if let Some((thought, rest)) = inline.filter(|_| role == "assistant") {
            self.text(THINKING, thought.trim());
            return self.text(role, rest.trim_start());
        }
        if said.trim().is_empty() {
            return;
        }
        // Unknown fields of a part may stand between two texts.
        let mut last = self.items.iter_mut().rev();
        match last.find(|item| role == UNKNOWN || item.role != UNKNOWN) {
            Some(last) if last.kind == ItemKind::Text && last.role == role => {
                last.text.extend(["\n", said]);
            }
            _ => self.items.push(Item::text(role, said)),
        }
    }
}
