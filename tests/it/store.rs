//! The store: every rule on both databases.

mod accept;
mod analytics;
mod backlogs;
mod batches;
mod brakes;
mod budgets;
mod claim;
mod days;
mod economy;
mod exports;
mod fixtures;
mod imports;
mod jobs;
mod judge_memory;
mod migrations;
mod outage;
mod past_runs;
mod ratings;
mod record;
mod rescue;
mod scores;
mod session_list;
mod sessions;
mod trust;
mod usage;
mod workers;
