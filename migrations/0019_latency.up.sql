-- How quickly judges answered, by day of UTC: how many calls with a good reply took up to so long. Kept when calls are pruned.
create table judge_latency_daily (
    -- YYYY-MM-DD, of when the call was sent.
    day text not null,
    judge text not null,
    -- The process that counted: each adds to rows of its own, so that none waits for another.
    worker_id uuid not null,
    -- Up to 2^(bucket / 4) milliseconds, and more than the bucket before it; the last has everything above, too.
    bucket bigint not null,
    calls bigint not null,
    primary key (day, judge, worker_id, bucket)
);
