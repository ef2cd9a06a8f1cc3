create table scoring_jobs (
    job_id uuid primary key,
    kind text not null,
    subject_id uuid,
    purpose text not null,
    payload jsonb not null,
    judge text,
    lane text not null,
    priority text not null,
    state text not null,
    claim_no bigint not null default 0,
    attempts bigint not null default 0,
    losses bigint not null default 0,
    retries bigint not null default 0,
    wait_reason text,
    wait_until timestamptz,
    waiting_since timestamptz,
    due_at timestamptz not null,
    worker_id uuid,
    error_class text,
    error text,
    criteria_hash varchar(64) not null,
    force_rescore boolean not null,
    triggered_by text not null,
    result jsonb,
    simulated boolean not null default false,
    tokens_in bigint not null default 0,
    tokens_out bigint not null default 0,
    -- Null: some call's price is unknown. 0: nothing was spent yet.
    cost_usd double precision default 0,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    constraint scoring_jobs_state check (state in ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled')),
    constraint scoring_jobs_priority check (priority in ('interactive', 'bulk')),
    constraint scoring_jobs_finished check ((state in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
    constraint scoring_jobs_failed check ((state = 'failed') = (error_class is not null)),
    constraint scoring_jobs_waiting check ((state = 'waiting') = (wait_reason is not null))
);

-- No index here names the state, as a column or in its predicate: it would end HOT updates, and Postgres would answer
-- claims and records through it instead of through the primary key.
create unique index scoring_jobs_one_active on scoring_jobs (kind, subject_id)
    where finished_at is null and purpose = 'score';
create index scoring_jobs_due on scoring_jobs (lane, priority, due_at, job_id)
    where finished_at is null;
create index scoring_jobs_subject on scoring_jobs (subject_id, job_id)
    where subject_id is not null;
create index scoring_jobs_finished_at on scoring_jobs (finished_at)
    where finished_at is not null;
create index scoring_jobs_waiting_since on scoring_jobs (waiting_since)
    where waiting_since is not null;

create table workers (
    worker_id uuid primary key,
    name text not null,
    version text not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    in_hand bigint not null,
    state text not null,
    -- Whether its jobs were looked for since it was last heard.
    swept boolean not null default false,
    constraint workers_state check (state in ('running', 'draining', 'stopped'))
);
