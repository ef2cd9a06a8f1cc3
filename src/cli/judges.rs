//! `gavel judges`: judges and their holds.

use clap::{Args, Subcommand};

use super::Global;
use super::connection::Common;
use super::costs::{usd, without_price};
use super::outcome::{CliError, Exit};
use super::output::{Column, OneLine, Printable, Row, Text};
use crate::client::Client;
use crate::wire::{Judge, Judges as Listed, words};

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
    /// List judges with breaker, holds, cost and caps, rate limits and last error
    List(Common),
    /// Stop calling a judge; its jobs wait, all others continue
    Pause {
        /// Name of the judge
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Call a judge again: ends a pause, and a hold by quota or rejected key, but not by a reached cap
    Resume {
        /// Name of the judge
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

impl Printable for Listed {
    fn text(&self, out: &mut Text) {
        text(&self.items, out);
    }
}

impl Row for Judge {
    const COLUMNS: &'static [Column<Self>] = &[
        ("judge", |it| it.name.clone()),
        ("state", |it| it.state_text().0),
        ("", |it| it.state_text().1),
        ("in flight", |it| {
            let calls: i32 = it.gates.iter().map(|gate| gate.in_flight).sum();
            calls.to_string()
        }),
    ];
}

fn last_error(judge: &Judge) -> String {
    match judge.last_error() {
        Some((error, Some(at))) => format!("{error} ({})", words::time(at)),
        Some((error, None)) => error.to_owned(),
        None => String::new(),
    }
}

/// Adds the table of judges, and notes about each.
pub(super) fn text(judges: &[Judge], out: &mut Text) {
    let shown = || judges.iter().filter(|judge| is_shown(judge));
    out.rows(shown());
    for judge in shown() {
        let facts = [
            ("spent", spent(judge)),
            ("pace", judge.pace_text()),
            ("last error", last_error(judge)),
        ];
        for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
            out.line(format!("{}: {name}: {text}", judge.name));
        }
    }
}

/// Another model of an entry is only shown if it has data, because it shares the entry's key.
fn is_shown(judge: &Judge) -> bool {
    let is_used = !judge.kinds.is_empty() || !judge.gates.is_empty() || judge.hold.is_some();
    is_used || !judge.name.contains(':') || !spent(judge).is_empty()
}

/// Cost of a judge today and this month. If its entry has a cap, the entry's cost and the cap.
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
    fn shows_entry_cost_next_to_cap() {
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
}
