-- Replies fetched ahead by a provider's batches: asked (its items wait for them), collected; null: not at all.
alter table scoring_batches add column economy text;
-- The worker that looks after it, and when it was last heard, by the database's clock.
alter table scoring_batches add column economy_owner uuid;
alter table scoring_batches add column economy_heard_at timestamptz;
-- What it waits for, in words.
alter table scoring_batches add column economy_note text;
-- The few whose items wait: what claims look at.
create index scoring_batches_economy on scoring_batches (batch_id) where economy = 'asked';

-- A part of a batch, as it is handed over to a provider.
create table provider_batches (
    -- Our name for it, drawn before it is handed over.
    tag uuid primary key,
    batch_id uuid not null,
    judge text not null,
    -- The provider's name for it; null: it isn't known to have arrived.
    provider_id text,
    state text not null,
    requests bigint not null,
    -- Those that have ended, as the provider says.
    done bigint not null default 0,
    made_at timestamptz not null,
    submitted_at timestamptz,
    error text,
    constraint provider_batches_state check (state in ('making', 'submitted', 'collected', 'failed'))
);
create index provider_batches_batch on provider_batches (batch_id, tag);

-- The items that were handed over, each in one part.
create table provider_batch_items (
    job_id uuid primary key,
    tag uuid not null,
    -- replied: its reply is kept; failed: it is asked as ever; null: not known yet.
    outcome text,
    error text,
    constraint provider_batch_items_outcome check (outcome in ('replied', 'failed'))
);
create index provider_batch_items_tag on provider_batch_items (tag, job_id);
