mod histogram;
mod naming;

pub use histogram::Histogram;
pub use naming::key_of;
