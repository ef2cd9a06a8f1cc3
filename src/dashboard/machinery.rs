//! What does the work, as the API tells it: the queue, the workers, the judges. The head of every page and the queue's page read it
//! here, and nowhere else.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::health::{self, Health};
use super::words;
use crate::api::{Caller, Door, Problem};

/// How long a worker may be silent before pages call it gone.
const HEARD: TimeDelta = TimeDelta::seconds(60);

/// The queue, the workers and the judges at one time.
#[derive(Debug)]
pub(super) struct Machinery {
    pub(super) queue: Queue,
    pub(super) workers: Vec<Worker>,
    pub(super) judges: Vec<Judge>,
}

impl Machinery {
    /// Asks the API for all three at once.
    pub(super) async fn read(door: &Door, caller: &Caller) -> Result<Self, Box<Problem>> {
        let (queue, workers, judges) = tokio::try_join!(
            door.get::<Queue>(caller, "/api/v1/queue"),
            door.get::<Listed<Worker>>(caller, "/api/v1/workers"),
            door.get::<Listed<Judge>>(caller, "/api/v1/judges"),
        )?;
        Ok(Self {
            queue,
            workers: workers.items,
            judges: judges.items,
        })
    }
}

/// Asks for the judges alone.
pub(super) async fn judges(door: &Door, caller: &Caller) -> Result<Vec<Judge>, Box<Problem>> {
    let judges: Listed<Judge> = door.get(caller, "/api/v1/judges").await?;
    Ok(judges.items)
}

#[derive(Debug, Deserialize)]
struct Listed<T> {
    items: Vec<T>,
}

/// The queue: how much there is of each state, and who stopped it.
#[derive(Debug, Deserialize)]
pub(super) struct Queue {
    pub(super) paused: bool,
    pub(super) brake: Option<Brake>,
    pub(super) counts: Counts,
}

/// Jobs by state.
#[derive(Debug, Deserialize)]
pub(super) struct Counts {
    pub(super) queued: i64,
    pub(super) running: i64,
    pub(super) waiting: i64,
    pub(super) succeeded_24h: i64,
    pub(super) failed_24h: i64,
}

/// A worker that was heard in the last day.
#[derive(Debug, Deserialize)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) started_at: DateTime<Utc>,
    pub(super) heartbeat_at: DateTime<Utc>,
    pub(super) in_hand: i32,
    pub(super) state: String,
    pub(super) alive: bool,
}

/// A judge with its gates.
#[derive(Debug, Deserialize)]
pub(super) struct Judge {
    pub(super) name: String,
    pub(super) configured: bool,
    pub(super) remedy: Option<String>,
    pub(super) simulated: bool,
    pub(super) kinds: Vec<String>,
    pub(super) brake: Option<Brake>,
    pub(super) gates: Vec<Gate>,
    pub(super) spent: Spent,
}

/// Who stopped a queue or a judge, and why.
#[derive(Debug, Deserialize)]
pub(super) struct Brake {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) set_by: String,
    pub(super) since: DateTime<Utc>,
    pub(super) until: Option<DateTime<Utc>>,
}

/// A way to a judge as one process sees it.
#[derive(Debug, Deserialize)]
pub(super) struct Gate {
    pub(super) breaker: String,
    pub(super) failures_in_row: i32,
    pub(super) reason: Option<String>,
    pub(super) until: Option<DateTime<Utc>>,
    pub(super) in_flight: i32,
    pub(super) last_error: Option<String>,
    pub(super) last_error_at: Option<DateTime<Utc>>,
    pub(super) pace: Option<Pace>,
}

/// How fast a judge may be asked, as one worker sees it.
#[derive(Debug, Deserialize)]
pub(super) struct Pace {
    pub(super) requests: Meter,
    pub(super) tokens: Meter,
    pub(super) shrunk_until: Option<DateTime<Utc>>,
    /// Whether the limits hold for all workers together.
    #[serde(default)]
    pub(super) together: bool,
    /// Among how many workers the limits are divided while Redis is away.
    #[serde(default)]
    pub(super) part_of: Option<u32>,
}

/// One quantity that is limited by the minute.
#[derive(Debug, Deserialize)]
pub(super) struct Meter {
    pub(super) limit: Option<i64>,
    pub(super) used_last_minute: i64,
}

/// What a judge cost.
#[derive(Debug, Deserialize)]
pub(super) struct Spent {
    pub(super) today_usd: Option<f64>,
    #[serde(default)]
    pub(super) today_unpriced_calls: i64,
}

/// What keeps a judge's jobs waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// It doesn't answer, or not as it should.
    Silent,
    /// It isn't set up, and something is to be scored by it.
    Unset,
    /// It refuses the key, the model or the address, or its quota is used up.
    Refused,
    /// It asks for patience, and goes on by itself.
    Slow,
    /// A spending cap is reached.
    Capped,
    /// Somebody has paused it.
    Paused,
}

impl Worker {
    /// Whether it has ended, or wasn't heard for a minute. One whose heartbeat is late, as on a busy database, isn't given up by pages:
    /// its jobs go to others after the lease, which is shorter.
    pub(super) fn is_gone(&self, now: DateTime<Utc>) -> bool {
        self.state == "stopped" || (!self.alive && now - self.heartbeat_at > HEARD)
    }

    /// Whether it was heard lately: "silent" doesn't stand beside "just now".
    pub(super) fn is_heard(&self, now: DateTime<Utc>) -> bool {
        self.alive || now - self.heartbeat_at < words::JUST_NOW
    }
}

impl Spent {
    /// What today came to, as far as it is known.
    pub(super) fn today(&self) -> String {
        words::usd_at_least(self.today_usd, self.today_unpriced_calls)
    }
}

impl Judge {
    /// Whether it is set up, asked for, or stopped.
    pub(super) fn matters(&self) -> bool {
        self.configured || !self.kinds.is_empty() || self.brake.is_some()
    }

    /// What its calls say.
    pub(super) fn health(&self) -> Health {
        health::of(self.gates.iter().map(|gate| gate.failures_in_row))
    }

    /// How many of its calls failed, if nothing has stopped it yet.
    pub(super) fn failing(&self) -> Option<(String, String)> {
        match self.health() {
            Health::Fails(calls) if self.stopped().is_none() => {
                Some((self.name.clone(), health::failed(calls)))
            }
            Health::Fails(_) | Health::Answers | Health::Unasked => None,
        }
    }

    /// The reason that stops it, as the API names it.
    fn reason(&self) -> Option<&str> {
        let closed = || self.gates.iter().find_map(|gate| gate.reason.as_deref());
        let braked = self.brake.as_ref().map(|brake| brake.reason.as_str());
        braked.or_else(closed)
    }

    /// What keeps its jobs waiting; `None`: nothing, as far as its calls say.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        match self.reason() {
            Some("paused") => Some(Trouble::Paused),
            Some("budget") => Some(Trouble::Capped),
            Some("misconfigured" | "exhausted") => Some(Trouble::Refused),
            Some("throttled" | "paced") => Some(Trouble::Slow),
            Some(_) => Some(Trouble::Silent),
            None if self.stopped().is_some() => Some(Trouble::Unset),
            None => self.failing().map(|_| Trouble::Silent),
        }
    }

    /// The entry that it is of: `gpt` of `gpt:mini`.
    pub(super) fn entry(&self) -> &str {
        self.name.split(':').next().unwrap_or(&self.name)
    }

    /// Whether what stops it is what stops the entry that it is a model of, and is told there.
    pub(super) fn is_told_by_its_entry(&self, judges: &[Self]) -> bool {
        let why = |judge: &Self| judge.stopped().map(|(_, why)| why);
        let entry = judges.iter().find(|judge| judge.name == self.entry());
        entry.is_some_and(|entry| {
            entry.name != self.name && why(entry).is_some() && why(entry) == why(self)
        })
    }

    /// Why it lets nothing through, if it is one that is used.
    pub(super) fn stopped(&self) -> Option<(String, String)> {
        let reason = match (
            &self.brake,
            self.gates.iter().find_map(|g| g.reason.clone()),
        ) {
            (Some(brake), _) => brake.reason.clone(),
            (None, Some(reason)) => reason,
            (None, None) if !self.configured && !self.kinds.is_empty() => {
                return Some((self.name.clone(), "not configured".to_owned()));
            }
            (None, None) => return None,
        };
        Some((self.name.clone(), words::stopped_by(&reason).to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_stops_an_entry_isnt_told_of_each_of_its_models() {
        let judge = |name: &str, reason: Option<&str>| -> Judge {
            let brake = reason.map(|reason| {
                json!({"reason": reason, "message": "m", "set_by": "cap", "since": "2026-11-23T11:00:00Z", "until": null})
            });
            let judge = json!({"name": name, "configured": true, "remedy": null, "simulated": false, "kinds": [],
                "brake": brake, "gates": [], "spent": {"today_usd": 1.0}});
            serde_json::from_value(judge).unwrap()
        };
        let judges = [
            judge("a", Some("budget")),
            judge("a:m1", Some("budget")),
            judge("a:m2", Some("paused")),
            judge("b", None),
            judge("b:m1", Some("budget")),
        ];
        let told: Vec<&str> = judges
            .iter()
            .filter(|judge| !judge.is_told_by_its_entry(&judges))
            .filter_map(|judge| judge.stopped().map(|_| judge.name.as_str()))
            .collect();
        assert_eq!(told, ["a", "a:m2", "b:m1"]);
    }
}
