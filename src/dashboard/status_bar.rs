//! How the service does, in a line: the figures of every page's head, which are those of the API.

use chrono::{DateTime, Utc};

use super::infrastructure::{self, Infrastructure};
use super::page::PageError;
use super::words;
use crate::api::ApiError;
use crate::wire::{Health, Judge};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StatusBar {
    /// In the queue, in a worker's hand, failed in the last 24 h; empty if the figures can't be read.
    pub(super) counts: Vec<(&'static str, String)>,
    /// How many workers were heard within a minute.
    pub(super) workers: usize,
    /// How many of them are late with their word.
    pub(super) silent: usize,
    /// Whether Redis is away: work goes on from the database, and pages hear of nothing.
    pub(super) redis_away: bool,
    /// Judges that let nothing through, each with why.
    pub(super) stopped: Vec<(String, String)>,
    /// Judges that let calls through which fail, each with how many.
    pub(super) failing: Vec<(String, String)>,
    /// Whether each judge that is used was asked lately, and answered.
    pub(super) all_answer: bool,
    /// Whether the queue is paused.
    pub(super) paused: bool,
    /// Whether sessions are scored by a simulated judge.
    pub(super) simulated: bool,
    /// Whether there is work and nobody who does it.
    pub(super) deserted: Option<i64>,
    /// Why there are no figures.
    pub(super) fault: Option<String>,
}

impl StatusBar {
    /// What is said instead of what can't be read.
    pub(super) fn unread(error: ApiError) -> Self {
        Self {
            fault: Some(PageError::from(error).problem().detail.clone()),
            ..Self::default()
        }
    }

    pub(super) fn new(found: &Infrastructure, now: DateTime<Utc>) -> Self {
        let Infrastructure {
            queue,
            workers,
            judges,
            ..
        } = found;
        let counts = &queue.counts;
        let there = || {
            workers
                .iter()
                .filter(|worker| !infrastructure::is_gone(worker, now))
        };
        let alive = there().count();
        let to_do = counts.queued + counts.waiting + counts.running;
        let scores_sessions =
            |judge: &Judge| judge.simulated && judge.kinds.iter().any(|kind| !kind.is_case());
        Self {
            counts: vec![
                ("queued", words::count(counts.queued)),
                ("waiting", words::count(counts.waiting)),
                ("running", words::count(counts.running)),
                ("failed in 24 h", words::count(counts.failed_24h)),
            ],
            workers: alive,
            silent: there()
                .filter(|worker| !infrastructure::is_heard(worker, now))
                .count(),
            redis_away: found.failed("queue").next().is_some(),
            stopped: judges
                .iter()
                .filter(|judge| !judge.is_stopped_with_its_entry(judges))
                .filter_map(|judge| Some((judge.name.clone(), judge.stopped()?.to_owned())))
                .collect(),
            failing: judges
                .iter()
                .filter_map(|judge| Some((judge.name.clone(), judge.failing()?.to_string())))
                .collect(),
            all_answer: {
                let mut used = judges.iter().filter(|j| !j.kinds.is_empty()).peekable();
                used.peek().is_some() && used.all(|judge| judge.health() == Health::Answers)
            },
            paused: queue.paused,
            simulated: judges.iter().any(scores_sessions),
            deserted: (alive == 0).then_some(to_do),
            fault: None,
        }
    }

    /// Whether all is well, as far as calls were made.
    pub(super) fn is_well(&self) -> bool {
        let stopped = self.paused || !self.stopped.is_empty() || !self.failing.is_empty();
        let heard = self.workers > self.silent && !self.redis_away;
        self.fault.is_none() && !stopped && self.all_answer && heard
    }
}
