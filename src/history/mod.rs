//! Where sessions come from. Nothing here scores: a session that arrives is stored, and scoring is asked for.

pub mod examples;
pub mod imports;
pub mod ingest;
pub mod on_demand;
pub mod tarsy;
