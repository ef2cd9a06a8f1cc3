//! Who answers the questions of a suite: agents over HTTP, a command, or a file of answers that were given before.

mod answer;
mod command;
mod http;
mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::{AgentQuestion, Stopped};
use crate::config::{AgentSettings, AgentsSettings};

pub use answer::AgentAnswer;

const LARGEST: usize = 8 << 20;

/// Which agent a question is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentName {
    Sql,
    Docking,
}

impl AgentName {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "sql" => Some(Self::Sql),
            "docking" => Some(Self::Docking),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Docking => "docking",
        }
    }

    fn settings(self, all: &AgentsSettings) -> &AgentSettings {
        match self {
            Self::Sql => &all.sql,
            Self::Docking => &all.docking,
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentFault {
    /// This question went wrong; others may go well.
    Question(String),
    Down(Stopped),
}

#[async_trait]
trait Agent: Send + Sync {
    /// Whether it is there, where that can be known before a question.
    async fn probe(&self) -> Result<(), Stopped> {
        Ok(())
    }

    async fn ask(&self, question: &AgentQuestion) -> Result<AgentAnswer, AgentFault>;
}

/// Where answers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswersFrom<'a> {
    Http,
    /// A command: a question on its stdin, an answer as JSON on its stdout.
    Command(&'a str),
    /// A file of answers by `test_id`, such as a run's `test-results.jsonl`.
    File(&'a Path),
}

/// The agents of a run.
pub struct Agents {
    by_name: BTreeMap<AgentName, Arc<dyn Agent>>,
    recorded: Option<Arc<recorded::Recorded>>,
    slots: Semaphore,
}

impl Agents {
    /// Prepares the agents that are needed. Asks none yet.
    ///
    /// # Errors
    /// `Usage`: one has no address, or the file of answers can't be read.
    pub fn new(
        from: AnswersFrom<'_>,
        needed: &BTreeSet<AgentName>,
        settings: &AgentsSettings,
    ) -> Result<Self, Stopped> {
        let mut by_name: BTreeMap<AgentName, Arc<dyn Agent>> = BTreeMap::new();
        let recorded = match from {
            AnswersFrom::File(path) if !needed.is_empty() => {
                Some(Arc::new(recorded::Recorded::open(path)?))
            }
            AnswersFrom::File(_) | AnswersFrom::Http | AnswersFrom::Command(_) => None,
        };
        for name in needed {
            let of_name = name.settings(settings);
            let agent: Arc<dyn Agent> = match (from, &recorded) {
                (AnswersFrom::File(_), Some(recorded)) => recorded.clone(),
                (AnswersFrom::Command(command), _) => Arc::new(command::CommandAgent::new(
                    command,
                    of_name,
                    settings.timeout_s,
                )),
                (AnswersFrom::Http | AnswersFrom::File(_), _) => {
                    Arc::new(http::HttpAgent::new(*name, of_name, settings.timeout_s)?)
                }
            };
            by_name.insert(*name, agent);
        }
        Ok(Self {
            by_name,
            recorded,
            slots: Semaphore::new(settings.concurrency.max(1)),
        })
    }

    /// The answers of a file that no question asks for, by their names.
    pub fn unasked(&self, is_asked: impl Fn(&str) -> bool) -> Vec<&str> {
        let recorded = self.recorded.as_deref();
        recorded.map_or_else(Vec::new, |recorded| recorded.unasked(is_asked))
    }

    pub async fn probe(&self) -> Result<(), Stopped> {
        for agent in self.by_name.values() {
            agent.probe().await?;
        }
        Ok(())
    }

    pub async fn ask(&self, question: &AgentQuestion) -> Result<AgentAnswer, AgentFault> {
        let Some(agent) = self.by_name.get(&question.agent) else {
            return Err(AgentFault::Question(format!(
                "there is no agent {}",
                question.agent.as_str()
            )));
        };
        // Never closed.
        let _slot = self.slots.acquire().await.ok();
        agent.ask(question).await
    }
}
