//! Metrics of the process in Prometheus' text format: names, help and buckets of all metrics, and the counts of judge calls, collected
//! where calls enter the call log.
//!
//! `docs/operate.md` lists the same names, and a test compares them.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::api::Metrics;
use crate::judge::{CacheKey, CallLog, CallRecord};
use crate::store::Store;

/// Global, as the `metrics` crate requires. Set once, at the first start.
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Maximum judges with separate labels, because `entry:model` can be any of a provider's models. Further judges are labelled `other`.
const JUDGES: usize = 100;

/// Counters with help texts. Counters without labels start at 0.
const COUNTERS: &[(&str, &str)] = &[
    (
        "gavel_judge_calls_total",
        "Judge calls, by outcome: ok, or the class of the error.",
    ),
    (
        "gavel_judge_tokens_total",
        "Tokens of judge calls: in (prompts, cached ones included) and out.",
    ),
    (
        "gavel_judge_unpriced_calls_total",
        "Judge calls without a known price.",
    ),
    (
        "gavel_judge_calls_dropped_total",
        "Judge calls dropped from the call log.",
    ),
    ("gavel_runs_total", "Runs of jobs, by kind and ending."),
    (
        "gavel_results_stale_total",
        "Results that were dropped: the run had lost its claim.",
    ),
    (
        "gavel_leases_lost_total",
        "Leases that others took while the job ran.",
    ),
    (
        "gavel_heartbeats_missed_total",
        "Failed heartbeats: the worker claims no jobs until the next one succeeds.",
    ),
    (
        "gavel_events_dropped_total",
        "Events that could not be sent to listeners.",
    ),
];
const UNLABELLED: &[&str] = &[
    "gavel_judge_calls_dropped_total",
    "gavel_results_stale_total",
    "gavel_leases_lost_total",
    "gavel_heartbeats_missed_total",
    "gavel_events_dropped_total",
];

const GAUGES: &[(&str, &str)] = &[
    ("gavel_build_info", "1; the label has the running version."),
    (
        "gavel_judge_cost_usd",
        "USD of the judge calls with a known price, since the start.",
    ),
    (
        "gavel_records_pending",
        "Results that wait for their commit.",
    ),
    ("gavel_event_streams", "Clients of GET /api/v1/events."),
    (
        "gavel_database_connections",
        "Connections of the general pool, by state: in_use or idle.",
    ),
];

const FAST_S: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Histograms with help texts and buckets in seconds.
const HISTOGRAMS: &[(&str, &str, &[f64])] = &[
    (
        "gavel_http_request_seconds",
        "Duration of requests, by method, route and status.",
        &[
            0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0,
        ],
    ),
    (
        "gavel_judge_call_seconds",
        "Duration of judge calls.",
        &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0],
    ),
    (
        "gavel_job_pick_up_seconds",
        "Time from a job's due time until a worker runs it, by priority.",
        &[
            0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 21_600.0, 86_400.0,
        ],
    ),
    (
        "gavel_claim_seconds",
        "Duration of job claims in the database.",
        FAST_S,
    ),
    (
        "gavel_record_seconds",
        "Time that results waited for their commit.",
        FAST_S,
    ),
];

/// Sets the global recorder. Further calls have no effect.
pub(super) fn install() {
    RECORDER.get_or_init(|| {
        let installed = recorder();
        installed
            .inspect_err(|error| tracing::warn!(%error, "no metrics"))
            .ok()
    });
}

fn recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let mut builder = PrometheusBuilder::new();
    for (name, _, buckets) in HISTOGRAMS {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    describe();
    Ok(handle)
}

fn describe() {
    for (name, help) in COUNTERS {
        metrics::describe_counter!(*name, *help);
    }
    for (name, help) in GAUGES {
        metrics::describe_gauge!(*name, *help);
    }
    for (name, help, _) in HISTOGRAMS {
        metrics::describe_histogram!(*name, *help);
    }
    for name in UNLABELLED {
        metrics::counter!(*name).absolute(0);
    }
    metrics::gauge!("gavel_records_pending").set(0.0);
    metrics::gauge!("gavel_event_streams").set(0.0);
    metrics::gauge!("gavel_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Returns the renderer of all metrics and of the store's connection use, or `None` if the recorder could not be set.
pub(super) fn renderer(store: &Arc<Store>) -> Option<Metrics> {
    let handle = RECORDER.get()?.clone()?;
    let store = Arc::clone(store);
    Some(Arc::new(move || {
        let pool = store.pool_use();
        for (state, connections) in [("in_use", pool.in_use), ("idle", pool.idle)] {
            let connections = u32::try_from(connections).unwrap_or(u32::MAX);
            metrics::gauge!("gavel_database_connections", "state" => state)
                .set(f64::from(connections));
        }
        handle.run_upkeep();
        handle.render()
    }))
}

pub(super) struct MeteredCalls {
    log: Arc<dyn CallLog>,
    judges: Mutex<BTreeSet<String>>,
}

impl MeteredCalls {
    pub(super) fn new(log: Arc<dyn CallLog>) -> Self {
        Self {
            log,
            judges: Mutex::default(),
        }
    }

    fn label(&self, judge: &str) -> String {
        let mut judges = self.judges.lock().unwrap_or_else(PoisonError::into_inner);
        if judges.contains(judge) {
            return judge.to_owned();
        }
        if judges.len() == JUDGES {
            return "other".to_owned();
        }
        judges.insert(judge.to_owned());
        judge.to_owned()
    }
}

#[async_trait]
impl CallLog for MeteredCalls {
    async fn find(&self, key: CacheKey, since: DateTime<Utc>) -> Option<CallRecord> {
        self.log.find(key, since).await
    }

    fn log(&self, call: CallRecord) {
        let outcome = call.error.map_or("ok", |class| class.as_str());
        let judge = self.label(&call.judge);
        metrics::counter!("gavel_judge_calls_total", "judge" => judge.clone(), "outcome" => outcome)
            .increment(1);
        // A reply collected from a provider batch has no latency.
        if !call.latency.is_zero() {
            metrics::histogram!("gavel_judge_call_seconds", "judge" => judge.clone())
                .record(call.latency.as_secs_f64());
        }
        for (direction, tokens) in [("in", call.usage.tokens_in), ("out", call.usage.tokens_out)] {
            metrics::counter!("gavel_judge_tokens_total", "judge" => judge.clone(), "direction" => direction)
                .increment(u64::try_from(tokens).unwrap_or(0));
        }
        match call.usage.cost_usd {
            Some(cost) => metrics::gauge!("gavel_judge_cost_usd", "judge" => judge).increment(cost),
            None => {
                metrics::counter!("gavel_judge_unpriced_calls_total", "judge" => judge).increment(1)
            }
        }
        self.log.log(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Forgets;

    #[async_trait]
    impl CallLog for Forgets {
        fn log(&self, _call: CallRecord) {}

        async fn find(&self, _key: CacheKey, _since: DateTime<Utc>) -> Option<CallRecord> {
            None
        }
    }

    #[test]
    fn judges_after_first_hundred_share_a_label() {
        let calls = MeteredCalls::new(Arc::new(Forgets));
        for n in 0..JUDGES {
            let name = format!("entry:model-{n}");
            assert_eq!(calls.label(&name), name);
        }
        assert_eq!(calls.label("entry:one-more"), "other");
        assert_eq!(calls.label("entry:model-7"), "entry:model-7");
    }

    #[test]
    fn rendered_metrics_have_types_and_docs() {
        let document = include_str!("../../docs/operate.md");
        let known = COUNTERS
            .iter()
            .map(|(name, _)| (*name, "counter"))
            .chain(GAUGES.iter().map(|(name, _)| (*name, "gauge")))
            .chain(HISTOGRAMS.iter().map(|(name, _, _)| (*name, "histogram")));
        for (name, kind) in known {
            let row = format!("| `{name}` | {kind} |");
            assert!(document.contains(&row), "docs/operate.md has no row {row}");
        }
    }
}
