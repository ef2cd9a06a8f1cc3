//! Tool calls and their results in every dialect.

use serde_json::Value;

use super::field::{fields_except, first, is_one_of, list, once, text};
use super::kind::{CALL_IDS, Kind, inner};
use super::shown::{BOOKKEEPING, joined, shown, without_base64};
use super::transcript::{Item, ItemKind};

const NAMES: &str = "name toolName tool_name function tool";
const ARGUMENTS: &str = "arguments args input tool_kwargs tool_input rawInput parameters";
const RETURNED: &str = "output outputs content result results response value return_value";
pub(super) const ERRORS: &str = "error errorText exception";
/// Fields of a call that contains its result.
const OWN_RESULT: &str = "output outputs result results errorText error";
/// Statuses and outcomes of a failed call.
const FAILED: &str = "error failed failure denied retried output-error output-denied OUTCOME_FAILED OUTCOME_DEADLINE_EXCEEDED";
const CALL_TYPES: &str = "tool_call tool_use function_call dynamic_tool";

/// Returns a call, or its result if the part contains that.
pub(super) fn call(part: &Value, kind: &str) -> Item {
    let part = inner(part, "tool_call");
    let function = &part["function"];
    // The type may name the tool: `shell_call`, `tool-diskUsage`.
    let named = part["type"].as_str();
    let named = named.and_then(|name| name.strip_prefix("tool-"));
    let by_kind = || named.unwrap_or(kind.trim_end_matches("_call")).to_owned();
    let name = text(function, "name").or_else(|| text(part, NAMES));
    let arguments = given(function, "arguments").or_else(|| given(part, ARGUMENTS));
    let call = Item {
        kind: ItemKind::Call,
        id: text(part, CALL_IDS).or_else(|| text(part, "id")),
        name: name.or_else(|| (!is_one_of(kind, CALL_TYPES)).then(by_kind)),
        arguments: arguments.cloned().or_else(|| other_fields(part)),
        ..Item::default()
    };
    let result = result(part, kind, None);
    if !result.is_error && given(part, OWN_RESULT).is_none_or(|value| *value == false) {
        return call;
    }
    Item {
        id: call.id.or_else(|| Some("its own".to_owned())),
        name: call.name,
        arguments: call.arguments.or(Some(Value::Null)),
        ..result
    }
}

/// Returns the first of these fields that isn't null. It may be empty, because a result may be.
fn given<'a>(part: &'a Value, names: &str) -> Option<&'a Value> {
    let mut fields = names.split(' ').filter_map(|name| part.get(name));
    fields.find(|value| !value.is_null())
}

/// Returns the fields of a part except metadata and results: the arguments of a call without a field for them.
fn other_fields(part: &Value) -> Option<Value> {
    let known = [BOOKKEEPING, OWN_RESULT, CALL_IDS, NAMES, "state"];
    let fields = fields_except(part, &known.join(" "));
    match fields.len() {
        0 => None,
        1 => fields.into_iter().next().map(|(_, only)| only),
        _ => Some(Value::Object(fields)),
    }
}

/// Returns the result of a call: `own`, the text of a message, or the content of a part of type `kind`.
pub(super) fn result(part: &Value, kind: &str, own: Option<String>) -> Item {
    let returned = given(part, RETURNED);
    let text_of = || match (returned, Kind::of(kind, part)) {
        // Images that a call made.
        (Some(returned), Kind::Call) => shown(&without_base64(returned)),
        (Some(returned), _) => shown(returned),
        (None, Kind::Result) => shown(&other_fields(part).unwrap_or_default()),
        (None, _) => shown(&part["approval"]["reason"]),
    };
    // Gemini sends images next to the response.
    let media = first(part, "parts").map(shown).unwrap_or_default();
    let error = first(part, ERRORS).filter(|error| **error != false);
    let message = error.filter(|error| !error.is_boolean());
    let message = message.map(|error| shown(first(error, "message content").unwrap_or(error)));
    let is_true = |value: &Value| *value == true || *value == "true";
    let flagged = |value: &Value| {
        first(value, "is_error isError tool_call_error").is_some_and(is_true)
            || value["success"] == false
    };
    let typed = returned.and_then(|value| value["type"].as_str());
    let typed = typed.unwrap_or_default();
    let statuses = ["status", "state", "outcome"];
    let statuses = statuses.map(|name| part[name].as_str().unwrap_or_default());
    let is_error = error.is_some()
        || flagged(part)
        || returned.is_some_and(|returned| flagged(returned) || has_failed(returned))
        || statuses.iter().any(|status| is_one_of(status, FAILED))
        || typed.starts_with("error")
        || typed.ends_with("_error")
        || typed == "execution-denied"
        || is_one_of(kind, "tool_error retry_prompt")
        || kind == "function_response" && first(part, "/response/error").is_some();
    // Messages and items next to messages have their own id, which isn't that of the call.
    let names_call = part["role"].is_null() && !kind.ends_with("_output");
    let own_id = || text(part, "id").filter(|_| names_call);
    let origin = first(part, "origin").map(|origin| call(origin, "tool_call"));
    let origin = origin.unwrap_or_default();
    let message = message.unwrap_or_default();
    let texts = [own.unwrap_or_else(text_of), media, message];
    Item {
        kind: ItemKind::Result,
        id: text(part, CALL_IDS).or(origin.id).or_else(own_id),
        name: text(part, NAMES).or(origin.name),
        arguments: origin.arguments,
        text: joined(texts.into_iter()),
        is_error,
        ..Item::default()
    }
}

/// Whether a command's result, which may be JSON text, has a timeout or an exit code other than 0.
fn has_failed(result: &Value) -> bool {
    if let Some(text) = result.as_str().filter(|text| text.starts_with('{')) {
        let result: Value = serde_json::from_str(text).unwrap_or_default();
        return result.is_object() && has_failed(&result);
    }
    let code = "exit_code return_code /outcome/exit_code /metadata/exit_code";
    let code = first(result, code).and_then(Value::as_i64);
    let mut results = result.as_array().into_iter().flatten();
    let is_timeout = result["outcome"]["type"] == "timeout";
    code.is_some_and(|code| code != 0) || is_timeout || results.any(has_failed)
}

pub(super) fn tool_names(definitions: &Value) -> Vec<String> {
    const PLACES: &str = "name /function/name /toolSpec/name /tool/name";
    let named = |definition: &Value| {
        let nested = "tools functionDeclarations function_declarations";
        if let Some(nested) = first(definition, nested) {
            return tool_names(nested);
        }
        let schema = text(definition, "json_schema /tool/json_schema").unwrap_or_default();
        let schema: Value = serde_json::from_str(&schema).unwrap_or_default();
        let name = text(definition, PLACES).or_else(|| text(&schema, PLACES));
        let name = name.or_else(|| definition.as_str().map(str::to_owned));
        let name = name.or_else(|| text(definition, "server_label type"));
        name.into_iter().collect()
    };
    once(list(definitions).iter().flat_map(named))
}
