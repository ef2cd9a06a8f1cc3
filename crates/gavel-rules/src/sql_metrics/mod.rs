//! Kind `sql_metrics`: what a case's two queries and its validator's flags are worth. The rules are in `docs/sql-metrics.md`.
//!
//! Each metric is by itself: none knows of the others but [`verdict`], which joins them, and one that fails, by an error or a panic, leaves the
//! others as they are.

mod about;
pub mod calibration;
mod case;
pub mod correctness;
pub mod safety;
pub mod tables;
pub mod validation_accuracy;
pub mod validator;
pub mod verdict;

mod judge;
mod metric;
mod request;
#[cfg(test)]
mod tests;

pub use about::ABOUT;
pub use case::{FIELDS, MetricsCase};
pub use metric::stamp_errors;
