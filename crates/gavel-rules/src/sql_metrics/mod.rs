//! Kind `sql_metrics`: scores a case's two queries and its validator's flags. The rules are in `docs/sql-metrics.md`.
//!
//! Metrics are independent: an error or panic in one doesn't affect the others. Only [`verdict`] combines them.

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
