//! Runs as tracing services export them, a flat record each: runs of LangSmith, observations of Langfuse, spans of Braintrust. Scores
//! and feedback are left out, because they would sway the judge.

use serde_json::Value;

use super::calls::tool_names;
use super::field::{first, list, moment};
use super::parts::read_any;
use super::shown::shown;
use super::step::{Step, StepKind, step_kind, tool_step};
use super::{Document, fault};
use crate::history::ingest::file::FileFault;
use crate::wire::SessionFormat;

/// Pointers to the fields of a service's records. Of several pointers the first with a value counts.
struct Service {
    format: SessionFormat,
    /// Fields that only this service's records have.
    marks: &'static str,
    /// Lists of records in answers of the service's API, and within a record.
    lists: &'static str,
    id: &'static str,
    parent: &'static str,
    trace: &'static str,
    conversation: &'static str,
    author: &'static str,
    kind: &'static str,
    name: &'static str,
    start: &'static str,
    end: &'static str,
    input: &'static str,
    output: &'static str,
    tools: &'static str,
    /// The text of an error.
    error: &'static str,
    /// Field and value of a failed run, if a text in `error` isn't enough.
    failed: Option<(&'static str, &'static str)>,
}

const SERVICES: [Service; 3] = [
    Service {
        format: SessionFormat::LangSmith,
        marks: "/run_type /runs/0/run_type",
        lists: "/runs /child_runs",
        id: "/id /run_id",
        parent: "/parent_run_id",
        trace: "/trace_id",
        conversation: "/extra/metadata/session_id /extra/metadata/thread_id /extra/metadata/conversation_id",
        author: "/extra/metadata/user_id",
        kind: "/run_type",
        name: "/name",
        start: "/start_time",
        end: "/end_time",
        input: "/inputs",
        output: "/outputs",
        tools: "/extra/invocation_params/tools",
        error: "/error",
        failed: None,
    },
    Service {
        format: SessionFormat::Langfuse,
        marks: "/traceId /parentObservationId /parent_observation_id /observations/0 /data/0/traceId /data/0/observations",
        lists: "/data /observations",
        id: "/id",
        parent: "/parentObservationId /parent_observation_id",
        trace: "/traceId /trace_id",
        conversation: "/sessionId /session_id",
        author: "/userId /user_id",
        kind: "/type",
        name: "/name",
        start: "/startTime /start_time /timestamp",
        end: "/endTime /end_time",
        input: "/input",
        output: "/output",
        tools: "/metadata/tools /input/tools /toolDefinitions",
        error: "/statusMessage /status_message",
        failed: Some(("/level", "ERROR")),
    },
    Service {
        format: SessionFormat::Braintrust,
        marks: "/span_attributes /root_span_id /events/0/root_span_id /data/0/root_span_id",
        lists: "/events /data",
        id: "/span_id /id",
        parent: "/span_parents/0",
        trace: "/root_span_id",
        conversation: "/metadata/session_id /metadata/thread_id /metadata/conversation_id",
        author: "/metadata/user_id",
        kind: "/span_attributes/type",
        name: "/span_attributes/name",
        start: "/metrics/start /created",
        end: "/metrics/end",
        input: "/input",
        output: "/output",
        tools: "/metadata/tools",
        error: "/error",
        failed: None,
    },
];

/// Returns the service that wrote a value.
pub(super) fn format_of(value: &Value) -> Option<SessionFormat> {
    let mut services = SERVICES.iter();
    let service = services.find(|service| first(value, service.marks).is_some());
    service.map(|service| service.format)
}

pub(super) fn steps(
    format: SessionFormat,
    documents: &[Document],
) -> Result<Vec<Step>, Vec<FileFault>> {
    let (mut steps, mut faults) = (Vec::new(), Vec::new());
    for service in SERVICES.iter().filter(|service| service.format == format) {
        for Document { place, value } in documents {
            service
                .add(value, None, place, &mut steps)
                .unwrap_or_else(|fault| faults.push(fault));
        }
    }
    match faults.is_empty() {
        true => Ok(steps),
        false => Err(faults),
    }
}

impl Service {
    /// Adds a record and its children; `above` are the trace and the id of its parent.
    fn add(
        &self,
        record: &Value,
        above: Option<(&str, &str)>,
        place: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), FileFault> {
        let word = |names| {
            first(record, names)
                .map(shown)
                .filter(|word| !word.is_empty())
        };
        let listed = self.lists.split(' ').filter_map(|list| first(record, list));
        let listed: Vec<Value> = listed.flat_map(list).filter(Value::is_object).collect();
        let (Some(id), true) = (
            word(self.id),
            first(record, self.kind).is_some()
                || !listed.is_empty()
                || first(record, self.marks).is_some(),
        ) else {
            if listed.is_empty() {
                return Err(self.no_run(place));
            }
            return listed
                .iter()
                .try_for_each(|record| self.add(record, None, place, steps));
        };
        let trace = above.map(|(trace, _)| trace.to_owned());
        let trace = trace
            .or_else(|| word(self.trace))
            .unwrap_or_else(|| id.clone());
        let parent = above.map(|(_, id)| id.to_owned());
        let failed = match self.failed {
            Some((field, failure)) => first(record, field).is_some_and(|word| word == failure),
            None => first(record, self.error).is_some() || record["status"] == "error",
        };
        let mut step = Step {
            place: place.to_owned(),
            parent: word(self.parent).or(parent),
            conversation: word(self.conversation),
            name: word(self.name),
            author: word(self.author),
            kind: step_kind(&word(self.kind).unwrap_or_default()),
            started_at: first(record, self.start).and_then(moment),
            ended_at: first(record, self.end).and_then(moment),
            failed,
            error: word(self.error).filter(|_| failed),
            tools: first(record, self.tools)
                .map(tool_names)
                .unwrap_or_default(),
            id: id.clone(),
            trace: trace.clone(),
            ..Step::default()
        };
        let (input, output) = (first(record, self.input), first(record, self.output));
        match step.kind {
            StepKind::Model => {
                step.input = input
                    .map(|input| read_any(input, "user"))
                    .unwrap_or_default();
                step.output = output
                    .map(|output| read_any(output, "assistant"))
                    .unwrap_or_default();
            }
            StepKind::Tool => step.tool = Some(tool_step(&step, input, output)),
            StepKind::Agent | StepKind::Work | StepKind::Other => {
                step.question = input.cloned();
                step.answer = output.cloned();
            }
        }
        steps.push(step);
        let above = Some((trace.as_str(), id.as_str()));
        listed
            .iter()
            .try_for_each(|record| self.add(record, above, place, steps))
    }

    fn no_run(&self, place: &str) -> FileFault {
        let named = |names: &str| {
            let name = names.split(' ').next().unwrap_or_default();
            name.trim_start_matches('/').replace('/', ".")
        };
        let (id, kind) = (named(self.id), named(self.kind));
        FileFault {
            place: place.to_owned(),
            fault: fault(
                "",
                format!("is no run; an object with {id} and {kind} is expected"),
            ),
        }
    }
}
