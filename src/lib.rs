//! Gavel scores the work of AI agents: a request becomes a row and an id, a worker asks a judge, the client polls.
//!
//! ```text
//!  client ── POST ──▶ enqueue ── row ──▶ store ◀───────────── record ───────────┐
//!                        │                ▲  ▲                                   │
//!                        └── id ──▶ queue │  └── rescue: what was lost is pushed again
//!                                     │   │                                      │
//!                                     └─▶ worker: claim ─▶ judge (gate, retry, parse) ─▶ score
//!  client ◀── poll ── store
//! ```
//!
//! Read [`enqueue`] and [`worker::process`], and you have seen the program. The rest, in the order of the flow:

// Nouns
pub mod job;

// The flow
pub mod api;
pub mod enqueue; // 1  check the request, insert the row, push the id
pub mod judge; //   4  one question to one model, patiently
pub mod queue; //   2  at-least-once delivery of ids
pub mod score; //   5  the rules, pure
pub mod store; //   6  the truth
pub mod worker; //  3  take ids, run each job once, record its end, rescue what was lost //     7  HTTP for programs

// Where sessions come from
pub mod history;

// The shell
pub mod app;
//CLI pub mod cli;
//CLI pub mod client;
pub mod clock;
pub mod config;
//CLI pub mod lifecycle;
//CLI pub mod telemetry;
