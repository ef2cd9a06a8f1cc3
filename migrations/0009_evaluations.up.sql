-- A batch: many items of one kind, asked for together. Its items are jobs; they run only while it is `running`.
create table scoring_batches (
    batch_id uuid primary key,
    name text,
    kind text not null,
    -- Who made it what it is: suite (items given) or rescore (items found by a filter).
    origin text not null,
    state text not null,
    filter jsonb,
    cursor text,
    threshold double precision,
    budget_usd double precision,
    -- Items inserted so far; final once the batch has left `expanding`.
    total bigint not null default 0,
    created_by text not null,
    created_at timestamptz not null,
    -- When its maker was last heard, while `expanding`: one that went silent is removed.
    touched_at timestamptz not null,
    -- Its items are not claimed: while it is `expanding` or `paused`, and while items of a cancelled one are left.
    halted boolean not null,
    -- Its maker went silent while `expanding`: it is being removed, and counts as not there.
    abandoned boolean not null default false,
    finished_at timestamptz,
    -- How often items that had ended were queued again: figures that were counted before don't hold.
    reopened bigint not null default 0,
    -- What it came to, kept once all items have ended: counting a million of them takes seconds.
    figures jsonb,
    constraint scoring_batches_state check (state in ('expanding', 'running', 'paused', 'completed', 'cancelled')),
    constraint scoring_batches_finished check ((state in ('completed', 'cancelled')) = (finished_at is not null))
);
create index scoring_batches_created on scoring_batches (created_at, batch_id);
-- The few that are not done: what rescue looks at.
create index scoring_batches_open on scoring_batches (batch_id) where finished_at is null;
-- The fewer that are stopped: what claims look at.
create index scoring_batches_halted on scoring_batches (batch_id) where halted;

alter table scoring_jobs add column batch_id uuid;
alter table scoring_jobs add column item_no bigint;
create unique index scoring_jobs_batch on scoring_jobs (batch_id, item_no) where batch_id is not null;
-- Whether a batch has items left. Rows without a batch are not in it, and it doesn't name the state.
create index scoring_jobs_batch_open on scoring_jobs (batch_id) where finished_at is null and batch_id is not null;

-- What a query, a QAS case or a metric case came to. A job has one row: a retried one replaces it.
create table evaluation_scores (
    score_id uuid primary key,
    job_id uuid not null,
    kind text not null,
    batch_id uuid,
    item_no bigint,
    criteria_hash varchar(64) not null,
    -- 0-1; null: incomplete.
    total double precision,
    passed boolean,
    threshold double precision,
    components jsonb not null,
    -- {class, message} where the judge failed.
    error jsonb,
    simulated boolean not null,
    scored_at timestamptz not null
);
create unique index evaluation_scores_job on evaluation_scores (job_id);
create index evaluation_scores_criteria on evaluation_scores (criteria_hash);
create index evaluation_scores_batch on evaluation_scores (batch_id, item_no) where batch_id is not null;
