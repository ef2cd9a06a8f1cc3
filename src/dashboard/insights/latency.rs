//! How quickly judges answered.

use super::super::words;
use crate::wire::LatencyItem;

/// Fewer calls say nothing.
const LEAST: i64 = 20;

/// A judge as a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JudgeLatency {
    pub(super) judge: String,
    pub(super) calls: String,
    /// What half, 90 and 99 of 100 calls took at most; empty where there are too few.
    pub(super) within: Vec<String>,
}

impl JudgeLatency {
    pub(super) fn of(latency: LatencyItem) -> Self {
        let quantiles = [latency.p50_ms, latency.p90_ms, latency.p99_ms];
        let shown = quantiles.iter().filter(|_| latency.calls >= LEAST);
        Self {
            judge: latency.judge,
            calls: words::grouped(latency.calls),
            within: shown.map(|ms| took(*ms)).collect(),
        }
    }
}

/// Two figures say enough: each is rounded up by a fifth at most.
fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => {
            let tenths = ms.div_ceil(100);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        10_000..120_000 => format!("{} s", ms.div_ceil(1_000)),
        _ => {
            let tenths = ms.div_ceil(6_000);
            format!("{}.{} min", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_calls_say_nothing_and_times_are_read_at_a_glance() {
        let of = |calls| {
            let latency = LatencyItem {
                judge: "a".to_owned(),
                calls,
                p50_ms: 707,
                p90_ms: 1_189,
                p99_ms: 26_909,
            };
            JudgeLatency::of(latency).within
        };
        assert_eq!(of(19), Vec::<String>::new());
        assert_eq!(of(20), ["707 ms", "1.2 s", "27 s"]);
        assert_eq!(took(9_960), "10.0 s");
        assert_eq!(took(131_072), "2.2 min");
        assert_eq!(took(2_097_152), "35.0 min");
    }
}
