create table judges (
    name text not null,
    worker_id uuid not null,
    breaker text not null,
    closed text,
    closed_until timestamptz,
    failures_in_row bigint not null,
    in_flight bigint not null,
    last_error text,
    updated_at timestamptz not null,
    primary key (name, worker_id)
);

create table brakes (
    target text primary key,
    reason text not null,
    message text not null,
    set_by text not null,
    since timestamptz not null,
    until timestamptz
);

create table judge_replies (
    cache_key text primary key,
    provider text not null,
    model text not null,
    reply jsonb not null,
    simulated boolean not null,
    repaired boolean not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index judge_replies_expires on judge_replies (expires_at);

create table judge_calls (
    call_id uuid primary key,
    job_id uuid not null,
    judge text not null,
    model text not null,
    called_at timestamptz not null,
    latency_us bigint not null,
    error_class text,
    message text,
    status bigint,
    tokens_in bigint not null,
    tokens_in_cached bigint not null,
    tokens_out bigint not null,
    cost_usd double precision,
    reply text
);
create index judge_calls_job on judge_calls (job_id, called_at);
create index judge_calls_called on judge_calls (called_at);
