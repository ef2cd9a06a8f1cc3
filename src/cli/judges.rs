//! `gavel judges`: who can be asked, and the hold of each.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};

use super::Global;
use super::connection::Common;
use super::costs::{usd, without_price};
use super::outcome::{CliError, Exit};
use super::output::{self, OneLine, Printed, time};
use crate::client::Client;
use crate::wire::{Gate, Judge, JudgePace, Judges as Listed, Meter};

/// List, pause and resume judges
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel judges list\n  gavel judges pause openai-default\n  gavel judges resume openai-default"
)]
pub(super) struct Judges {
    #[command(subcommand)]
    command: JudgesCommand,
}

#[derive(Debug, Subcommand)]
enum JudgesCommand {
    /// List judges: breaker, holds, what they spent and may spend, pace, last error
    List(Common),
    /// Stop asking a judge; its jobs wait, all others go on
    Pause {
        /// The judge's name
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Ask a judge again: opens a pause, a used-up quota or a refused key; a cap that is reached stays
    Resume {
        /// The judge's name
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

impl Judges {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.command {
            JudgesCommand::List(common) => {
                let list = async |client: &Client| client.judges().await;
                common.print(global, list).await
            }
            JudgesCommand::Pause { name, common } => {
                let words = format!("judge {name}: paused; every worker knows within a second");
                let said = OneLine::done(words);
                let pause = async |client: &Client| client.pause_judge(name).await.map(said);
                common.print(global, pause).await
            }
            JudgesCommand::Resume { name, common } => {
                let what = format!("judge {name}");
                let said = OneLine::resumed(&what);
                let resume = async |client: &Client| client.resume_judge(name).await.map(said);
                common.print(global, resume).await
            }
        }
    }
}

impl Printed for Listed {
    fn print(&self) -> Result<(), CliError> {
        print(&self.items)
    }
}

/// The newest error that any worker knows of, with its time.
fn last_error(gates: &[Gate]) -> String {
    let with_error = gates.iter().filter(|gate| gate.last_error.is_some());
    let newest = with_error.max_by_key(|gate| gate.last_error_at);
    let said = newest.and_then(|gate| gate.last_error.clone());
    let at = newest.and_then(|gate| gate.last_error_at);
    match (said, at) {
        (Some(said), Some(at)) => format!("{said} ({})", time(at)),
        (said, _) => said.unwrap_or_default(),
    }
}

/// What the gates say of a thing, each answer once.
fn known(gates: &[Gate], of: impl Fn(&Gate) -> Option<String>) -> String {
    let said: BTreeSet<String> = gates.iter().filter_map(of).collect();
    said.into_iter().collect::<Vec<_>>().join("; ")
}

/// Prints the table of judges: their holds, and what live workers know of each.
pub(super) fn print(judges: &[Judge]) -> Result<(), CliError> {
    let row = |judge: &Judge| {
        let calls: i32 = judge.gates.iter().map(|gate| gate.in_flight).sum();
        vec![judge.name.clone(), state(judge), calls.to_string()]
    };
    let shown: Vec<&Judge> = judges.iter().filter(|judge| is_shown(judge)).collect();
    output::table(
        &["judge", "state", "in flight"],
        shown.iter().copied().map(row),
    )?;
    for judge in shown {
        let facts = [
            ("spent", spent(judge)),
            ("pace", pace(&judge.gates)),
            ("last error", last_error(&judge.gates)),
        ];
        for (name, said) in facts.iter().filter(|(_, said)| !said.is_empty()) {
            output::line(&output::clean(&format!("{}: {name}: {said}", judge.name)))?;
        }
    }
    Ok(())
}

/// Another model of an entry is shown where there is something to say of it: it shares the entry's key.
fn is_shown(judge: &Judge) -> bool {
    let is_used = !judge.kinds.is_empty() || !judge.gates.is_empty() || judge.hold.is_some();
    is_used || !judge.name.contains(':') || !spent(judge).is_empty()
}

/// Whether a judge can be asked, else why not and until when.
fn state(judge: &Judge) -> String {
    let gates = judge.gates.as_slice();
    let until = known(gates, |gate| gate.until.map(time));
    match (&judge.remedy, &judge.hold) {
        (Some(remedy), None) if !judge.configured => remedy.clone(),
        (Some(remedy), Some(hold)) if !judge.configured => {
            format!("{remedy}; and {} by {}", hold.reason, hold.set_by)
        }
        (_, Some(hold)) if hold.message.is_empty() => format!("{} by {}", hold.reason, hold.set_by),
        (_, Some(hold)) => format!("{} by {}: {}", hold.reason, hold.set_by, hold.message),
        (_, None) => {
            let mut said = known(gates, |gate| gate.reason.map(|reason| reason.to_string()));
            if !until.is_empty() {
                said.push_str(&format!(" until {until}"));
            }
            match said.is_empty() {
                true => judge.health().to_string(),
                false => said,
            }
        }
    }
}

/// What a judge spent today and this month; where its entry has a cap, what the entry spent of it.
fn spent(judge: &Judge) -> String {
    let cap = judge.cap.as_ref();
    let spent = cap.map_or(&judge.spent, |cap| &cap.spent);
    if spent.month_usd == Some(0.0) && cap.is_none() {
        return String::new();
    }
    let part = |period: &str, known: Option<f64>, unpriced: i64, cap: Option<f64>| {
        let unpriced = u64::try_from(unpriced).unwrap_or(0);
        let lacking = without_price(unpriced);
        let least = match unpriced > 0 && known.is_some() {
            true => "at least ",
            false => "",
        };
        let of = cap.map_or(String::new(), |usd| format!(" of {usd} USD"));
        format!("{period} {least}{}{of}{lacking}", usd(known))
    };
    let (daily, monthly) = (
        cap.and_then(|cap| cap.daily_cap_usd),
        cap.and_then(|cap| cap.monthly_cap_usd),
    );
    let today = part("today", spent.today_usd, spent.today_unpriced_calls, daily);
    let month = part("month", spent.month_usd, spent.unpriced_calls, monthly);
    format!("{today}; {month}")
}

/// One of a pace's meters.
type MeterOf = fn(&JudgePace) -> &Meter;

/// What the workers' paces come to: used and allowed in a minute, over all of them, and what slows them down. Empty where
/// nothing is limited.
fn pace(gates: &[Gate]) -> String {
    let paces: Vec<&JudgePace> = gates.iter().filter_map(|gate| gate.pace.as_ref()).collect();
    let together = paces.iter().any(|pace| pace.together);
    let meters: [(MeterOf, &str); 4] = [
        (|pace| &pace.requests, "requests"),
        (|pace| &pace.tokens, "tokens"),
        (|pace| &pace.input_tokens, "prompt tokens"),
        (|pace| &pace.output_tokens, "answer tokens"),
    ];
    let mut parts = Vec::new();
    for (meter, name) in meters {
        let limits = paces.iter().filter_map(|pace| meter(pace).limit);
        // One limit for all of them, or each its own.
        let limit = match together {
            true => limits.max(),
            false => limits.reduce(u64::saturating_add),
        };
        let used: u64 = paces.iter().map(|pace| meter(pace).used_last_minute).sum();
        parts.extend(limit.map(|limit| format!("{used} of {limit} {name}/min")));
    }
    let shrunk = paces.iter().filter_map(|pace| pace.shrunk_until).max();
    parts.extend(shrunk.map(|until| format!("slowed by 429s until {}", time(until))));
    let held = paces.iter().filter_map(|pace| pace.held_until).max();
    parts.extend(held.map(|until| format!("used up until {}", time(until))));
    let workers = paces.iter().filter_map(|pace| pace.part_of).max();
    parts.extend(workers.map(|workers| format!("Redis is away: a part of {workers} each")));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judge(spent: &Value, cap: &Value) -> Judge {
        serde_json::from_value(json!({ "name": "gpt", "configured": true, "remedy": null, "simulated": false, "kinds": [],
            "hold": null, "gates": [], "spent": spent, "cap": cap }))
        .unwrap()
    }

    #[test]
    fn what_an_entry_spent_stands_beside_its_cap() {
        let sum = |today: Value, today_unpriced: u64, month: Value, unpriced: u64| json!({ "today_usd": today, "today_unpriced_calls": today_unpriced, "month_usd": month, "unpriced_calls": unpriced });
        let all = sum(json!(2.0), 0, json!(3.0), 0);
        let cap =
            json!({ "entry": "gpt", "daily_cap_usd": 10.0, "monthly_cap_usd": null, "spent": all });
        for (own, cap, told) in [
            (
                sum(json!(0.5), 0, json!(1.0), 0),
                cap,
                "today 2.0000 of 10 USD; month 3.0000",
            ),
            (
                sum(json!(0.5), 0, json!(1.0), 0),
                Value::Null,
                "today 0.5000; month 1.0000",
            ),
            (
                sum(Value::Null, 0, Value::Null, 0),
                Value::Null,
                "today unknown; month unknown",
            ),
            (
                sum(Value::Null, 3, json!(1.0), 3),
                Value::Null,
                "today unknown (3 calls without a price); month at least 1.0000 (3 calls without a price)",
            ),
            (sum(json!(0.0), 0, json!(0.0), 0), Value::Null, ""),
        ] {
            assert_eq!(spent(&judge(&own, &cap)), told);
        }
    }

    #[test]
    fn a_pace_adds_up_the_workers_and_says_what_slows_them() {
        let meter = |limit: Value, used: u64| json!({ "limit": limit, "configured": null, "learned": null, "used_last_minute": used });
        let gate = |used: u64, together: bool| -> Gate {
            serde_json::from_value(json!({ "worker_id": uuid::Uuid::nil(), "breaker": "closed", "reason": null, "until": null,
                "failures_in_row": 0, "in_flight": 0, "last_error": null, "last_error_at": null, "updated_at": "2026-01-01T00:00:00Z",
                "pace": {
                    "requests": meter(json!(30), used),
                    "tokens": meter(Value::Null, 9_000),
                    "input_tokens": meter(Value::Null, 0),
                    "output_tokens": meter(Value::Null, 0),
                    "shrunk_until": "2026-01-01T00:02:30Z", "held_until": null, "together": together, "part_of": null,
                }}))
            .unwrap()
        };
        let expected = "41 of 60 requests/min; slowed by 429s until 2026-01-01T00:02:30Z";
        assert_eq!(pace(&[gate(29, false), gate(12, false)]), expected);
        let expected = "24 of 30 requests/min; slowed by 429s until 2026-01-01T00:02:30Z";
        assert_eq!(pace(&[gate(12, true), gate(12, true)]), expected);
        assert_eq!(pace(&[]), "");
    }
}
