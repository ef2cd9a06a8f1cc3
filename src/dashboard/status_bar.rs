//! Status bar of each page, with numbers from the API.

use chrono::{DateTime, Utc};

use super::infrastructure::{self, Infrastructure};
use super::page::PageError;
use super::words;
use crate::api::ApiError;
use crate::wire::{Health, Judge};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StatusBar {
    /// Numbers of queued, running and recently failed (24 h) jobs. Empty if they can't be read.
    pub(super) counts: Vec<(&'static str, String)>,
    /// Number of workers with a heartbeat within the last minute.
    pub(super) workers: usize,
    pub(super) silent: usize,
    /// Whether Redis is unavailable. Jobs are then processed from the database, but without events.
    pub(super) redis_away: bool,
    /// Stopped judges with reasons.
    pub(super) stopped: Vec<(String, String)>,
    /// Active judges with failing calls, and their number.
    pub(super) failing: Vec<(String, String)>,
    /// Whether the latest calls of each used judge are recent and successful.
    pub(super) all_answer: bool,
    pub(super) paused: bool,
    pub(super) simulated: bool,
    /// Number of jobs that wait without any worker.
    pub(super) deserted: Option<i64>,
    /// Error if the numbers can't be read.
    pub(super) fault: Option<String>,
}

impl StatusBar {
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
                .filter(|worker| !infrastructure::has_recent_heartbeat(worker, now))
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

    pub(super) fn is_well(&self) -> bool {
        let stopped = self.paused || !self.stopped.is_empty() || !self.failing.is_empty();
        let heard = self.workers > self.silent && !self.redis_away;
        self.fault.is_none() && !stopped && self.all_answer && heard
    }
}
