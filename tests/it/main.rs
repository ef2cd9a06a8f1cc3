//! One integration binary: real databases, a real Redis, real HTTP.
//!
//! SQLite and the in-process queue are always tested; Postgres and Redis where `DATABASE_URL` and `REDIS_URL` name a
//! server (`tests/run.sh` sees to that). Each test has a database and a queue name of its own.
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
