//! The example sessions, embedded in the binary: what the demo loads, and the overview of a Gavel that has nothing yet.

/// Each file's name and text: one session as JSON, its id under `session_id`.
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
