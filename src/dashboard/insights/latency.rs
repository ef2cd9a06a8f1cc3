//! Judge latency.

/// Minimum number of good replies to show latencies.
pub(super) const MIN_REPLIES: i64 = 20;

/// Formats a quantile with two to three digits, rounded up. More would be misleading because quantiles are exact only to a fifth.
pub(super) fn took(ms: u64) -> String {
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
    fn formats_latencies() {
        assert_eq!(took(707), "707 ms");
        assert_eq!(took(1_189), "1.2 s");
        assert_eq!(took(26_909), "27 s");
        assert_eq!(took(9_960), "10.0 s");
        assert_eq!(took(131_072), "2.2 min");
        assert_eq!(took(2_097_152), "35.0 min");
    }
}
