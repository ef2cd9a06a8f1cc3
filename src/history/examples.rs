//! Embedded example sessions, for the demo and for the overview of an empty installation.

/// Name and text of each file: one session as JSON with its `session_id`.
pub const SESSIONS: [(&str, &str); 7] = [
    (
        "checkout-oom-crashloop.json",
        include_str!("../../examples/sessions/checkout-oom-crashloop.json"),
    ),
    (
        "crypto-miner-binary.json",
        include_str!("../../examples/sessions/crypto-miner-binary.json"),
    ),
    (
        "certificate-not-renewed.json",
        include_str!("../../examples/sessions/certificate-not-renewed.json"),
    ),
    (
        "service-account-token.json",
        include_str!("../../examples/sessions/service-account-token.json"),
    ),
    (
        "disk-pressure-timed-out.json",
        include_str!("../../examples/sessions/disk-pressure-timed-out.json"),
    ),
    (
        "dns-latency-in-progress.json",
        include_str!("../../examples/sessions/dns-latency-in-progress.json"),
    ),
    (
        "unexpected-egress-hostile.json",
        include_str!("../../examples/sessions/unexpected-egress-hostile.json"),
    ),
];
