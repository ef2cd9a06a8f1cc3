-- Whom a cached reply was asked for, so that it goes with that job's session. Null: kept by an older release, for a week at most.
alter table judge_replies add column job_id uuid;
-- Jobs of erased sessions. A call that was under way is written after them, and goes with the next prune.
create table erased_jobs (
    job_id uuid primary key,
    erased_at timestamptz not null
);
