//! Golden tests: visible output of Gavel, compared with the files in this folder.
//!
//! `UPDATE_GOLDENS=1 cargo nextest run --test goldens` rewrites them. The service runs with a frozen wall clock
//! (libfaketime), so that times and ages are the same on each run. Without libfaketime those tests are skipped with a
//! message.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    clippy::too_many_lines,
    reason = "tests fail loudly, report what they skip, may read the clock, print other values as they are, and list pages"
)]

mod commands;
mod corpus;
mod golden;
mod interfaces;
mod mask;
mod pages;
mod prompts;
mod reports;
mod seeded_service;
#[path = "../it/support/mod.rs"]
#[expect(
    dead_code,
    reason = "shared with the integration tests, which use all of it"
)]
mod support;
