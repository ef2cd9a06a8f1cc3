//! Gavel scores the work of AI agents: a request becomes a row and an id, a worker asks a judge, the client polls.
//!
//! ```text
//!  client ── POST ──▶ enqueue ── row ──▶ store ◀───────────── record ───────────┐
//!                        │                ▲  ▲                                   │
//!                        └── id ──▶ queue │  └── rescue: what was lost is pushed again
//!                                     │   │                                      │
//!                                     └─▶ worker: claim ─▶ judge (gate, retry, parse) ─▶ score
//!  client ◀── poll, events ── store
//! ```
//!
//! Read [`enqueue`] and [`worker::process`], and you have seen the program. The rest, in the order of the flow:

// Nouns, and what crosses the API's boundary
pub use gavel_wire as wire;
pub mod job;

// 1  check the request, insert the row, push the id
pub mod enqueue;

// 2  at-least-once delivery of ids
pub mod queue;

// 3  take ids, run each job once, record its end, rescue what was lost
pub mod worker;

// 4  one question to one model, patiently
pub use gavel_judge as judge;

// 5  the rules, pure
pub use gavel_rules as score;

// 6  the truth
pub mod store;

// What happened, told to whoever listens
pub mod events;

// 7  HTTP for programs
pub mod api;

// 7  pages for people
pub mod dashboard;

// Where sessions come from
pub mod history;

// Files of items, and runs of them; what they came to, as files
pub mod report;
pub mod suite;

// The shell
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
