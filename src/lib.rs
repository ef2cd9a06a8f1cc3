//! Gavel scores the work of AI agents.

pub mod api;
pub mod app;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod enqueue;
pub mod history;
pub mod job;
pub mod judge;
pub mod lifecycle;
pub mod queue;
pub mod score;
pub mod store;
pub mod telemetry;
pub mod worker;
