//! Integration tests in one binary, with real databases, Redis and HTTP.
//!
//! SQLite is always tested; Postgres and Redis only if `DATABASE_URL` and `REDIS_URL` name a
//! server (`tests/run.sh` sets them). Each test has a separate database and queue name.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, say what it left out, and read the clock"
)]

mod api;
mod browser;
mod cli;
mod docs;
mod faults;
mod flow;
mod judge;
mod pipeline;
mod queue;
mod store;
mod support;
