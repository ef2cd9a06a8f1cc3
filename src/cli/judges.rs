//! `gavel judges` and `gavel queue`: judges, contents of the queue, and holds on both.

use clap::Subcommand;

use super::Global;
use super::analytics::{usd, without_price};
use super::connection::Common;
use super::outcome::{CliError, Exit};
use super::output::{Column, Printable, Row, Text, WithText, or_empty, time};
use crate::client::Client;
use crate::wire::{self, Judge, Judges as Listed, WorkerState, words};

/// List, pause and resume judges
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  gavel judges list\n  gavel judges pause openai-default\n  gavel judges resume openai-default"
)]
pub(super) enum Judges {
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
        match self {
            Self::List(common) => common.print(global, Client::judges).await,
            Self::Pause { name, common } => {
                let text = format!("judge {name}: paused; every worker knows within a second");
                let pause = async |client: &Client| {
                    let paused = client.pause_judge(name).await?;
                    Ok(WithText::line(paused, text))
                };
                common.print(global, pause).await
            }
            Self::Resume { name, common } => {
                let resume = async |client: &Client| {
                    let resumed = client.resume_judge(name).await?;
                    Ok(WithText::resumed(resumed, &format!("judge {name}")))
                };
                common.print(global, resume).await
            }
        }
    }
}

impl Printable for Listed {
    fn text(&self, out: &mut Text) {
        print_judges(&self.items, out);
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
fn print_judges(judges: &[Judge], out: &mut Text) {
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

/// Finds a judge by its name, by its entry's name, or by the model name of the default entry.
pub(super) fn find<'a>(judges: &'a [Judge], name: &str) -> Option<&'a Judge> {
    let first = |is_it: &dyn Fn(&str) -> bool| judges.iter().find(|known| is_it(&known.name));
    let model = format!(":{name}");
    first(&|known| known == name)
        .or_else(|| first(&|known| Some(known) == name.split(':').next()))
        .or_else(|| first(&|known| known.ends_with(&model)))
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

/// Show, pause and resume the queue
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  gavel queue status\n  gavel queue pause    # running jobs finish, no other starts\n  gavel queue resume"
)]
pub(super) enum Queue {
    /// Show the queue's hold, its jobs by state, workers and judges
    #[command(visible_alias = "show")]
    Status(Common),
    /// Start no more jobs; running ones finish
    Pause(Common),
    /// Start jobs again
    Resume(Common),
}

impl Queue {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::Status(common) => {
                let ask = async |client: &Client| {
                    let (queue, workers, judges) =
                        tokio::try_join!(client.queue(), client.workers(), client.judges())?;
                    Ok(Status {
                        queue,
                        workers: workers.items,
                        judges: judges.items,
                    })
                };
                common.print(global, ask).await
            }
            Self::Pause(common) => {
                let text = "queue: paused; every worker knows within a second";
                let pause =
                    async |client: &Client| Ok(WithText::line(client.pause_queue().await?, text));
                common.print(global, pause).await
            }
            Self::Resume(common) => {
                let resume = async |client: &Client| {
                    Ok(WithText::resumed(client.resume_queue().await?, "queue"))
                };
                common.print(global, resume).await
            }
        }
    }
}

#[derive(serde::Serialize)]
struct Status {
    queue: wire::Queue,
    workers: Vec<wire::Worker>,
    judges: Vec<wire::Judge>,
}

impl Printable for Status {
    fn text(&self, out: &mut Text) {
        let queue = &self.queue;
        out.line(match &queue.hold {
            None => "the queue is open".to_owned(),
            Some(hold) => format!("the queue is {} {}", hold.reason, hold.text()),
        });
        let counts = &queue.counts;
        out.line(format!(
            "jobs: {} queued, {} running, {} waiting; in the last 24 h {} succeeded, {} failed, {} cancelled",
            counts.queued,
            counts.running,
            counts.waiting,
            counts.succeeded_24h,
            counts.failed_24h,
            counts.cancelled_24h,
        ));
        out.rows(&self.workers);
        print_judges(&self.judges, out);
    }
}

impl Row for wire::Worker {
    const COLUMNS: &'static [Column<Self>] = &[
        ("worker", |it| it.name.clone()),
        ("state", |it| {
            // The jobs of a silent worker have been claimed by others.
            match it.alive || it.state == WorkerState::Stopped {
                true => it.state.to_string(),
                false => "silent".to_owned(),
            }
        }),
        ("in hand", |it| or_empty(it.alive.then_some(it.in_hand))),
        ("heard", |it| time(it.heartbeat_at)),
        ("version", |it| it.version.clone()),
    ];
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

    #[test]
    fn finds_judge_by_own_name_first() {
        let spent = json!({"today_usd": 0.0, "month_usd": 0.0, "today_unpriced_calls": 0, "unpriced_calls": 0});
        let judge = |name: &str| Judge {
            name: name.to_owned(),
            ..judge(&spent, &Value::Null)
        };
        let judges = ["azure:gpt-4o", "main", "main:small", "gpt-4o"].map(judge);
        let found = |name| find(&judges, name).map(|judge| judge.name.as_str());
        assert_eq!(found("main:small"), Some("main:small"));
        assert_eq!(found("main:unknown"), Some("main"));
        assert_eq!(found("gpt-4o"), Some("gpt-4o"));
        assert_eq!(found("small"), Some("main:small"));
        assert_eq!(found("other"), None);
    }
}
