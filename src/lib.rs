//! Gavel scores the work of AI agents: a request becomes a row and an id, a worker calls a judge, the client polls.
//!
//! ```text
//!  client ── POST ──▶ enqueue ── row ──▶ store ◀───────────── record ───────────┐
//!                        │                ▲  ▲                                   │
//!                        └── id ──▶ queue │  └── rescue: pushes lost ids again   │
//!                                     │   │                                      │
//!                                     └─▶ worker: claim ─▶ judge (gate, retry, parse) ─▶ score
//!  client ◀── poll, events ── store
//! ```
//!
//! Start with [`enqueue`] and [`worker::process`]. The modules follow in the order of the flow.

// Types of jobs, and of the API
pub use gavel_wire as wire;
pub mod job;

// 1  validate the request, insert the row, push the id
pub mod enqueue;

// 2  at-least-once delivery of ids
pub mod queue;

// 3  claim ids, run each job once, record its outcome, rescue lost jobs
pub mod worker;

// 4  one question to one model, with retries
pub use gavel_judge as judge;

// 5  the scoring rules, without I/O
pub use gavel_rules as score;

// 6  the authoritative state
pub mod store;

// Events for listeners
pub mod events;

// 7  HTTP API
pub mod api;

// 7  web pages
pub mod dashboard;

// Sources of sessions
pub mod history;

// Files of items, runs of them, and reports
pub mod report;
pub mod suite;

// Process and command line
pub mod app;
pub mod cli;
pub use gavel_client as client;
pub use gavel_clock as clock;
pub mod config;
pub mod lifecycle;
pub mod memory;
pub use gavel_outbound as outbound;
pub use gavel_redis as redis_client;
pub mod telemetry;

#[cfg(test)]
mod tests;
