//! The example sessions, embedded in the binary.

use super::super::import::{self, FileSession};
use super::super::outcome::CliError;

const FILES: [(&str, &str); 7] = [
    (
        "checkout-oom-crashloop.json",
        include_str!("../../../examples/sessions/checkout-oom-crashloop.json"),
    ),
    (
        "crypto-miner-binary.json",
        include_str!("../../../examples/sessions/crypto-miner-binary.json"),
    ),
    (
        "certificate-not-renewed.json",
        include_str!("../../../examples/sessions/certificate-not-renewed.json"),
    ),
    (
        "service-account-token.json",
        include_str!("../../../examples/sessions/service-account-token.json"),
    ),
    (
        "disk-pressure-timed-out.json",
        include_str!("../../../examples/sessions/disk-pressure-timed-out.json"),
    ),
    (
        "dns-latency-in-progress.json",
        include_str!("../../../examples/sessions/dns-latency-in-progress.json"),
    ),
    (
        "unexpected-egress-hostile.json",
        include_str!("../../../examples/sessions/unexpected-egress-hostile.json"),
    ),
];

/// The example sessions, in the order in which they are shown.
pub(super) fn sessions() -> Result<Vec<FileSession>, CliError> {
    let mut sessions = Vec::new();
    for (name, text) in FILES {
        sessions.extend(import::parse(name, text)?);
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::text;

    #[test]
    fn every_example_file_is_embedded_and_valid() {
        let embedded = sessions().unwrap();
        let on_disk = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sessions"))
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|e| e.path().extension().is_some_and(|x| x == "json"))
            })
            .count();
        assert_eq!(
            embedded.len(),
            on_disk,
            "a file of examples/sessions isn't embedded"
        );
        assert!(
            embedded
                .iter()
                .any(|s| text(&s.body, "/status") == "in_progress")
        );
    }
}
