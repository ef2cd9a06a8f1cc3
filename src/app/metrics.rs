//! What the process counts, in Prometheus' text format: runs by ending (worker), judge calls by outcome, latency, tokens
//! and cost (here, where every call passes on its way into the call log).

use std::sync::{Arc, OnceLock};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::api::Metrics;
use crate::judge::{CallLog, CallRecord};

/// The recorder is the process's by the nature of the `metrics` crate; set once, at the first start.
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Buckets of a judge call's latency, seconds.
const LATENCY_S: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0];

/// Sets the process's recorder; a second call does nothing.
pub(super) fn install() {
    RECORDER.get_or_init(|| {
        let latency = Matcher::Full("gavel_judge_call_seconds".to_owned());
        let builder = match PrometheusBuilder::new().set_buckets_for_metric(latency, &LATENCY_S) {
            Ok(builder) => builder,
            Err(error) => {
                tracing::warn!(%error, "no metrics");
                return None;
            }
        };
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        match metrics::set_global_recorder(recorder) {
            Ok(()) => Some(handle),
            Err(error) => {
                tracing::warn!(%error, "no metrics");
                None
            }
        }
    });
}

/// Renders what was counted; `None` if the recorder could not be set.
pub(super) fn renderer() -> Option<Metrics> {
    let handle = RECORDER.get()?.clone()?;
    Some(Arc::new(move || {
        handle.run_upkeep();
        handle.render()
    }))
}

/// Counts each call, then hands it on.
pub(super) struct MeteredCalls {
    log: Arc<dyn CallLog>,
}

impl MeteredCalls {
    /// In front of a call log.
    pub(super) fn new(log: Arc<dyn CallLog>) -> Self {
        Self { log }
    }
}

impl CallLog for MeteredCalls {
    fn log(&self, call: CallRecord) {
        let outcome = call.error.map_or("ok", |class| class.as_str());
        let judge = call.judge.clone();
        metrics::counter!("gavel_judge_calls_total", "judge" => judge.clone(), "outcome" => outcome)
            .increment(1);
        // A reply that was collected from a provider's batch took no time that anybody waited.
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
