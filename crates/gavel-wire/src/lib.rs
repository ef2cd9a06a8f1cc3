//! Types of API bodies, shared by the server and its readers (pages, command line, client). No I/O, and no dependency on the store or HTTP.

mod agreement;
mod analytics;
mod batch;
mod batch_comparison;
mod batch_item;
mod calibration;
mod cost;
mod criteria;
mod failure;
mod health;
mod import;
mod job;
mod job_ref;
mod judge;
mod nouns;
mod problem;
mod query;
mod queue;
mod rating;
mod readiness;
mod rescore;
mod score;
mod session;
mod session_filter;
mod spread;
mod state;
mod text_enum;
mod time;
mod webhook;
pub mod words;
mod worker;

pub use agreement::{Agreement, AgreementReport, Kappa, RaterPair, RaterPairs, Scale, Strength};
pub use analytics::{
    Bucket, Coverage, Distribution, LatencyItem, LatencyList, NameItem, NameLinks, NameList,
    Period, RatingShare, ScoreGroup, ScoreGroups, ScoreTool, ScoreTools, Spelling, TableFormat,
    Trend, TrendItem,
};
pub use batch::{
    Batch, BatchCounts, BatchLinks, BatchOrigin, BatchPause, BatchProgress, BatchRequest,
    BatchRetried, BatchState, BatchTimes, BatchTokens, BatchVerdict, Batches, BudgetBody,
    ChunkState, InProgress, PausedBy, ProviderBatch, ProviderBatchState, ProviderChunk, Skipped,
    Stopped,
};
pub use batch_comparison::{BatchComparison, PartDifference, TurnedItem, TurnedItems};
pub use batch_item::{BatchItem, BatchItemDetail, BatchItems, ItemOutcome, ItemPart};
pub use calibration::{
    BatchCalibration, CalibrationCase, CalibrationGroup, CalibrationRequest, CalibrationResult,
    CalibrationTargets, Confidence,
};
pub use cost::{BatchCostItem, BatchCostList, CostFigures, CostItem, CostList, UsageBy};
pub use criteria::{
    CriteriaAdded, CriteriaComparison, CriteriaDetail, CriteriaDiff, CriteriaList, CriteriaVersion,
    DiffPart, MeanDifference, Mover, NameRequest, Signed, WordTable,
};
pub use failure::FailureClass;
pub use health::Health;
pub use import::{
    Import, ImportBody, ImportCounts, ImportDetail, ImportFailure, ImportFilter, ImportLinks,
    ImportList, ImportState, Outdated,
};
pub use job::{
    Call, Job, JobDetail, JobError, JobRequest, JobResult, JobTimes, Jobs, ScoreRequest, Wait,
    WaitTarget,
};
pub use job_ref::{JobLinks, JobRef};
pub use judge::{
    Cap, Gate, Hold, Judge, JudgePace, Judges, Meter, PauseRequest, Paused, Resumed, Spent,
};
pub use nouns::{JobId, Kind, Priority, Purpose, Usage};
pub use problem::{PROBLEM_PREFIX, Problem, RequestFault};
pub use query::{LimitQuery, PageQuery, ScoreSelection, SessionOrder, SessionSort, pairs};
pub use queue::{Queue, QueueCounts};
pub use rating::{
    AnnotationItem, AnnotationOrder, Annotations, HumanRating, Quality, Rating, RatingList,
    RatingRequest,
};
pub use readiness::{Check, Readiness, ReadinessStatus};
pub use rescore::{
    CostRange, Estimate, Pace, PaceOf, PlannedJudge, RescorePlan, RescoreRequest, Sample,
    SkippedPlan, TokenRange,
};
pub use score::{AlternativeApproach, Flag, JudgeRef, MissingTool, Score, ScoreVersion, Scores};
pub use session::{
    ActiveJob, Message, PutOutcome, Scored, Session, SessionFormat, SessionItem, SessionLinks,
    SessionPut, SessionScoreSummary, SessionStatus, Sessions, SessionsPut,
};
pub use session_filter::SessionFilter;
pub use spread::{Panel, PanelJudge, PanelSummary, Spread, Vote};
pub use state::{JobState, WaitReason};
pub use text_enum::UnknownText;
#[cfg(feature = "clap")]
pub use time::of_flag as time_of_flag;
pub use webhook::{
    DeliveryState, NewWebhook, Webhook, WebhookCreated, WebhookDeliveries, WebhookDelivery,
    WebhookEvent, WebhookFormat, Webhooks,
};
pub use worker::{Worker, WorkerState, Workers};

/// Parser of a flag with fixed values, which help and errors list.
#[cfg(feature = "clap")]
pub fn choice<T>(
    names: impl Iterator<Item = &'static str>,
) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = UnknownText> + Clone + Send + Sync + 'static,
{
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(names).try_map(|name| name.parse())
}
