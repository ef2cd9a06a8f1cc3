//! Analyses of many scores: a histogram of totals, and names with the same meaning. No I/O.

mod histogram;
mod naming;

pub use histogram::Histogram;
pub use naming::key_of;
