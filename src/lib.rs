//! Gavel scores the work of AI agents.

pub mod api;
pub mod app;
pub mod clock;
pub mod config;
pub mod enqueue;
pub mod history;
pub mod job;
pub mod judge;
pub mod queue;
pub mod score;
pub mod store;
pub mod worker;
