//! Order of a session's events, and the agent and stage of each.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::{AGENTS_DEEP, Event, Execution, Stage, kind, message, time};
use crate::score::session::Message;

/// Stages and agents by the ids used in events.
#[derive(Default)]
pub(super) struct Chain<'a> {
    stages: HashMap<&'a str, &'a Stage>,
    agents: HashMap<&'a str, &'a str>,
    pub(super) first_agent: Option<&'a str>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(stages: &'a [Stage]) -> Self {
        let mut chain = Self::default();
        for stage in stages {
            if let Some(id) = &stage.id {
                chain.stages.insert(id, stage);
            }
            chain.add_agents(stage.executions.as_deref().unwrap_or_default(), AGENTS_DEEP);
        }
        chain
    }

    fn add_agents(&mut self, executions: &'a [Execution], deep: u32) {
        for execution in executions {
            let name = execution.agent_name.as_deref();
            self.first_agent = self.first_agent.or(name);
            if let (Some(id), Some(name)) = (&execution.execution_id, name) {
                self.agents.insert(id, name);
            }
            if let (Some(inner), Some(deep)) = (&execution.sub_agents, deep.checked_sub(1)) {
                self.add_agents(inner, deep);
            }
        }
    }

    fn stage(&self, event: &Event) -> Option<&'a Stage> {
        self.stages.get(event.stage_id.as_deref()?).copied()
    }

    fn stage_type(&self, event: &Event) -> Option<&'a str> {
        self.stage(event)?.stage_type.as_deref()
    }

    /// Returns whether an event's final analysis may be the session's. Chats and summaries are excluded.
    pub(super) fn concludes(&self, event: &Event) -> bool {
        matches!(
            self.stage_type(event),
            None | Some("investigation" | "synthesis" | "action")
        )
    }

    /// Sorts events by stage, time and number. An event without a stage belongs to the stage that had started before
    /// it.
    pub(super) fn in_order(&self, mut events: Vec<Event>) -> Vec<Event> {
        events.retain(|event| self.stage_type(event) != Some("scoring"));
        let created = |event: &Event| event.created_at.as_deref().and_then(time);
        let index = |event: &Event| self.stage(event)?.stage_index;
        let mut begun: HashMap<i64, DateTime<Utc>> = HashMap::new();
        for event in &events {
            if let (Some(index), Some(at)) = (index(event), created(event)) {
                let first = begun.entry(index).or_insert(at);
                *first = at.min(*first);
            }
        }
        let last_begun = |at: DateTime<Utc>| {
            let earlier = begun.iter().filter(|(_, began)| **began <= at);
            earlier.map(|(index, _)| *index).max().unwrap_or(i64::MIN)
        };
        events.sort_by_cached_key(|event| {
            let at = created(event);
            let place = index(event).or_else(|| at.map(last_begun));
            (place.unwrap_or(i64::MAX), at, event.sequence_number)
        });
        events
    }

    pub(super) fn message(&self, event: &Event, final_analysis: Option<&str>) -> Option<Message> {
        let agent = event.execution_id.as_deref();
        let agent = agent.and_then(|id| self.agents.get(id)).copied();
        let stage = self
            .stage(event)
            .and_then(|stage| stage.stage_name.as_deref());
        Some(Message {
            agent: agent.map(str::to_owned),
            stage: stage.map(str::to_owned),
            ..message(event, final_analysis)?
        })
    }
}

/// Returns whether a response is repeated as the final analysis of the same agent, as a TARSy does for each.
pub(super) fn is_repeated(event: &Event, events: &[Event]) -> bool {
    kind(event) == "llm_response"
        && event.execution_id.is_some()
        && events.iter().any(|other| {
            kind(other) == "final_analysis"
                && other.execution_id == event.execution_id
                && other.content == event.content
        })
}
