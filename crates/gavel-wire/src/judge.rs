//! Types of `/api/v1/judges`: judges and their holds.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::words::{grouped, time};
use crate::{Health, Kind, WaitReason};

/// A hold on one lane or all lanes. It ends when an operator releases it or `until` passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hold {
    /// `paused`: set by an operator. `exhausted`, `misconfigured`: set by a worker after such an error. `budget`: a
    /// spending limit is reached.
    pub reason: WaitReason,
    /// Message of the operator or the provider.
    pub message: String,
    pub set_by: String,
    pub since: DateTime<Utc>,
    /// Time of automatic release. Null: an operator must resume it.
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Gate {
    pub worker_id: Uuid,
    /// `closed` (calls pass), `open` or `half_open`.
    pub breaker: String,
    /// Reason why calls are blocked now. Null if they pass.
    pub reason: Option<WaitReason>,
    /// Time at which calls pass again, if known.
    pub until: Option<DateTime<Utc>>,
    pub failures_in_row: i32,
    pub in_flight: i32,
    /// Text of the last error. It isn't cleared when the judge recovers.
    pub last_error: Option<String>,
    pub last_error_at: Option<DateTime<Utc>>,
    pub pace: Option<JudgePace>,
    /// Time of the worker's report.
    pub updated_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Judge {
    /// A provider entry, or `entry:model`.
    pub name: String,
    pub configured: bool,
    /// Fix if it isn't configured.
    pub remedy: Option<String>,
    pub simulated: bool,
    /// Kinds with current criteria that use it.
    pub kinds: Vec<Kind>,
    /// Hold on its lane, or null.
    pub hold: Option<Hold>,
    /// Gates of live workers.
    pub gates: Vec<Gate>,
    pub spent: Spent,
    /// Spending limit of its entry, or null.
    pub cap: Option<Cap>,
}

/// All judges, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Judges {
    pub items: Vec<Judge>,
    /// Hold on all lanes, or null.
    pub queue_hold: Option<Hold>,
    pub spent: Spent,
    /// Spending limit over all judges, or null.
    pub cap: Option<Cap>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PauseRequest {
    /// Reason shown to users, at most 500 characters.
    #[schema(max_length = 500)]
    pub message: Option<String>,
    /// Time of automatic resumption. Default: paused until an operator resumes it.
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Paused {
    pub hold: Hold,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Resumed {
    /// Whether a hold was released. False if it wasn't paused.
    pub released: bool,
}

/// Rate limits of a judge, as seen by one worker process. If `together` is true, all workers share the limits.
/// `used_last_minute` is always per worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JudgePace {
    pub requests: Meter,
    pub tokens: Meter,
    /// Prompt tokens, if the server limits them separately.
    pub input_tokens: Meter,
    /// Completion tokens, if the server limits them separately.
    pub output_tokens: Meter,
    /// The limits are reduced until this time because the judge replied 429. Null if they aren't.
    pub shrunk_until: Option<DateTime<Utc>>,
    /// Calls are blocked until this time because a reply reported an exhausted limit. Null if they aren't.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether all workers share the limits.
    pub together: bool,
    /// Number of workers that split the limits because Redis is unavailable. Null if they aren't split.
    pub part_of: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Meter {
    /// Current limit per minute. Null: no limit.
    pub limit: Option<u64>,
    /// Configured limit. Null: no limit.
    pub configured: Option<u64>,
    /// Limit reported by the server. Null if it reported no limit, or none that can be per minute.
    pub learned: Option<u64>,
    pub used_last_minute: u64,
}

/// Spending on calls with a known price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spent {
    /// USD of today's calls (UTC). Null if there are calls but none has a price.
    pub today_usd: Option<f64>,
    /// USD of this month's calls, including today's. Null if there are calls but none has a price.
    pub month_usd: Option<f64>,
    /// Today's calls with an unknown price, not included in `today_usd`.
    pub today_unpriced_calls: i64,
    /// This month's calls with an unknown price, not included in `month_usd`.
    pub unpriced_calls: i64,
}

/// A spending limit and the spending under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Cap {
    /// The limited provider entry. Null: all judges.
    pub entry: Option<String>,
    /// USD per UTC day. Null: no limit.
    pub daily_cap_usd: Option<f64>,
    /// USD per UTC month. Null: no limit.
    pub monthly_cap_usd: Option<f64>,
    /// Total spending of all judges under the limit.
    pub spent: Spent,
}

type MeterOf = fn(&JudgePace) -> &Meter;

impl Hold {
    /// Describes who set it, when, until when, and why.
    pub fn text(&self) -> String {
        let mut text = format!("by {} since {}", self.set_by, time(self.since));
        if let Some(until) = self.until {
            text.push_str(&format!(", until {}", time(until)));
        }
        if !self.message.is_empty() {
            text.push_str(&format!(": {}", self.message));
        }
        text
    }
}

impl Judge {
    /// Returns the provider entry: `gpt` for `gpt:mini`.
    pub fn entry(&self) -> &str {
        self.name.split(':').next().unwrap_or(&self.name)
    }

    /// Returns whether it is configured or named by criteria.
    pub fn is_used(&self) -> bool {
        self.configured || !self.kinds.is_empty()
    }

    /// Returns the reason that stops it. A spending limit over all judges stops only used judges.
    pub fn stop_reason(&self) -> Option<WaitReason> {
        let stops = |reason: &WaitReason| *reason != WaitReason::Budget || self.is_used();
        let held = self.hold.as_ref().map(|hold| hold.reason).filter(stops);
        held.or_else(|| self.gates.iter().find_map(|gate| gate.reason))
    }

    /// Returns the label of the stop reason, if the judge is used.
    pub fn stopped(&self) -> Option<&'static str> {
        match self.stop_reason() {
            Some(reason) => Some(reason.summary()),
            None => (!self.configured && self.is_used()).then_some("not configured"),
        }
    }

    /// Returns the number of failed calls, unless the judge is stopped.
    pub fn failing(&self) -> Option<Health> {
        let health = self.health();
        (matches!(health, Health::Fails(_)) && self.stopped().is_none()).then_some(health)
    }

    /// Returns whether its entry is stopped for the same reason and listed with it.
    pub fn is_stopped_with_its_entry(&self, judges: &[Judge]) -> bool {
        let entry = judges.iter().find(|judge| judge.name == self.entry());
        entry.is_some_and(|entry| {
            entry.name != self.name
                && entry.stopped().is_some()
                && entry.stopped() == self.stopped()
        })
    }

    /// Returns its state as a short label, and details: who stopped it, why and until when, or the missing configuration.
    pub fn state_text(&self) -> (String, String) {
        let gate = self.gates.iter().find(|gate| gate.reason.is_some());
        match (&self.hold, gate) {
            (Some(hold), _) => {
                let mut detail = hold.text();
                if hold.reason == WaitReason::Budget {
                    detail.push_str(". To continue before, raise the cap and restart the workers.");
                }
                (hold.reason.summary().to_owned(), detail)
            }
            (None, Some(gate)) => {
                let reason = gate.reason.filter(|_| gate.breaker == "closed");
                let state = reason.unwrap_or(WaitReason::BreakerOpen).summary();
                let until = gate.until.map(|until| format!("until {}", time(until)));
                (state.to_owned(), until.unwrap_or_default())
            }
            (None, None) if !self.configured => (
                "not configured".to_owned(),
                self.remedy.clone().unwrap_or_default(),
            ),
            (None, None) => match self.health() {
                health @ Health::Fails(_) => ("failing".to_owned(), health.to_string()),
                health @ (Health::Unasked | Health::Answers) => (health.to_string(), String::new()),
            },
        }
    }

    /// Describes the usage of the limits in the last minute over all workers, and active slowdowns. Empty without limits and usage.
    pub fn pace_text(&self) -> String {
        let paces = self.gates.iter().filter_map(|gate| gate.pace.as_ref());
        let paces: Vec<&JudgePace> = paces.collect();
        let together = paces.iter().any(|pace| pace.together);
        let meters: [(MeterOf, &str); 4] = [
            (|pace| &pace.requests, "requests"),
            (|pace| &pace.tokens, "tokens"),
            (|pace| &pace.input_tokens, "prompt tokens"),
            (|pace| &pace.output_tokens, "answer tokens"),
        ];
        let mut parts = Vec::new();
        for (at, (meter, name)) in meters.into_iter().enumerate() {
            let limits = paces.iter().filter_map(|pace| meter(pace).limit);
            // One limit for all workers, or one per worker.
            let limit = match together {
                true => limits.max(),
                false => limits.reduce(u64::saturating_add),
            };
            let used: u64 = paces.iter().map(|pace| meter(pace).used_last_minute).sum();
            match limit {
                Some(limit) => parts.push(format!(
                    "{} of {} {name}/min",
                    grouped(used),
                    grouped(limit)
                )),
                // Prompt and completion tokens are included in the tokens.
                None if used > 0 && at < 2 => parts.push(format!("{} {name}/min", grouped(used))),
                None => {}
            }
        }
        let slowed = paces.iter().filter_map(|pace| pace.shrunk_until).max();
        parts.extend(slowed.map(|until| format!("slowed by 429s until {}", time(until))));
        let held = paces.iter().filter_map(|pace| pace.held_until).max();
        parts.extend(held.map(|until| format!("used up until {}", time(until))));
        let workers = paces.iter().filter_map(|pace| pace.part_of).max();
        parts
            .extend(workers.map(|n| format!("Redis unavailable: each of {n} workers has a share")));
        parts.join("; ")
    }

    /// Returns the newest error reported by a live worker, with its time.
    pub fn last_error(&self) -> Option<(&str, Option<DateTime<Utc>>)> {
        let gates = self.gates.iter().filter(|gate| gate.last_error.is_some());
        let newest = gates.max_by_key(|gate| gate.last_error_at)?;
        Some((newest.last_error.as_deref()?, newest.last_error_at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judge(gates: &[Value]) -> Judge {
        let spent = json!({"today_usd": null, "month_usd": null, "today_unpriced_calls": 0, "unpriced_calls": 0});
        serde_json::from_value(json!({"name": "gpt", "configured": true, "remedy": null, "simulated": false, "kinds": [],
            "hold": null, "gates": gates, "spent": spent, "cap": null}))
        .expect("a judge")
    }

    #[test]
    fn pace_text_sums_workers_and_lists_slowdowns() {
        let gate = |limit: Value, used: u64, together: bool| {
            let meter = |limit: Value, used: u64| json!({"limit": limit, "configured": null, "learned": null, "used_last_minute": used});
            json!({"worker_id": Uuid::nil(), "breaker": "closed", "reason": null, "until": null, "failures_in_row": 0,
                "in_flight": 0, "last_error": null, "last_error_at": null, "updated_at": "2026-01-01T00:00:00Z", "pace": {
                    "requests": meter(limit, used), "tokens": meter(Value::Null, 100 * used), "input_tokens": meter(Value::Null, 0),
                    "output_tokens": meter(Value::Null, 0), "shrunk_until": null, "held_until": null, "together": together,
                    "part_of": null}})
        };
        let text = |gates: &[Value]| judge(gates).pace_text();
        assert_eq!(text(&[]), "");
        let own = [gate(json!(30), 12, false), gate(json!(30), 8, false)];
        assert_eq!(text(&own), "20 of 60 requests/min; 2,000 tokens/min");
        let mut shared = [gate(json!(30), 12, true), gate(json!(30), 8, true)];
        shared[0]["pace"]["shrunk_until"] = json!("2026-01-01T00:02:30Z");
        shared[1]["pace"]["part_of"] = json!(2);
        assert_eq!(
            text(&shared),
            "20 of 30 requests/min; 2,000 tokens/min; slowed by 429s until 2026-01-01 00:02:30 UTC; \
             Redis unavailable: each of 2 workers has a share"
        );
    }
}
