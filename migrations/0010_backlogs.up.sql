-- Why the items of a batch are judged.
alter table scoring_batches add column purpose text not null default 'score';
-- What its items are judged by; null: made before it was kept.
alter table scoring_batches add column criteria_hash varchar(64);
-- Of a rescore: how its items are made of the sessions that its filter finds.
alter table scoring_batches add column plan jsonb;
-- Whether all its items are there. A rescore's items run while it expands.
alter table scoring_batches add column expanded boolean not null default true;
-- Of a rescore: how many sessions were found and passed over, by reason.
alter table scoring_batches add column skipped jsonb;
-- Who paused it: operator or budget.
alter table scoring_batches add column paused_by text;

-- The sessions that a rescore is about, where they were named or drawn; gone once it has expanded.
create table scoring_batch_picks (
    batch_id uuid not null,
    session_id uuid not null,
    primary key (batch_id, session_id)
);

-- Sessions that a rescore passed over because a job was active for them.
create table scoring_batch_skips (
    batch_id uuid not null,
    session_id uuid not null,
    -- Null: it had ended by the time that it was looked for.
    job_id uuid,
    primary key (batch_id, session_id)
);

-- What the calls for a batch's items used. A row for each worker, so that two of them never wait for each other.
create table scoring_batch_usage (
    batch_id uuid not null,
    worker_id uuid not null,
    cost_usd double precision not null,
    -- Runs whose cost isn't known.
    unpriced bigint not null,
    tokens_in bigint not null,
    tokens_out bigint not null,
    primary key (batch_id, worker_id)
);
