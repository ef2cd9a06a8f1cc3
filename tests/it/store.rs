//! The store: every rule on both databases.

mod accept;
mod analytics;
mod batches;
mod brakes;
mod claim;
mod exports;
mod fixtures;
mod imports;
mod jobs;
mod judge_memory;
mod migrations;
mod outage;
mod record;
mod rescue;
mod scores;
mod sessions;
mod usage;
mod workers;
