//! Kind `sql_metrics`: scores a case's two queries and its validator's flags. The rules are in `docs/sql-metrics.md`.
//!
//! Metrics are independent: an error or panic in one doesn't affect the others. Only [`metric::verdict`] combines them.

mod about;
pub mod calibration;
mod case;
pub mod safety;
pub mod tables;
pub mod validation_accuracy;

mod judge;
mod metric;
mod request;
#[cfg(test)]
mod tests;

pub use about::ABOUT;
pub use case::{FIELDS, MetricsCase};
pub use metric::stamp_errors;
