//! Figures over scores: means and spread, an interval by bootstrap, rank correlation, agreement beyond chance.
//!
//! Pure, as all of `score`: what is drawn is drawn from a seed that the caller gives, so that the same scores give the same
//! figures. A figure that its input doesn't define is `None`, never 0.

mod bootstrap;
mod confusion;
mod ranks;
mod sequence;
mod spread;

pub use bootstrap::{Bootstrap, LEVEL, bootstrap_mean, bootstrap_mean_of};
pub use confusion::{Confusion, Weights};
pub use ranks::kendall_tau_b;
pub use spread::{Spread, mean, median, quantile};

/// The ends of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}
