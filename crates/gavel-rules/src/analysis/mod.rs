//! What many scores come to: a histogram of totals, names that mean the same. Pure, like the rules.

mod histogram;
mod naming;

pub use histogram::Histogram;
pub use naming::key_of;
