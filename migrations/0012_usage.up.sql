-- What judge calls came to, by day of UTC. judge_calls are pruned by retention, these rows stay.
create table judge_usage_daily (
    -- YYYY-MM-DD.
    day text not null,
    judge text not null,
    model text not null,
    -- The process that counted: each adds to rows of its own, so that none waits for another.
    worker_id uuid not null,
    calls bigint not null,
    failed_calls bigint not null,
    tokens_in bigint not null,
    tokens_in_cached bigint not null,
    tokens_out bigint not null,
    -- Of the calls whose price is known.
    cost_usd double precision not null,
    unpriced_calls bigint not null,
    primary key (day, judge, model, worker_id)
);
