//! Statistics of scores: mean, spread, bootstrap interval, rank correlation, agreement beyond chance.
//!
//! No I/O. Random numbers use a seed given by the caller, so that results are deterministic. An undefined statistic is `None`, not 0.

mod bootstrap;
mod confusion;
mod ranks;
mod sequence;
mod spread;

pub use bootstrap::{Bootstrap, LEVEL, bootstrap_mean};
pub use confusion::{Confusion, Weights};
pub use ranks::kendall_tau_b;
pub use spread::{Spread, mean, median, quantile};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}
