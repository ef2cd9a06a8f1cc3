//! The truth: every job, session, score and reply, in Postgres or SQLite. The only place that names sqlx.
//!
//! Never calls a judge, never touches the queue, and holds no transaction across an await on anything but the database.
//! (Skeleton: bodies to be written.)

mod criteria;
mod db;
mod error;
mod jobs;
mod judges;
mod page;
mod replies;
mod scores;
mod sessions;
mod workers;

pub use criteria::CriteriaDefinition;
pub use db::{Dialect, Store, StoreOptions};
pub use error::StoreError;
pub use jobs::{
    Accepted, DueJob, Ending, Fence, Force, JobCounts, JobFilter, Record, RecordTicket, Recorded,
    Rescued,
};
pub use judges::{Brake, BrakeTarget, JudgeRow};
pub use page::{Cursor, Page};
pub use replies::JudgeCallRow;
pub use scores::{NewSessionScore, SessionScoreRow};
pub use sessions::{
    PutOutcome, Scored, ScoringView, SessionFilter, SessionRecord, SessionStatus, SessionSummary,
};
pub use workers::{WorkerRow, WorkerState};
