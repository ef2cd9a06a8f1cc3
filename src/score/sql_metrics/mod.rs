//! The metrics of generated SQL that are computed: what a case's two queries and its validator's flags are worth.
//!
//! Pure, and each metric by itself: none knows of the others but [`verdict`], which joins them. The judge's part is a question elsewhere; here
//! is only what its answer counts for.

pub mod calibration;
mod case;
pub mod correctness;
pub mod safety;
pub mod tables;
pub mod validation;
pub mod verdict;

pub use case::{FIELDS, MetricsCase};
