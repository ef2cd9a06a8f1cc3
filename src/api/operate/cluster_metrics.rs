//! Cluster metrics in `/metrics`: jobs, workers, judges, calls and cost, read from the store.
//!
//! All API processes return the same values, so that one scrape target is enough. Values are cached between scrapes,
//! longer if reading was slow: reading uses at most a twentieth of the time, regardless of the number of jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::exposition::{Family, MetricType};
use crate::api::ApiState;
use crate::store::{Aged, Expired, HoldTarget, JudgeRow, JudgeTotal, StoreError, WorkerRow};
use crate::wire::WorkerState;

const MIN_CACHE_TIME: Duration = Duration::from_secs(5);
/// Timeout of reading. Scrapes time out after 10 s.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of judges and lanes with a label. The rest is `other`.
const MAX_LABEL_NAMES: usize = 100;
/// Workers with an older heartbeat are omitted.
const DEAD_WORKER_AGE: TimeDelta = TimeDelta::minutes(10);

#[derive(Default)]
pub(crate) struct ClusterMetrics(Mutex<Option<CachedText>>);

struct CachedText {
    /// `None`: reading failed.
    text: Option<String>,
    at: Instant,
    took: Duration,
}

impl ClusterMetrics {
    /// Returns the metrics in Prometheus text format. If the database is unavailable, they are omitted and `gavel_cluster_up` is 0.
    pub(crate) async fn render(&self, state: &ApiState) -> String {
        let mut kept = self.0.lock().await;
        let fresh = kept
            .as_ref()
            .filter(|kept| kept.at.elapsed() < MIN_CACHE_TIME.max(kept.took * 20));
        let age = fresh.map_or(Duration::ZERO, |kept| kept.at.elapsed());
        let figures = match fresh {
            Some(fresh) => fresh.text.clone(),
            None => {
                let began = Instant::now();
                let text = read(state).await;
                *kept = Some(CachedText {
                    text: text.clone(),
                    at: Instant::now(),
                    took: began.elapsed(),
                });
                text
            }
        };
        let mut text = String::new();
        up(&mut text, figures.is_some(), age);
        text.push_str(&figures.unwrap_or_default());
        text
    }
}

fn up(text: &mut String, up: bool, age: Duration) {
    let mut answered = Family::new(
        "gavel_cluster_up",
        MetricType::Gauge,
        "1 if the gavel_cluster_ metrics could be read from the database, else 0.",
    );
    answered.add(&[], f64::from(u8::from(up)));
    answered.write(text);
    let mut old = Family::new(
        "gavel_cluster_age_seconds",
        MetricType::Gauge,
        "Age of the gavel_cluster_ metrics.",
    );
    old.add(&[], age.as_secs_f64());
    old.write(text);
}

async fn read(state: &ApiState) -> Option<String> {
    match tokio::time::timeout(TIMEOUT, figures(state)).await {
        Ok(Ok(text)) => Some(text),
        Ok(Err(error)) => {
            tracing::warn!(%error, "cluster metrics unavailable");
            None
        }
        Err(_) => {
            tracing::warn!(timeout = ?TIMEOUT, "cluster metrics unavailable: database timed out");
            None
        }
    }
}

async fn figures(state: &ApiState) -> Result<String, StoreError> {
    let mut text = String::new();
    let now = state.clock.now();
    jobs(&mut text, state, now).await?;
    let workers = state.store.workers().list().await?;
    write_workers(&mut text, &workers, now);
    holds(&mut text, state, now).await?;
    rejected_limits(&mut text, &state.store.retention().refused().await?);
    let judges = state.store.judges().list().await?;
    write_judges(&mut text, &judges);
    write_totals(&mut text, &state.store.judges().totals().await?);
    Ok(text)
}

/// Names with a separate label: the first ones seen.
#[derive(Default)]
struct LabelNames(BTreeSet<String>);

impl LabelNames {
    fn label<'a>(&mut self, name: &'a str) -> &'a str {
        if self.0.contains(name) {
            return name;
        }
        if self.0.len() == MAX_LABEL_NAMES {
            return "other";
        }
        self.0.insert(name.to_owned());
        name
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts beyond 2^53 jobs, calls or tokens may lose their last digit"
)]
fn float(count: i64) -> f64 {
    count as f64
}

async fn jobs(text: &mut String, state: &ApiState, now: DateTime<Utc>) -> Result<(), StoreError> {
    let mut depth = Family::new(
        "gavel_cluster_jobs",
        MetricType::Gauge,
        "Jobs that have not ended.",
    );
    let mut oldest = Family::new(
        "gavel_cluster_oldest_job_seconds",
        MetricType::Gauge,
        "Age of the oldest job that is due (queued), running or waiting.",
    );
    let mut names = LabelNames::default();
    for figure in state.store.jobs().figures().await? {
        let labels = [
            ("lane", names.label(&figure.lane)),
            ("priority", figure.priority.as_str()),
            ("state", figure.state.as_str()),
        ];
        depth.add(&labels, float(figure.jobs));
        if let Some(since) = figure.oldest {
            oldest.raise(&labels, seconds(now - since));
        }
    }
    depth.write(text);
    oldest.write(text);
    Ok(())
}

fn seconds(span: TimeDelta) -> f64 {
    span.to_std().map_or(0.0, |span| span.as_secs_f64())
}

fn write_workers(text: &mut String, workers: &[WorkerRow], now: DateTime<Utc>) {
    let mut count = Family::new(
        "gavel_cluster_workers",
        MetricType::Gauge,
        "Workers: running, draining, or silent (lease expired, last heartbeat within 10 minutes).",
    );
    let mut in_hand = Family::new(
        "gavel_cluster_jobs_in_hand",
        MetricType::Gauge,
        "Jobs that live workers are running.",
    );
    for state in ["running", "draining", "silent"] {
        count.add(&[("state", state)], 0.0);
    }
    in_hand.add(&[], 0.0);
    for worker in workers {
        let state = match (worker.alive, worker.state) {
            (_, WorkerState::Stopped) => continue,
            (true, state) => state.as_str(),
            (false, _) if now - worker.heartbeat_at < DEAD_WORKER_AGE => "silent",
            (false, _) => continue,
        };
        count.add(&[("state", state)], 1.0);
        if worker.alive {
            in_hand.add(&[], f64::from(worker.in_hand));
        }
    }
    count.write(text);
    in_hand.write(text);
}

async fn holds(text: &mut String, state: &ApiState, now: DateTime<Utc>) -> Result<(), StoreError> {
    let mut stopped = Family::new(
        "gavel_cluster_stopped",
        MetricType::Gauge,
        "1 for each judge, or the entire queue (judge is empty), that a user, a cap or a rejection has stopped.",
    );
    let mut names = LabelNames::default();
    for hold in state.store.holds().list(now).await? {
        let judge = match &hold.target {
            HoldTarget::Queue => "",
            HoldTarget::Judge(name) => names.label(name),
        };
        stopped.raise(&[("judge", judge), ("reason", hold.reason.as_str())], 1.0);
    }
    stopped.write(text);
    Ok(())
}

fn rejected_limits(text: &mut String, refused: &[Expired]) {
    let mut stopped = Family::new(
        "gavel_cluster_retention_stopped",
        MetricType::Gauge,
        "1 for each kind of rows that retention doesn't delete until an operator runs gavel prune, else 0.",
    );
    for aged in Aged::ALL {
        let is_refused = refused.iter().any(|expired| expired.aged == *aged);
        stopped.raise(&[("kind", aged.as_str())], f64::from(u8::from(is_refused)));
    }
    stopped.write(text);
}

/// Adds the gates of live workers. Workers with shared limits report the same values, so the maximum counts.
fn write_judges(text: &mut String, rows: &[JudgeRow]) {
    let gauge = |name, help| Family::new(name, MetricType::Gauge, help);
    let mut breakers = gauge(
        "gavel_cluster_judge_breakers",
        "Live workers by the state of their breaker of a judge: closed (calls go out), open or half_open.",
    );
    let mut held = gauge(
        "gavel_cluster_judge_held",
        "Live workers that don't call a judge now, by reason.",
    );
    let mut calls = gauge(
        "gavel_cluster_judge_calls_in_flight",
        "Judge calls that live workers wait for.",
    );
    let mut limit = gauge(
        "gavel_cluster_judge_pace_limit",
        "Rate limit of a judge per minute, the maximum over live workers: requests or tokens.",
    );
    let mut used = gauge(
        "gavel_cluster_judge_pace_used",
        "Use of a judge within the last minute, the maximum over live workers: requests or tokens.",
    );
    let mut names = LabelNames::default();
    for row in rows {
        let judge = ("judge", names.label(&row.name));
        breakers.add(&[judge, ("state", &row.breaker)], 1.0);
        if let Some(reason) = row.closed {
            held.add(&[judge, ("reason", reason.as_str())], 1.0);
        }
        calls.add(&[judge], f64::from(row.in_flight));
        let Some(pace) = &row.pace else { continue };
        for (quantity, meter) in [
            ("requests", pace.requests),
            ("tokens", pace.tokens),
            ("input_tokens", pace.input_tokens),
            ("output_tokens", pace.output_tokens),
        ] {
            let labels = [judge, ("quantity", quantity)];
            let number = |n: u64| float(i64::try_from(n).unwrap_or(i64::MAX));
            if let Some(most) = meter.limit {
                limit.raise(&labels, number(most));
                used.raise(&labels, number(meter.used));
            }
        }
    }
    for family in [breakers, held, calls, limit, used] {
        family.write(text);
    }
}

fn write_totals(text: &mut String, totals: &[JudgeTotal]) {
    let counter = |name, help| Family::new(name, MetricType::Counter, help);
    let mut calls = counter(
        "gavel_cluster_judge_calls_total",
        "Judge calls of all processes since the installation, by outcome: ok or failed.",
    );
    let mut tokens = counter(
        "gavel_cluster_judge_tokens_total",
        "Tokens of all judge calls: in (prompts, cached ones included) and out.",
    );
    let mut cost = counter(
        "gavel_cluster_judge_cost_usd_total",
        "USD of all judge calls with a known price.",
    );
    let mut unpriced = counter(
        "gavel_cluster_judge_unpriced_calls_total",
        "Judge calls without a known price.",
    );
    let mut names = LabelNames::default();
    for total in totals {
        let judge = ("judge", names.label(&total.judge));
        let good = total.calls - total.failed_calls;
        calls.add(&[judge, ("outcome", "ok")], float(good));
        calls.add(&[judge, ("outcome", "failed")], float(total.failed_calls));
        tokens.add(&[judge, ("direction", "in")], float(total.tokens_in));
        tokens.add(&[judge, ("direction", "out")], float(total.tokens_out));
        cost.add(&[judge], total.cost_usd);
        unpriced.add(&[judge], float(total.unpriced_calls));
    }
    for family in [calls, tokens, cost, unpriced] {
        family.write(text);
    }
}
