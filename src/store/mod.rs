//! The truth: every job, session, score and reply, in Postgres or SQLite. The only place that names sqlx.
//!
//! Never calls a judge, never touches the queue, and holds no transaction across an await on anything but the database.
//!
//! Three tasks write in groups, each on a connection of its own: what gathered while the previous commit ran goes into
//! the next one; two more read so. Results that were not taken are tried again on one more. [`Store::close`] lets them
//! finish. Accepting, recording and logging are on the disk when they are answered; a claim may be lost in a crash of a
//! Postgres server, since it only runs again.
//!
//! Times are kept in microseconds. A NUL character in a text or in JSON is stored as U+FFFD, because Postgres refuses it.

mod accept;
mod analytics;
mod backlog_steps;
mod backlogs;
mod batch_costs;
mod batch_figures;
mod batch_items;
mod batch_moves;
mod batches;
mod brakes;
mod budgets;
mod call_writer;
mod calls;
mod cancelling;
mod chunks;
mod claim;
mod cluster;
mod confidence;
mod criteria;
mod criteria_pairs;
mod day_folds;
mod days;
mod db;
mod disk;
mod error;
mod evaluations;
mod group;
mod idempotency;
mod import_ends;
mod import_steps;
mod imports;
mod job_row;
mod jobs;
mod judges;
mod latency;
mod line;
mod migrations;
mod open;
mod page;
mod panels;
mod past_runs;
mod pool;
mod pooler;
mod provider_answers;
mod provider_batches;
mod ratings;
mod reads;
mod record;
mod recorder;
mod replies;
mod rescue;
mod score_order;
mod score_rows;
mod scores;
mod session_days;
mod session_filter;
mod session_list;
mod session_sort;
mod sessions;
mod spilled;
mod sql;
mod usage;
mod view;
mod worker_judges;
mod workers;

pub use accept::Accepted;
pub use analytics::{By, MadeBy, NameCount, Named, ScoreFilter, ToolElsewhere, TotalCount};
pub use backlog_steps::Expanded;
pub use backlogs::{BacklogPlan, NewBacklog, Sample};
pub use batch_figures::BatchFigures;
pub use batch_items::BatchItem;
pub use batch_moves::{Added, Moved};
pub use batches::{BatchFilter, BatchRow, NewBatch};
pub use brakes::{Brake, BrakeTarget};
pub use budgets::{BatchPace, BatchSkip, BatchUsage};
pub use calls::JudgeCallRow;
pub use cancelling::{CancelStep, Cancelling};
pub use chunks::{ChunkRow, NewChunk};
pub use claim::CLAIM_GIVEN_UP;
pub use cluster::{JobsFigure, JudgeTotal, PoolUse};
pub use confidence::ConfidenceCount;
pub use criteria::CriteriaDefinition;
pub use criteria_pairs::{Basis, CriteriaPairs};
pub use day_folds::DaysFolded;
pub use db::Dialect;
pub use error::{Outage, StoreError};
pub use evaluations::NewEvaluation;
pub use idempotency::{KeptAnswer, KeyUse, Reserved};
pub use import_ends::ImportEnd;
pub use import_steps::{ImportStep, Walked};
pub use imports::{ImportRow, NewImport, WalkPlace};
pub use jobs::{Force, JobCounts, JobFilter};
pub use judges::{JudgeRow, MeterRow, PaceRow};
pub use open::{Store, StoreOptions, Use};
pub use page::{Cursor, Page};
pub use panels::AskedOfPanel;
pub use past_runs::{PastReplies, RecentPace};
pub use provider_answers::ItemAnswer;
pub use provider_batches::ProviderBatchRow;
pub use ratings::{NewRating, RatingOf, RatingsMet};
pub use record::{Ending, Fence, Record, RecordTicket, Recorded};
pub use rescue::{Died, DueJob, Rescued};
pub use scores::{GoodScores, NewSessionScore, SessionScoreRow};
pub use session_filter::{Scored, SessionFilter};
pub use session_list::{SessionOrder, SessionSummary};
pub use session_sort::{Found, FoundPage, SessionPlace, SortRules, Standing};
pub use sessions::{SessionRecord, StoredSession};
pub use usage::{JudgeSpent, UsageSum, known_usd};
pub use view::ScoringView;
pub use workers::{Heartbeat, RollCall, WorkerPulse, WorkerRow};

pub use crate::wire::SessionStatus;
