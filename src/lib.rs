//! Gavel scores the work of AI agents.

pub mod clock;
pub mod config;
pub mod history;
pub mod job;
pub mod judge;
pub mod queue;
pub mod score;
pub mod store;
