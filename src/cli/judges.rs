//! `gavel judges`: who can be asked, and the brake of each.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::Global;
use super::costs::{usd, without_price};
use super::outcome::{CliError, Exit};
use super::output::{self, cell};
use super::reach::{Common, Needs, Reached};
use crate::client::list;

/// List, pause and resume judges
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel judges list\n  gavel judges pause openai-default\n  gavel judges resume openai-default"
)]
pub(super) struct Judges {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List judges: breaker, brakes, what they spent and may spend, pace, last error
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
        match &self.what {
            What::List(common) => {
                let command = async |reached: Reached<'_>| {
                    let judges = reached.client.judges().await?;
                    if common.json {
                        output::json(&judges)?;
                    } else {
                        print(&judges)?;
                    }
                    Ok(Exit::Done)
                };
                common.reach.run(global, Needs::Existing, command).await
            }
            What::Pause { name, common } => brake(global, common, name, "pause").await,
            What::Resume { name, common } => brake(global, common, name, "resume").await,
        }
    }
}

async fn brake(global: &Global, common: &Common, name: &str, verb: &str) -> Result<Exit, CliError> {
    let command = async |reached: Reached<'_>| {
        let answer = reached.client.brake_judge(name, verb).await?;
        if common.json {
            output::json(&answer)?;
        } else {
            output::line(&format!("judge {name}: {verb}d"))?;
        }
        Ok(Exit::Done)
    };
    common.reach.run(global, Needs::Existing, command).await
}

/// The newest error that any worker knows of, with its time.
fn last_error(gates: &[Value]) -> String {
    let with_error = gates.iter().filter(|gate| gate["last_error"].is_string());
    // Times of one form and zone: their texts sort as they do.
    let newest = with_error.max_by_key(|gate| cell(gate, "/last_error_at"));
    newest.map_or_else(String::new, |gate| {
        let (said, at) = (cell(gate, "/last_error"), cell(gate, "/last_error_at"));
        match at.as_str() {
            "" => said,
            at => format!("{said} ({at})"),
        }
    })
}

/// Prints the table of judges: their brakes, and what live workers know of each.
pub(super) fn print(judges: &Value) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for judge in list(judges, "/items") {
        let gates = list(judge, "/gates");
        let stopped = match cell(judge, "/brake/reason").as_str() {
            "" => String::new(),
            reason => format!(
                "{reason} by {}: {}",
                cell(judge, "/brake/set_by"),
                cell(judge, "/brake/message")
            ),
        };
        let known = |pointer: &str| {
            let mut values: Vec<String> = gates.iter().map(|gate| cell(gate, pointer)).collect();
            values.retain(|value| !value.is_empty());
            values.sort();
            values.dedup();
            values.join("; ")
        };
        let in_flight: i64 = gates
            .iter()
            .filter_map(|gate| gate["in_flight"].as_i64())
            .sum();
        rows.push(vec![
            cell(judge, "/name"),
            if judge["configured"] == Value::Bool(false) {
                cell(judge, "/remedy")
            } else {
                stopped
            },
            known("/breaker"),
            known("/reason"),
            known("/until"),
            in_flight.to_string(),
            spent(judge),
            pace(gates),
            last_error(gates),
        ]);
    }
    let head = [
        "judge",
        "stopped",
        "breaker",
        "waits for",
        "until",
        "in flight",
        "spent",
        "pace",
        "last error",
    ];
    output::table(&head, &rows)?;
    Ok(())
}

/// What a judge spent today and this month; where its entry has a cap, what the entry spent of it.
fn spent(judge: &Value) -> String {
    let cap = &judge["cap"];
    let spent = if cap.is_null() {
        &judge["spent"]
    } else {
        &cap["spent"]
    };
    if spent["month_usd"] == 0.0 && cap.is_null() {
        return String::new();
    }
    let part = |period: &str, unpriced: &str, cap: &Value| {
        let known = &spent[format!("{period}_usd")];
        let unpriced = spent[unpriced].as_u64().unwrap_or(0);
        let lacking = without_price(unpriced);
        let least = if unpriced > 0 && known.is_number() {
            "at least "
        } else {
            ""
        };
        let of = cap
            .as_f64()
            .map_or(String::new(), |usd| format!(" of {usd} USD"));
        format!("{period} {least}{}{of}{lacking}", usd(known))
    };
    let today = part("today", "today_unpriced_calls", &cap["daily_cap_usd"]);
    let month = part("month", "unpriced_calls", &cap["monthly_cap_usd"]);
    format!("{today}; {month}")
}

/// What the workers' paces come to: used and allowed in a minute, over all of them, and what slows them down. Empty where
/// nothing is limited.
fn pace(gates: &[Value]) -> String {
    let sum = |pointer: &str| {
        let figures = gates
            .iter()
            .filter_map(|gate| gate.pointer(pointer)?.as_u64());
        figures.reduce(u64::saturating_add)
    };
    let together = gates
        .iter()
        .any(|gate| gate.pointer("/pace/together") == Some(&Value::Bool(true)));
    let meters = [
        ("requests", "requests"),
        ("tokens", "tokens"),
        ("input_tokens", "prompt tokens"),
        ("output_tokens", "answer tokens"),
    ];
    let mut parts: Vec<String> = meters
        .into_iter()
        .filter_map(|(meter, name)| {
            let limit = format!("/pace/{meter}/limit");
            // One limit for all of them, or each its own.
            let limit = match together {
                true => gates
                    .iter()
                    .filter_map(|gate| gate.pointer(&limit)?.as_u64())
                    .max()?,
                false => sum(&limit)?,
            };
            let used = sum(&format!("/pace/{meter}/used_last_minute")).unwrap_or(0);
            Some(format!("{used} of {limit} {name}/min"))
        })
        .collect();
    for (field, why) in [
        ("shrunk_until", "slowed by 429s"),
        ("held_until", "used up"),
    ] {
        let until = gates
            .iter()
            .filter_map(|gate| gate.pointer(&format!("/pace/{field}"))?.as_str())
            .max();
        parts.extend(until.map(|until| format!("{why} until {until}")));
    }
    let workers = gates
        .iter()
        .filter_map(|gate| gate.pointer("/pace/part_of")?.as_u64());
    parts.extend(
        workers
            .max()
            .map(|workers| format!("Redis is away: a part of {workers} each")),
    );
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_entry_spent_stands_beside_its_cap() {
        let own = json!({ "today_usd": 0.5, "month_usd": 1.0, "unpriced_calls": 0 });
        let all = json!({ "today_usd": 2.0, "month_usd": 3.0, "unpriced_calls": 0 });
        let capped = json!({ "spent": own, "cap": { "daily_cap_usd": 10.0, "monthly_cap_usd": null, "spent": all } });
        assert_eq!(spent(&capped), "today 2.0000 of 10 USD; month 3.0000");
        let free = json!({ "spent": own, "cap": null });
        assert_eq!(spent(&free), "today 0.5000; month 1.0000");
        let unknown = json!({ "spent": { "today_usd": null, "month_usd": null }, "cap": null });
        assert_eq!(spent(&unknown), "today unknown; month unknown");
        let lately = json!({ "spent": { "today_usd": null, "today_unpriced_calls": 3, "month_usd": 1.0, "unpriced_calls": 3 } });
        assert_eq!(
            spent(&lately),
            "today unknown (3 calls without a price); month at least 1.0000 (3 calls without a price)"
        );
        let unasked = json!({ "spent": { "today_usd": 0.0, "month_usd": 0.0 }, "cap": null });
        assert_eq!(spent(&unasked), "");
    }

    #[test]
    fn a_pace_adds_up_the_workers_and_says_what_slows_them() {
        let gate = |used: u64| {
            json!({ "pace": {
                "requests": { "limit": 30, "used_last_minute": used },
                "tokens": { "limit": null, "used_last_minute": 9_000 },
                "shrunk_until": "2026-01-01T00:02:30Z",
            }})
        };
        let expected = "41 of 60 requests/min; slowed by 429s until 2026-01-01T00:02:30Z";
        assert_eq!(pace(&[gate(29), gate(12)]), expected);
        let mut shared = gate(12);
        shared["pace"]["together"] = json!(true);
        let expected = "24 of 30 requests/min; slowed by 429s until 2026-01-01T00:02:30Z";
        assert_eq!(pace(&[shared.clone(), shared]), expected);
        assert_eq!(pace(&[json!({ "pace": null })]), "");
    }
}
