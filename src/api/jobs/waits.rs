//! Reasons why jobs wait: holds, closed gates, paused batches. Reads only the store.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::judges::workers::LiveWorkers;
use crate::job::{Job, JobState, Priority, Wait, WaitReason};
use crate::store::{Hold, HoldTarget, JudgeRow, StoreError};
use crate::wire::{self, PausedBy, Stopped, WaitTarget};

/// Returns the remedy if no live worker can call a judge.
fn start_worker_for(judge: &str) -> String {
    let entry = judge.split(':').next().unwrap_or(judge);
    format!(
        "start a worker whose llm_providers.yaml has entry {entry} and its key, or cancel and repeat the request with criteria for another judge"
    )
}

/// Returns the action required from an operator. `None` if the job continues automatically.
fn remedy(
    why: (WaitReason, Option<WaitTarget>),
    until: Option<DateTime<Utc>>,
    judge: Option<&str>,
) -> Option<String> {
    let text = match why {
        (WaitReason::Paused, Some(WaitTarget::Batch)) => "resume its batch",
        (WaitReason::Paused, Some(WaitTarget::Queue)) => "resume the queue",
        (WaitReason::Paused, _) => "resume the judge",
        (WaitReason::Misconfigured, _) => {
            "correct the judge's key, model or address and restart the workers; if they were correct, resume the judge"
        }
        (WaitReason::Exhausted, _) if until.is_none() => {
            "top up the provider's quota or spend limit, then resume the judge"
        }
        (WaitReason::Budget, Some(WaitTarget::Batch)) => "raise or remove the budget of its batch",
        (WaitReason::Budget, _) => {
            "wait for the end of the cap's day or month, or raise the cap and restart the workers"
        }
        (WaitReason::NoWorker, _) => {
            "start a worker: `gavel worker` on the same database and queue, or `gavel up` on the same data folder"
        }
        (WaitReason::NoWorkerForJudge, _) => return judge.map(start_worker_for),
        (
            WaitReason::Queued
            | WaitReason::Economy
            | WaitReason::BreakerOpen
            | WaitReason::Throttled
            | WaitReason::Paced
            | WaitReason::Exhausted
            | WaitReason::Storage
            | WaitReason::Fallback,
            _,
        ) => return None,
    };
    Some(text.to_owned())
}

/// Returns the wait stored in a row until it expires. After that, the state of the job's lane counts.
fn stored_wait(state: JobState, wait: Option<&Wait>, now: DateTime<Utc>) -> Option<&Wait> {
    wait.filter(|wait| state == JobState::Waiting && wait.until.is_none_or(|until| until > now))
}

fn waits_for_fallback(job: &Job) -> bool {
    let reason = job.wait.as_ref().map(|wait| wait.reason);
    job.state == JobState::Waiting && reason == Some(WaitReason::Fallback)
}

/// Everything that can delay jobs: holds, gates of live workers, missing workers, paused batches.
#[derive(Debug, Default)]
pub(crate) struct WaitContext {
    holds: Vec<Hold>,
    judges: Vec<JudgeRow>,
    workers: LiveWorkers,
    /// Fallback names of judges with jobs that wait for a fallback.
    fallbacks: HashMap<String, String>,
    paused: Vec<(Uuid, PausedBy)>,
    /// Batches with replies being collected.
    collecting: Vec<Uuid>,
    now: DateTime<Utc>,
}

impl WaitContext {
    /// Reads everything that stops lanes, independent of jobs.
    pub(crate) async fn of_all(state: &ApiState) -> Result<Self, StoreError> {
        let now = state.clock.now();
        Ok(Self {
            now,
            holds: state.store.holds().list(now).await?,
            judges: state.store.judges().list().await?,
            workers: LiveWorkers::load(state).await?,
            ..Self::default()
        })
    }

    /// Reads the state, unless all jobs are running or ended.
    pub(crate) async fn load(state: &ApiState, jobs: &[Job]) -> Result<Self, StoreError> {
        let held = |job: &Job| matches!(job.state, JobState::Queued | JobState::Waiting);
        if !jobs.iter().any(held) {
            return Ok(Self::default());
        }
        let now = state.clock.now();
        let fallbacks = jobs
            .iter()
            .filter(|job| waits_for_fallback(job))
            .filter_map(|job| job.judge.clone())
            .filter_map(|judge| (state.fallback_of)(&judge).map(|fallback| (judge, fallback)))
            .collect();
        let batch = |job: &Job| job.batch.map(|place| place.batch_id);
        let mut batches: Vec<Uuid> = jobs.iter().filter_map(batch).collect();
        batches.sort_unstable();
        batches.dedup();
        Ok(Self {
            now,
            fallbacks,
            paused: state.store.batches().paused(&batches).await?,
            collecting: state.store.batches().collecting(&batches).await?,
            holds: state.store.holds().list(now).await?,
            judges: state.store.judges().list().await?,
            workers: LiveWorkers::load(state).await?,
        })
    }

    pub(crate) fn wait_of(&self, job: &Job, position: Option<i64>) -> Option<wire::Wait> {
        let held = match job.state {
            JobState::Queued | JobState::Waiting => self.hold_of(job.judge.as_deref()),
            JobState::Running | JobState::Succeeded | JobState::Failed | JobState::Cancelled => {
                return None;
            }
        };
        let wait = stored_wait(job.state, job.wait.as_ref(), self.now);
        let mut target = held.map(|hold| match &hold.target {
            HoldTarget::Queue => WaitTarget::Queue,
            HoldTarget::Judge(_) => WaitTarget::Judge,
        });
        let (reason, until) = if let Some(hold) = held {
            (hold.reason, hold.until)
        } else if let Some(by) = self.paused_by(job) {
            target = Some(WaitTarget::Batch);
            let reason = match by {
                PausedBy::Operator => WaitReason::Paused,
                PausedBy::Budget => WaitReason::Budget,
            };
            (reason, None)
        } else if self.is_collecting(job) {
            (WaitReason::Economy, None)
        } else if let Some(wait) = wait {
            (wait.reason, wait.until)
        } else if self.workers.is_empty() {
            (WaitReason::NoWorker, None)
        } else if !self.workers.can_ask(job.judge.as_deref()) {
            (WaitReason::NoWorkerForJudge, None)
        } else if let Some((why, row)) = self.closed(job.judge.as_deref()) {
            (why, row.closed_until)
        } else {
            (WaitReason::Queued, None)
        };
        let fallback = || self.fallbacks.get(job.judge.as_deref()?).cloned();
        let stands_in = (held.is_none() && wait.is_some() && waits_for_fallback(job))
            .then(fallback)
            .flatten();
        let asked = stands_in.as_deref().or(job.judge.as_deref());
        Some(wire::Wait {
            last_error: self.last_error(asked, reason),
            remedy: remedy((reason, target), until, job.judge.as_deref()),
            message: held
                .map(|hold| hold.message.clone())
                .filter(|said| !said.is_empty()),
            target,
            set_by: held.map(|hold| hold.set_by.clone()),
            reason,
            judge: stands_in,
            until,
            position,
        })
    }

    /// Returns the judge's last error, as last reported by a worker, if the judge is the reason of the wait.
    fn last_error(&self, judge: Option<&str>, why: WaitReason) -> Option<String> {
        let is_its_judge = matches!(
            why,
            WaitReason::BreakerOpen
                | WaitReason::Throttled
                | WaitReason::Exhausted
                | WaitReason::Misconfigured
                | WaitReason::Fallback
        );
        if !is_its_judge {
            return None;
        }
        self.judges
            .iter()
            .filter(|row| Some(row.name.as_str()) == judge && row.last_error.is_some())
            .max_by_key(|row| row.updated_at)
            .and_then(|row| row.last_error.clone())
    }

    /// Returns the cause of the pause of a job's batch. `None` if it isn't paused, or the job has no batch.
    fn paused_by(&self, job: &Job) -> Option<PausedBy> {
        let id = job.batch.filter(|_| !job.on_demand)?.batch_id;
        let mut paused = self.paused.iter();
        paused.find(|(paused, _)| *paused == id).map(|(_, by)| *by)
    }

    /// Returns whether a job's reply is being collected. Jobs requested individually call the judge directly.
    fn is_collecting(&self, job: &Job) -> bool {
        let batch = job.batch.map(|place| place.batch_id);
        job.priority == Priority::Bulk && batch.is_some_and(|id| self.collecting.contains(&id))
    }

    /// Returns the hold on a judge's lane: the queue's hold first, then the judge's.
    fn hold_of(&self, judge: Option<&str>) -> Option<&Hold> {
        let stops = |target: &HoldTarget| match target {
            HoldTarget::Queue => true,
            HoldTarget::Judge(name) => Some(name.as_str()) == judge,
        };
        self.holds
            .iter()
            .filter(|hold| stops(&hold.target))
            .min_by_key(|hold| hold.target.clone())
    }

    /// Returns why none of these judges is callable. `None` if at least one is, or may be within seconds.
    pub(crate) fn stopped(&self, judges: &BTreeSet<Option<String>>) -> Option<Stopped> {
        let mut stopped: Vec<Stopped> = Vec::with_capacity(judges.len());
        for judge in judges {
            stopped.push(self.stop_for(judge.as_deref())?);
        }
        let others = stopped.len().saturating_sub(1);
        let first = stopped
            .into_iter()
            .min_by_key(|stop| stop.until.unwrap_or(DateTime::<Utc>::MAX_UTC))?;
        Some(match others {
            0 => first,
            _ => Stopped {
                message: format!(
                    "{}; the batch's other judges are stopped too",
                    first.message
                ),
                ..first
            },
        })
    }

    fn stop_for(&self, judge: Option<&str>) -> Option<Stopped> {
        let (target, why, until, said) = match self.hold_of(judge) {
            Some(hold) => {
                let said = Some(hold.message.as_str()).filter(|said| !said.is_empty());
                (Some(&hold.target), hold.reason, hold.until, said)
            }
            None => match self.closed(judge) {
                Some((why, row)) => (None, why, row.closed_until, row.last_error.as_deref()),
                None => return self.no_worker_for(judge),
            },
        };
        let name = judge.unwrap_or_default();
        let words = match (why, target) {
            (WaitReason::Paused, Some(HoldTarget::Queue)) => "the queue is paused".to_owned(),
            (WaitReason::Paused, _) => format!("judge {name} is paused"),
            (WaitReason::Budget, _) => format!("judge {name} is stopped by a cap"),
            (WaitReason::BreakerOpen, _) => format!("judge {name} failed too often in a row"),
            (WaitReason::Exhausted, _) => format!("the quota of judge {name} is used up"),
            (WaitReason::Misconfigured, _) => format!("judge {name} rejects the key or the model"),
            // These end within seconds, and items run in between.
            (
                WaitReason::Throttled
                | WaitReason::Paced
                | WaitReason::Storage
                | WaitReason::Fallback
                | WaitReason::Queued
                | WaitReason::NoWorker
                | WaitReason::NoWorkerForJudge
                | WaitReason::Economy,
                _,
            ) => return None,
        };
        Some(Stopped {
            reason: why.as_str().to_owned(),
            message: said.map_or(words.clone(), |said| format!("{words}: {said}")),
            until,
        })
    }

    /// Returns a stop if live workers exist but none can call this judge.
    fn no_worker_for(&self, judge: Option<&str>) -> Option<Stopped> {
        let name = judge.filter(|_| !self.workers.is_empty() && !self.workers.can_ask(judge))?;
        Some(Stopped {
            reason: WaitReason::NoWorkerForJudge.as_str().to_owned(),
            message: format!(
                "no live worker can call judge {name}: {}",
                start_worker_for(name)
            ),
            until: None,
        })
    }

    /// Returns why no live worker would accept a job of this judge: all its gates are closed. The first to open counts.
    fn closed(&self, judge: Option<&str>) -> Option<(WaitReason, &JudgeRow)> {
        let gates: Vec<&JudgeRow> = self
            .judges
            .iter()
            .filter(|row| Some(row.name.as_str()) == judge)
            .collect();
        if gates.iter().any(|row| row.closed.is_none()) {
            return None;
        }
        gates
            .iter()
            .min_by_key(|row| row.closed_until.unwrap_or(DateTime::<Utc>::MAX_UTC))
            .and_then(|row| row.closed.map(|why| (why, *row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_wait_is_ignored() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z").parse().unwrap();
        let wait = |until: Option<u32>| Wait {
            reason: WaitReason::BreakerOpen,
            until: until.map(at),
        };
        for (state, until, holds) in [
            (JobState::Waiting, Some(30), true),
            (JobState::Waiting, Some(10), false),
            (JobState::Waiting, None, true),
            (JobState::Queued, Some(30), false),
        ] {
            let wait = wait(until);
            let held = stored_wait(state, Some(&wait), at(10));
            assert_eq!(held.is_some(), holds, "{state:?} until {until:?}");
        }
    }
    #[test]
    fn batch_is_stopped_while_all_its_judges_are() {
        let hold = |target, reason, message: &str, until: Option<&str>| Hold {
            target,
            reason,
            message: message.to_owned(),
            set_by: "somebody".to_owned(),
            since: DateTime::<Utc>::UNIX_EPOCH,
            until: until.map(|at| at.parse().unwrap()),
        };
        let judge = |name: &str| HoldTarget::Judge(name.to_owned());
        let capped = "the daily cap of a, 2 USD, is reached";
        let mut blockers = WaitContext {
            holds: vec![
                hold(
                    judge("a"),
                    WaitReason::Budget,
                    capped,
                    Some("2026-01-02T00:00:00Z"),
                ),
                hold(judge("b"), WaitReason::Paused, "", None),
            ],
            ..WaitContext::default()
        };
        let judges = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect();
        let said = |blockers: &WaitContext, names: &[&str]| {
            let stopped = blockers.stopped(&judges(names))?;
            Some((stopped.reason, stopped.message))
        };
        let budget = format!("judge a is stopped by a cap: {capped}");
        assert_eq!(
            said(&blockers, &["a"]),
            Some(("budget".to_owned(), budget.clone()))
        );
        let both = format!("{budget}; the batch's other judges are stopped too");
        assert_eq!(
            said(&blockers, &["a", "b"]),
            Some(("budget".to_owned(), both))
        );
        assert_eq!(said(&blockers, &["a", "b", "c"]), None, "c is asked");
        assert_eq!(said(&blockers, &[]), None);
        blockers
            .holds
            .push(hold(HoldTarget::Queue, WaitReason::Paused, "lunch", None));
        let paused = ("paused".to_owned(), "the queue is paused: lunch".to_owned());
        assert_eq!(said(&blockers, &["c"]), Some(paused));
    }
}
