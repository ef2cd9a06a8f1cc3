//! Judges and what stops them, as `/api/v1/judges` lists them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::words::{grouped, time};
use crate::{Health, Kind, WaitReason};

/// A lane, or all of them, closed until somebody opens it or `until` passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hold {
    /// `paused` by an operator, `exhausted` or `misconfigured` by a worker that met it, `budget` by a cap that is reached.
    pub reason: WaitReason,
    /// The operator's or the provider's words.
    pub message: String,
    pub set_by: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// When it opens by itself; null: somebody must resume it.
    pub until: Option<DateTime<Utc>>,
}

/// What one worker's gate knows of a judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Gate {
    pub worker_id: Uuid,
    /// `closed` (calls go out), `open` or `half_open`.
    pub breaker: String,
    /// Why it lets nothing through now; null if it does.
    pub reason: Option<WaitReason>,
    /// When it lets calls through again, if known.
    pub until: Option<DateTime<Utc>>,
    /// Transient failures in a row.
    pub failures_in_row: i32,
    /// Calls in flight.
    pub in_flight: i32,
    /// The last error's text; it stays while the judge answers again.
    pub last_error: Option<String>,
    pub last_error_at: Option<DateTime<Utc>>,
    /// How fast it may be asked.
    pub pace: Option<JudgePace>,
    /// When the worker said so.
    pub updated_at: DateTime<Utc>,
}

/// One judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Judge {
    /// Its name: a provider entry, or `entry:model`.
    pub name: String,
    /// Whether it could be asked.
    pub configured: bool,
    /// What to do if it isn't.
    pub remedy: Option<String>,
    /// Whether its replies are made up.
    pub simulated: bool,
    /// The kinds whose current criteria name it.
    pub kinds: Vec<Kind>,
    /// The hold that stops its lane, if any.
    pub hold: Option<Hold>,
    /// What live workers know of it.
    pub gates: Vec<Gate>,
    pub spent: Spent,
    /// The cap of its entry, if it has one.
    pub cap: Option<Cap>,
}

/// Every judge, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Judges {
    pub items: Vec<Judge>,
    /// The hold that stops every lane, if any.
    pub queue_hold: Option<Hold>,
    /// What all judges cost.
    pub spent: Spent,
    /// The cap over all judges, if there is one.
    pub cap: Option<Cap>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// Why something is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PauseRequest {
    /// For those who wonder why nothing moves; at most 500 characters.
    #[schema(max_length = 500)]
    pub message: Option<String>,
    /// When it resumes by itself; left out: when somebody resumes it.
    pub until: Option<DateTime<Utc>>,
}

/// What is paused now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Paused {
    /// The hold that is set.
    pub hold: Hold,
}

/// What came of resuming a judge or the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Resumed {
    /// Whether there was a hold; false: nothing was paused.
    pub released: bool,
}

/// How fast a judge may be asked, as one worker process sees it. Where `together` is true the limits hold for all workers;
/// what a minute used is each worker's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JudgePace {
    pub requests: Meter,
    /// Tokens, of prompts and answers together.
    pub tokens: Meter,
    /// Tokens of prompts, where the server limits them apart.
    pub input_tokens: Meter,
    /// Tokens of answers, where the server limits them apart.
    pub output_tokens: Meter,
    /// Until when it is slower than that because the judge said 429; null: it isn't.
    pub shrunk_until: Option<DateTime<Utc>>,
    /// Until when nothing is asked because a reply said that nothing is left of a limit; null: something is.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether the limits hold for all workers together.
    pub together: bool,
    /// Redis is away, and each worker keeps to its part of the limits: among how many they are divided. Null: they aren't.
    pub part_of: Option<u32>,
}

/// One quantity that is limited by the minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Meter {
    /// The limit that holds now, a minute; null for none.
    pub limit: Option<u64>,
    /// The limit as configured; null for none.
    pub configured: Option<u64>,
    /// The limit as the server's replies say; null where they say none, or none that can be a minute's.
    pub learned: Option<u64>,
    /// What went out within the last minute.
    pub used_last_minute: u64,
}

/// What was spent, as far as prices are known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spent {
    /// USD of today's calls, by UTC; null where there are some and none has a price.
    pub today_usd: Option<f64>,
    /// USD of this month's calls, today's included; null where there are some and none has a price.
    pub month_usd: Option<f64>,
    /// Today's calls whose price is unknown: what they cost comes on top.
    pub today_unpriced_calls: i64,
    /// This month's calls whose price is unknown: what they cost comes on top.
    pub unpriced_calls: i64,
}

/// A cap, and what was spent of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Cap {
    /// The provider entry whose judges it stops; null: all of them.
    pub entry: Option<String>,
    /// USD that may be spent in a day of UTC; null: no such cap.
    pub daily_cap_usd: Option<f64>,
    /// USD that may be spent in a month of UTC; null: no such cap.
    pub monthly_cap_usd: Option<f64>,
    /// What all judges that it is of spent together.
    pub spent: Spent,
}

/// One of the meters of a pace.
type MeterOf = fn(&JudgePace) -> &Meter;

impl Hold {
    /// Who set it, since when, until when, and why.
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
    /// The entry of the providers' file: `gpt` of `gpt:mini`.
    pub fn entry(&self) -> &str {
        self.name.split(':').next().unwrap_or(&self.name)
    }

    /// Whether it is set up, or named by criteria.
    pub fn is_used(&self) -> bool {
        self.configured || !self.kinds.is_empty()
    }

    /// The reason that stops it. A cap over all judges stops only those that are used.
    pub fn stop_reason(&self) -> Option<WaitReason> {
        let stops = |reason: &WaitReason| *reason != WaitReason::Budget || self.is_used();
        let held = self.hold.as_ref().map(|hold| hold.reason).filter(stops);
        held.or_else(|| self.gates.iter().find_map(|gate| gate.reason))
    }

    /// Why it lets nothing through, if it is used.
    pub fn stopped(&self) -> Option<&'static str> {
        match self.stop_reason() {
            Some(reason) => Some(reason.summary()),
            None => (!self.configured && self.is_used()).then_some("not configured"),
        }
    }

    /// How many of its calls failed, unless it is stopped.
    pub fn failing(&self) -> Option<Health> {
        let health = self.health();
        (matches!(health, Health::Fails(_)) && self.stopped().is_none()).then_some(health)
    }

    /// Whether its entry is stopped for the same reason, and is listed with it.
    pub fn is_stopped_with_its_entry(&self, judges: &[Judge]) -> bool {
        let entry = judges.iter().find(|judge| judge.name == self.entry());
        entry.is_some_and(|entry| {
            entry.name != self.name
                && entry.stopped().is_some()
                && entry.stopped() == self.stopped()
        })
    }

    /// Its state in a few words, and the details: who stopped it, why and until when, or what to set up.
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

    /// What the last minute used of the limits, over all workers, and what slows them down. Empty where nothing is limited or used.
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
            // One limit for all workers, or one for each.
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
                // Prompts and answers are counted in the tokens.
                None if used > 0 && at < 2 => parts.push(format!("{} {name}/min", grouped(used))),
                None => {}
            }
        }
        let slowed = paces.iter().filter_map(|pace| pace.shrunk_until).max();
        parts.extend(slowed.map(|until| format!("slowed by 429s until {}", time(until))));
        let held = paces.iter().filter_map(|pace| pace.held_until).max();
        parts.extend(held.map(|until| format!("used up until {}", time(until))));
        let workers = paces.iter().filter_map(|pace| pace.part_of).max();
        parts.extend(workers.map(|n| format!("Redis is away: each of {n} workers has a part")));
        parts.join("; ")
    }

    /// The newest error that a live worker knows of, with its time.
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
    fn pace_text_sums_workers_and_names_what_slows_them() {
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
             Redis is away: each of 2 workers has a part"
        );
    }
}
