//! Sessions out of traces: steps of one trace, or of the traces of one conversation, in the order of time.
//!
//! Each call of a model is recorded with the whole history that it was given. Of that, what its agent has said or been given
//! before is left out, however often it was sent again. A tool's step counts unless a message has its result.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use super::transcript::{
    AttributedPiece, NO_MESSAGE, Piece, conversation, key, once, pieces, plain,
};
use super::{Placed, fault, identify};
use crate::history::ingest::file::FileFault;
use crate::history::ingest::input::SessionInput;
use crate::wire::{SessionFormat, SessionStatus};

/// How far up a step looks for its agent. A parent may be its own child, and nobody nests deeper.
const HIGHEST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Work {
    /// A call of a model.
    Model,
    Tool,
    Agent,
    #[default]
    Other,
}

/// One step of a trace.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Where it stands in the file.
    pub(super) place: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) trace: String,
    /// The conversation that its trace belongs to; not every step of a trace says so.
    pub(super) conversation: Option<String>,
    pub(super) work: Work,
    pub(super) name: Option<String>,
    /// The agent that it says it belongs to.
    pub(super) agent: Option<String>,
    pub(super) author: Option<String>,
    pub(super) began: Option<DateTime<Utc>>,
    pub(super) ended: Option<DateTime<Utc>>,
    pub(super) failed: bool,
    /// Messages that a model was given, and those that it gave.
    pub(super) given: Vec<Value>,
    pub(super) gave: Vec<Value>,
    /// A tool's call and its result.
    pub(super) tool: Option<(Piece, Piece)>,
    /// The names of the tools at hand.
    pub(super) tools: Vec<String>,
    /// What the step as a whole was asked and answered, for traces whose models say nothing.
    pub(super) asked: Option<Value>,
    pub(super) answered: Option<Value>,
}

/// The sessions of these steps, in the order of the file.
pub(super) fn sessions(
    steps: Vec<Step>,
    format: SessionFormat,
) -> Result<Vec<Placed>, Vec<FileFault>> {
    let mut conversations: HashMap<String, String> = HashMap::new();
    for step in &steps {
        if let Some(conversation) = &step.conversation {
            conversations.insert(step.trace.clone(), conversation.clone());
        }
    }
    let mut groups: Vec<(String, Vec<Step>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for step in steps {
        let name = conversations
            .get(&step.trace)
            .unwrap_or(&step.trace)
            .clone();
        let at = *known.entry(name.clone()).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, group)) => group.push(step),
            None => groups.push((name, vec![step])),
        }
    }
    let (mut sessions, mut faults) = (Vec::new(), Vec::new());
    for (name, mut steps) in groups {
        // Steps of one moment stay in the file's order.
        steps.sort_by_key(|step| step.began);
        let trace = Trace::new(&name, &steps);
        match trace.session(format) {
            Ok(session) => sessions.push((trace.place(), session)),
            Err(found) => faults.push(found),
        }
    }
    if faults.is_empty() {
        Ok(sessions)
    } else {
        Err(faults)
    }
}

struct Trace<'a> {
    name: &'a str,
    steps: &'a [Step],
    by_id: HashMap<&'a str, &'a Step>,
}

impl<'a> Trace<'a> {
    fn new(name: &'a str, steps: &'a [Step]) -> Self {
        let by_id = steps.iter().map(|step| (step.id.as_str(), step)).collect();
        Self { name, steps, by_id }
    }

    fn place(&self) -> String {
        format!("trace {}", self.name)
    }

    fn roots(&self) -> impl Iterator<Item = &'a Step> {
        let is_root = move |step: &&Step| {
            let parent = step.parent.as_deref();
            parent.is_none_or(|parent| !self.by_id.contains_key(parent))
        };
        self.steps.iter().filter(is_root)
    }

    /// The agent that a step belongs to: its own word, else the nearest agent above it.
    fn agent(&self, step: &'a Step) -> Option<&'a str> {
        let mut at = Some(step);
        for _ in 0..HIGHEST {
            let step = at?;
            let own = (step.work == Work::Agent)
                .then_some(step.name.as_deref())
                .flatten();
            if let Some(agent) = step.agent.as_deref().or(own) {
                return Some(agent);
            }
            at = self.by_id.get(step.parent.as_deref()?).copied();
        }
        None
    }

    fn session(&self, format: SessionFormat) -> Result<SessionInput, FileFault> {
        let mut said = self.said()?;
        if said.is_empty() {
            said = self.outermost();
        }
        if said.is_empty() {
            let first = self.steps.first();
            return Err(FileFault {
                place: first.map(|step| step.place.clone()).unwrap_or_default(),
                fault: fault(
                    "",
                    format!(
                        "{} holds no message; record what models and tools say (for OpenTelemetry: turn on the capture of message content)",
                        self.place()
                    ),
                ),
            });
        }
        let agents: HashSet<&str> = said
            .iter()
            .filter_map(|said| said.agent.as_deref())
            .collect();
        if agents.len() < 2 {
            said.iter_mut().for_each(|said| said.agent = None);
        }
        let (conversation, final_analysis) = conversation(said);
        let status = if self.roots().any(|step| step.failed) {
            SessionStatus::Failed
        } else {
            SessionStatus::Completed
        };
        let agent = self.steps.iter().find_map(|step| self.agent(step));
        let root = self.roots().next();
        let mut session = SessionInput {
            status: Some(status.as_str().to_owned()),
            agent: agent.map(str::to_owned).or_else(|| root?.name.clone()),
            author: self.steps.iter().find_map(|step| step.author.clone()),
            conversation,
            final_analysis,
            tools: self.tools(),
            started_at: self
                .steps
                .iter()
                .filter_map(|step| step.began)
                .min()
                .map(written),
            completed_at: self
                .steps
                .iter()
                .filter_map(|step| step.ended)
                .max()
                .map(written),
            ..SessionInput::default()
        };
        identify(
            &mut session,
            format,
            Some(self.name.to_owned()),
            &Value::Null,
        );
        Ok(session)
    }

    /// The tools that were at hand, or used.
    fn tools(&self) -> Vec<String> {
        let used = self.steps.iter().filter(|step| step.work == Work::Tool);
        let used = used.filter_map(|step| step.name.as_ref());
        let at_hand = self.steps.iter().flat_map(|step| &step.tools);
        once(at_hand.chain(used).cloned())
    }

    /// What models and tools said.
    fn said(&self) -> Result<Vec<AttributedPiece>, FileFault> {
        let mut models = Vec::new();
        for step in self.steps.iter().filter(|step| step.work == Work::Model) {
            models.push((
                step.id.as_str(),
                (read(step, &step.given)?, read(step, &step.gave)?),
            ));
        }
        // A tool's step doesn't always know the id of its call: the same text is the same result, too.
        let (mut ids, mut texts) = (HashSet::new(), HashSet::new());
        for piece in models
            .iter()
            .flat_map(|(_, (given, gave))| given.iter().chain(gave))
        {
            if let Piece::Result { id, text, .. } = piece {
                ids.extend(id.as_deref());
                texts.insert(text.trim());
            }
        }
        texts.remove("");
        let is_in_messages = |result: &Piece| match result {
            Piece::Result { id, text, .. } => {
                id.as_deref().is_some_and(|id| ids.contains(id)) || texts.contains(text.trim())
            }
            Piece::Text { .. } | Piece::Call { .. } => false,
        };
        let in_messages: HashSet<&str> = self
            .steps
            .iter()
            .filter(|step| {
                step.tool
                    .as_ref()
                    .is_some_and(|(_, result)| is_in_messages(result))
            })
            .map(|step| step.id.as_str())
            .collect();
        let mut models: HashMap<&str, _> = models.into_iter().collect();
        let mut before = Before::default();
        let mut said = Vec::new();
        for step in self.steps {
            let agent = self.agent(step);
            let mut add = |piece, at: Option<DateTime<Utc>>| {
                said.push(AttributedPiece {
                    piece,
                    agent: agent.map(str::to_owned),
                    at: at.map(written),
                });
            };
            if let Some((given, gave)) = models.remove(step.id.as_str()) {
                for piece in before.new_of(agent, given) {
                    add(piece, step.began);
                }
                for piece in gave {
                    before.note(agent, &piece);
                    add(piece, step.ended);
                }
            } else if let Some((call, result)) = &step.tool
                && !in_messages.contains(step.id.as_str())
            {
                add(call.clone(), step.began);
                add(result.clone(), step.ended);
            }
        }
        Ok(said)
    }

    /// What the outermost steps were asked and answered.
    fn outermost(&self) -> Vec<AttributedPiece> {
        let mut said = Vec::new();
        for step in self.roots() {
            let sides = [
                ("user", &step.asked, step.began),
                ("assistant", &step.answered, step.ended),
            ];
            for (role, content, at) in sides {
                let message = content.as_ref().map(|content| plain(role, content));
                let pieces = message.as_ref().and_then(pieces).unwrap_or_default();
                said.extend(pieces.into_iter().map(|piece| AttributedPiece {
                    piece,
                    agent: None,
                    at: at.map(written),
                }));
            }
        }
        said
    }
}

fn read(step: &Step, messages: &[Value]) -> Result<Vec<Piece>, FileFault> {
    let mut read = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let pieces = pieces(message).ok_or_else(|| FileFault {
            place: step.place.clone(),
            fault: fault("", format!("message {n} of step {} {NO_MESSAGE}", step.id)),
        })?;
        read.extend(pieces);
    }
    Ok(read)
}

/// What each agent has said or been given, and how often.
#[derive(Default)]
struct Before(HashMap<(Option<String>, String), usize>);

impl Before {
    fn note(&mut self, agent: Option<&str>, piece: &Piece) -> usize {
        let key = (agent.map(str::to_owned), key(piece));
        let count = self.0.entry(key).or_default();
        *count += 1;
        *count
    }

    /// Those of a model's history that are new: occurrences count, so a second one is new where one is known.
    fn new_of(&mut self, agent: Option<&str>, given: Vec<Piece>) -> Vec<Piece> {
        let mut now: HashMap<String, usize> = HashMap::new();
        let mut new = Vec::new();
        for piece in given {
            let in_history = now.entry(key(&piece)).or_default();
            *in_history += 1;
            let known = self.0.get(&(agent.map(str::to_owned), key(&piece)));
            if known.copied().unwrap_or_default() < *in_history {
                self.note(agent, &piece);
                new.push(piece);
            }
        }
        new
    }
}

fn written(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
