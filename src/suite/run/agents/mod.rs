//! Sources of answers to a suite's questions: agents over HTTP, a command, or a file of recorded answers.

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentFault {
    Question(String),
    Down(Stopped),
}

#[async_trait]
trait Agent: Send + Sync {
    /// Checks that the agent is available, if that can be checked without a question.
    async fn probe(&self) -> Result<(), Stopped> {
        Ok(())
    }

    async fn ask(&self, question: &AgentQuestion) -> Result<AgentAnswer, AgentFault>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswersFrom<'a> {
    Http,
    Command(&'a str),
    /// File of answers by `test_id`, such as a run's `test-results.jsonl`.
    File(&'a Path),
}

pub struct Agents {
    by_name: BTreeMap<AgentName, Arc<dyn Agent>>,
    recorded: Option<Arc<recorded::Recorded>>,
    slots: Semaphore,
}

impl Agents {
    /// Prepares the required agents without calling them. Errors: `Usage`: an agent has no URL, or the file of answers
    /// can't be read.
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
                "no agent {}",
                question.agent.as_str()
            )));
        };
        // The semaphore isn't closed.
        let _slot = self.slots.acquire().await.ok();
        agent.ask(question).await
    }
}
