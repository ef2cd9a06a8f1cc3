//! Steps of traces: runs of LangSmith, observations of Langfuse, spans of Braintrust and of OpenTelemetry. Skips scores and feedback, because
//! they would bias the judge.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::calls::error_text;
use super::field::{first, is_one_of, list, moment, text};
use super::shown::{joined, shown};
use super::spans;
use super::{Document, all};
use crate::history::ingest::input::{Faults, fault, placed};
use crate::wire::SessionFormat;

/// Formats with fields that only their records have, and with the fields that name a record's conversation.
const FORMATS: [(SessionFormat, &str, &str); 4] = [
    (SessionFormat::Spans, SPANS, SPAN_SESSIONS),
    (SessionFormat::LangSmith, RUNS, RUN_SESSIONS),
    (SessionFormat::Langfuse, OBSERVATIONS, TRACE_SESSIONS),
    (SessionFormat::Braintrust, ROWS, ROW_SESSIONS),
];
const SPANS: &str =
    "/resourceSpans /resource_spans /context.span_id /context/span_id /context/trace_id";
const SPAN_SESSIONS: &str = "/attributes/session/id /attributes/gen_ai/conversation/id";
const RUNS: &str = "/run_type /runs/0/run_type";
const RUN_SESSIONS: &str =
    "/extra/metadata/session_id /extra/metadata/thread_id /extra/metadata/conversation_id";
const OBSERVATIONS: &str = "/traceId /parentObservationId /parent_observation_id /observations/0 /data/0/traceId \
    /data/0/observations";
const TRACE_SESSIONS: &str = "/sessionId /session_id";
const ROWS: &str = "/span_attributes /root_span_id /events/0/root_span_id /data/0/root_span_id";
const ROW_SESSIONS: &str = "/metadata/session_id /metadata/thread_id /metadata/conversation_id";

/// Lists of records in responses of APIs and in a record.
const LISTS: &str = "/runs /observations /events /spans /data/spans /data";
const CHILDREN: &str = "/child_runs /observations";
const IDS: &str = "/span_id /spanId /context/span_id /id /run_id";
const PARENTS: &str = "/parent_run_id /parentObservationId /parent_observation_id /parentSpanId /parent_span_id /parent_id \
    /span_parents/0";
const TRACES: &str = "/trace_id /traceId /root_span_id /context/trace_id";
const KINDS: &str = "/run_type /span_attributes/type /attributes/openinference/span/kind /attributes/gen_ai/operation/name \
    /attributes/traceloop/span/kind /attributes/langfuse/observation/type /attributes/mlflow/spanType /attributes/ai/operationId \
    /span_kind /type";
const NAMES: &str = "/attributes/gen_ai/tool/name /attributes/tool/name /attributes/ai/toolCall/name \
    /attributes/traceloop/entity/name /span_attributes/name /name";
pub(super) const CALL_IDS: &str = "/attributes/gen_ai/tool/call/id /attributes/tool_call/id /attributes/tool/id /attributes/ai/toolCall/id";
pub(super) const AGENTS: &str = "/attributes/gen_ai/agent/name /attributes/agent/name";
pub(super) const AUTHORS: &str = "/userId /user_id /extra/metadata/user_id /metadata/user_id /attributes/user/id /attributes/enduser/id";
const STARTS: &str = "/startTimeUnixNano /start_time_unix_nano /start_time /startTime /metrics/start /created /timestamp";
const ENDS: &str = "/endTimeUnixNano /end_time_unix_nano /end_time /endTime /metrics/end";
const STATES: &str = "/status/code /status/status_code /status_code /status /level";
const FAILED: &str = "ERROR STATUS_CODE_ERROR 2";
/// Fields of a failed step with its error, which are all used.
const ERRORS: &str = "/error /statusMessage /status_message /status/message /status/description /exceptions/0/type \
    /exceptions/0/message /attributes/error/type";
/// Remarks on a step that didn't fail.
pub(super) const NOTES: &str = "/statusMessage /status_message /status/message /status/description";
/// Marks of a failed span, which may have no status.
const FAULTS: &str = "/error /attributes/error/type /exceptions/0";
pub(super) const INPUTS: &str = "/inputs /input /attributes/gen_ai/tool/call/arguments /attributes/ai/toolCall/args /attributes/input/value \
    /attributes/traceloop/entity/input /attributes/langfuse/observation/input /attributes/mlflow/spanInputs";
pub(super) const OUTPUTS: &str = "/outputs /output /attributes/retrieval/documents /attributes/reranker/output_documents /attributes/gen_ai/tool/call/result /attributes/ai/toolCall/result /attributes/output/value \
    /attributes/traceloop/entity/output /attributes/langfuse/observation/output /attributes/mlflow/spanOutputs";
/// A model's output in a library's own form, which may be next to the messages.
pub(super) const RAW_OUTPUT: &str = "/attributes/output/value";
pub(super) const TOOLS: &str = "/extra/invocation_params/tools /metadata/tools /input/tools /toolDefinitions /attributes/llm/tools \
    /attributes/gen_ai/tool/definitions /attributes/ai/prompt/tools";

const MODEL_KINDS: &str = "chat_model llm chat generation generate_content text_completion ai.generatetext.dogenerate \
    ai.streamtext.dostream";
const TOOL_KINDS: &str = "tool execute_tool retriever reranker embedding ai.toolcall";
const AGENT_KINDS: &str = "agent invoke_agent create_agent";
const WORK_KINDS: &str = "span event function guardrail";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Model,
    Tool,
    Agent,
    /// Other work, which counts as a tool's unless it contains steps.
    Work,
    /// A step of the framework.
    Other,
}

impl StepKind {
    /// Returns the kind of a step from its name in a service or a convention, in small letters.
    fn of(word: &str) -> Self {
        match word {
            word if is_one_of(word, MODEL_KINDS) => Self::Model,
            word if is_one_of(word, TOOL_KINDS) => Self::Tool,
            word if is_one_of(word, AGENT_KINDS) => Self::Agent,
            word if is_one_of(word, WORK_KINDS) => Self::Work,
            _ => Self::Other,
        }
    }
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) place: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) trace: String,
    /// Conversation of its trace; only some steps of a trace have it.
    pub(super) conversation: Option<String>,
    pub(super) kind: StepKind,
    pub(super) name: Option<String>,
    pub(super) failed: bool,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) ended_at: Option<DateTime<Utc>>,
    record: Value,
}

impl Step {
    pub(super) fn text(&self, names: &str) -> Option<String> {
        shown_text(&self.record, names)
    }

    /// Returns the text of its error, without repetitions of itself and of a known text.
    pub(super) fn error(&self, said: &str) -> Option<String> {
        let mut texts: Vec<String> = Vec::new();
        for error in ERRORS.split(' ').filter_map(|name| self.get(name)) {
            let text = error_text(error);
            if !said.contains(&text) && !texts.iter().any(|known| known.contains(&text)) {
                texts.push(text);
            }
        }
        Some(joined(texts.into_iter())).filter(|text| self.failed && !text.is_empty())
    }

    pub(super) fn get(&self, names: &str) -> Option<&Value> {
        first(&self.record, names)
    }
}

fn shown_text(record: &Value, names: &str) -> Option<String> {
    let word = first(record, names).map(shown);
    word.filter(|word| !word.trim().is_empty())
}

pub(super) fn format_of(value: &Value) -> Option<SessionFormat> {
    let is_of = |(_, marks, _): &&(_, &str, _)| first(value, marks).is_some();
    let format = FORMATS.iter().find(is_of).map(|(format, ..)| *format);
    let spans = spans::is_trace(value).then_some(SessionFormat::Spans);
    spans.or(format)
}

pub(super) fn read(format: SessionFormat, documents: &[Document]) -> Result<Vec<Step>, Faults> {
    let mut steps = Vec::new();
    let read = documents.iter().map(|Document { place, value }| {
        let mut records = spans::records(value).into_iter();
        let read = records.try_for_each(|record| add(format, record, None, place, &mut steps));
        read.map_err(|faults| placed(place, faults))
    });
    all(read)?;
    Ok(steps)
}

/// Adds a record and its children; `above` is the trace and the id of its parent.
fn add(
    format: SessionFormat,
    mut record: Value,
    above: Option<(&str, &str)>,
    place: &str,
    steps: &mut Vec<Step>,
) -> Result<(), Faults> {
    let form = FORMATS.iter().find(|it| it.0 == format);
    let (_, marks, sessions) = form.unwrap_or(&FORMATS[0]);
    let kind = shown_text(&record, KINDS).map(|kind| kind.trim_matches('"').to_ascii_lowercase());
    if kind.as_deref() == Some("embedding") {
        // A judge can't read vectors.
        for name in OUTPUTS.split(' ') {
            record.pointer_mut(name).map(Value::take);
        }
    }
    let word = |names| shown_text(&record, names);
    let is_span = format == SessionFormat::Spans;
    let is_run = || kind.is_some() || first(&record, CHILDREN).or(first(&record, marks)).is_some();
    let is_step = first(&record, TRACES).is_some() || !is_span && is_run();
    let Some(id) = word(IDS).filter(|_| is_step) else {
        let listed = first(&record, LISTS).map(list).unwrap_or_default();
        if listed.is_empty() {
            let message = format!(
                "record {} is no step of the format {format}; an object with its id and its trace or type is expected",
                steps.len()
            );
            return Err(fault("", message));
        }
        let mut listed = listed.into_iter();
        return listed.try_for_each(|record| add(format, record, None, place, steps));
    };
    let trace = above.map(|(trace, _)| trace.to_owned());
    let trace = trace.or_else(|| word(TRACES)).unwrap_or_else(|| id.clone());
    let state = text(&record, STATES).unwrap_or_default().to_uppercase();
    let has_messages = first(&record, "/inputs /outputs").is_some();
    let children = first(&record, CHILDREN).map(list).unwrap_or_default();
    steps.push(Step {
        place: place.to_owned(),
        id: id.clone(),
        parent: word(PARENTS).or_else(|| above.map(|(_, id)| id.to_owned())),
        trace: trace.clone(),
        conversation: word(sessions),
        kind: match kind {
            Some(kind) => StepKind::of(&kind),
            None if is_span && has_messages => StepKind::Model,
            None => StepKind::Other,
        },
        name: word(NAMES),
        failed: is_one_of(&state, FAILED)
            || !is_one_of(&state, "OK STATUS_CODE_OK 1") && first(&record, FAULTS).is_some(),
        started_at: first(&record, STARTS).and_then(moment),
        ended_at: first(&record, ENDS).and_then(moment),
        record,
    });
    let mut children = children.into_iter().filter(Value::is_object);
    children.try_for_each(|child| add(format, child, Some((&trace, &id)), place, steps))
}
