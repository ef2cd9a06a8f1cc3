//! Tool calls and their results in every dialect.

use serde_json::{Map, Value};

use super::field::{Fields, first, is_blank, is_one_of, list, once, parsed, text};
use super::kind::{CALL_IDS, Kind};
use super::shown::{joined, shown, unread, without_base64};
use super::transcript::{Item, ItemKind};

const NAMES: &str = "name toolName tool_name function tool";
const ARGUMENTS: &str = "arguments args input tool_kwargs tool_input tool_args rawInput parameters";
const RETURNED: &str = "output outputs content result results response value return_value";
const ERRORS: &str = "error errorText exception";
/// Fields of a call that contains its result.
const OWN_RESULT: &str = "output outputs result results errorText error";
/// Statuses and outcomes of a failed call.
const FAILED: &str = "error failed failure denied retried output-error output-denied";
const FLAGS: &str = "is_error isError tool_call_error";
const CALL_TYPES: &str = "tool_call tool_use function_call dynamic_tool";

/// Returns the call or the result in a part of type `kind`, or the result in a message with the text `own`. A call that contains its result
/// is a result with arguments.
pub(super) fn tool_item(mut fields: Fields, kind: &str, own: Option<String>) -> Item {
    let is_call = own.is_none() && Kind::of(kind, &fields.0) == Kind::Call;
    // Messages and items next to messages have their own id, which isn't that of the call.
    let names_call = own.is_none() && !kind.ends_with("_output");
    let own_id = fields.text("id").filter(|_| names_call);
    fields.take("role");
    let (id, name) = (fields.text(CALL_IDS), fields.text(NAMES));
    let origin = fields.take("origin").unwrap_or_default();
    let origin = Fields::of(&origin, "tool_call").0;
    let arguments = fields.take(ARGUMENTS);
    let mut arguments = arguments.or_else(|| origin.get("arguments").cloned());
    let mut results = OWN_RESULT.split(' ').map(|name| &fields.0[name]);
    let has_result = !is_call || results.any(|value| !value.is_null() && *value != false);
    let returned = has_result.then(|| fields.take(RETURNED)).flatten();
    let returned = returned.filter(|_| own.is_none()).unwrap_or_default();
    let text_of = || match is_call {
        // Images that a call made.
        true => shown(&without_base64(&returned)),
        false => shown(&returned),
    };
    // Gemini sends images next to the response.
    let media = fields.take("parts").unwrap_or_default();
    let said = joined([own.unwrap_or_else(text_of), shown(&media)].into_iter());
    let error = take_error(&mut fields, kind, &returned);
    let (is_error, is_result) = (error.is_some(), has_result || error.is_some());
    let mut content = joined([said.clone(), error.unwrap_or_default()].into_iter());
    let mut rest = fields.rest();
    let names_tool = name.is_none() && !is_one_of(kind, CALL_TYPES) && !kind.starts_with("tool_");
    // Without a field for them all fields are the result, or the arguments if the type names the tool.
    if is_call && arguments.is_none() && names_tool {
        arguments = taken(&mut rest);
    } else if !is_call && content.is_empty() && returned.is_null() {
        content = shown(&taken(&mut rest).unwrap_or_default());
    }
    let mut item = Item {
        id: id.or_else(|| text(&origin, "id")).or(own_id),
        name: name.or_else(|| text(&origin, NAMES)),
        arguments,
        text: content,
        is_error,
        kind: match is_result {
            true => ItemKind::Result,
            false => ItemKind::Call,
        },
        unread: unread(&rest, &said),
        ..Item::default()
    };
    if is_call {
        // The type may name the tool: `shell_call`, `tool-diskUsage`.
        let named = fields.0["type"].as_str();
        let named = named.and_then(|name| name.strip_prefix("tool-"));
        let named = named.unwrap_or(kind.trim_end_matches("_call")).to_owned();
        let named = Some(named).filter(|_| !is_one_of(kind, CALL_TYPES));
        item.name = item.name.or(named);
    } else if kind == "code_execution_result" {
        // In Gemini's format neither has an id.
        item.name.get_or_insert("executable_code".to_owned());
    }
    if is_call && is_result {
        item.id.get_or_insert_with(|| "its own".to_owned());
        item.arguments.get_or_insert(Value::Null);
    }
    item
}

fn taken(fields: &mut Map<String, Value>) -> Option<Value> {
    let fields = std::mem::take(fields);
    match fields.len() {
        0 | 1 => fields.into_values().next(),
        _ => Some(fields.into()),
    }
}

/// Takes the error and the state of a call of type `kind`. Returns the text of the error if the call failed.
fn take_error(fields: &mut Fields, kind: &str, returned: &Value) -> Option<String> {
    let is_true = |value: &Value| *value == true || *value == "true";
    let flagged = |value: &Value| {
        first(value, FLAGS).is_some_and(is_true) || value["success"] == false || has_failed(value)
    };
    let states = ["status", "state", "outcome"].map(|name| text(&fields.0, name));
    let is_failed = |state: &String| {
        is_one_of(state, FAILED) || state.starts_with("OUTCOME_") && state != "OUTCOME_OK"
    };
    let is_flagged = flagged(&fields.0) || states.iter().flatten().any(is_failed);
    let _read = [FLAGS, "success", "outcome"].map(|names| fields.take(names));
    let error = fields.take(ERRORS);
    let error = error.filter(|error| !is_blank(error) && *error != false);
    let typed = returned["type"].as_str().unwrap_or_default();
    let is_error = error.is_some()
        || is_flagged
        || flagged(returned)
        || typed.starts_with("error")
        || typed.ends_with("_error")
        || typed == "execution-denied"
        || is_one_of(kind, "tool_error retry_prompt")
        || kind == "function_response" && first(returned, "error").is_some();
    let message = error.filter(|error| !error.is_boolean());
    is_error.then(|| message.as_ref().map(error_text).unwrap_or_default())
}

/// Returns the text of an error, with the fields of its object.
pub(super) fn error_text(error: &Value) -> String {
    let mut fields = Fields::of(error, "error");
    match fields.take("message content") {
        Some(message) => joined([shown(&message), unread(&fields.rest(), "")].into_iter()),
        None => shown(error),
    }
}

/// Whether a command's result, which may be JSON text, has a timeout or an exit code other than 0.
fn has_failed(result: &Value) -> bool {
    if let Some(text) = result.as_str().filter(|text| text.starts_with('{')) {
        return parsed(text).is_some_and(|result| has_failed(&result));
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
        let schema = text(definition, "json_schema /tool/json_schema");
        let schema = schema.and_then(|text| parsed(&text)).unwrap_or_default();
        let name = text(definition, PLACES).or_else(|| text(&schema, PLACES));
        let name = name.or_else(|| definition.as_str().map(str::to_owned));
        let name = name.or_else(|| text(definition, "server_label type"));
        name.into_iter().collect()
    };
    once(list(definitions).iter().flat_map(named))
}
