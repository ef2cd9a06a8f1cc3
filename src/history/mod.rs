//! Sources of sessions.

pub mod examples;
pub mod imports;
pub mod ingest;
pub mod on_demand;
pub mod tarsy;
