//! What crosses the API's boundary: one declaration of each thing, for the server that writes it and for whoever reads it (pages, command
//! line, client). Bodies alone: does nothing, asks nobody, and knows neither the store nor HTTP.

mod batch;
mod judge;
mod queue;
mod readiness;
mod rescore;
mod worker;

pub use batch::{
    Batch, BatchCounts, BatchLinks, BatchOrigin, BatchPause, BatchProgress, BatchRetried,
    BatchState, BatchTimes, BatchTokens, BatchVerdict, Batches, ChunkState, InProgress, PausedBy,
    ProviderBatch, ProviderBatchState, ProviderChunk, Skipped, Stopped,
};
pub use judge::{
    Brake, Cap, Gate, Judge, JudgePace, Judges, Meter, PauseRequest, Paused, Resumed, Spent,
};
pub use queue::{Queue, QueueCounts};
pub use readiness::{Check, Readiness, ReadinessStatus};
pub use rescore::{
    CostRange, Estimate, Pace, PaceOf, PlannedJudge, RescorePlan, SkippedPlan, TokenRange,
};
pub use worker::{Worker, WorkerState, Workers};
