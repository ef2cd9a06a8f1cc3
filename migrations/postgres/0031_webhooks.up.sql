-- Where events are sent. The secret is kept as it is: without it nothing can be signed.
create table webhook_endpoints (
    endpoint_id uuid primary key,
    name text not null,
    url text not null,
    secret text,
    events jsonb not null,
    format text not null,
    from_settings boolean not null,
    created_by text not null,
    created_at timestamptz not null,
    constraint webhook_endpoints_format check (format in ('standard', 'slack'))
);
create unique index webhook_endpoints_name on webhook_endpoints (name);

-- What is sent to whom, in the order of its numbers for each subject. Names no endpoint by a key: whoever ends a job must not fail
-- because an endpoint goes.
create table webhook_deliveries (
    delivery_no bigint generated always as identity primary key,
    delivery_id uuid not null,
    endpoint_id uuid not null,
    event text not null,
    subject text not null,
    data jsonb not null,
    happened_at timestamptz not null,
    state text not null default 'pending',
    attempts bigint not null default 0,
    due_at timestamptz not null,
    ended_at timestamptz,
    status bigint,
    error text,
    constraint webhook_deliveries_state check (state in ('pending', 'delivered', 'failed')),
    constraint webhook_deliveries_ended check ((state = 'pending') = (ended_at is null))
);
create unique index webhook_deliveries_id on webhook_deliveries (delivery_id);
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, due_at, delivery_no) where ended_at is null;
create index webhook_deliveries_order on webhook_deliveries (endpoint_id, subject, delivery_no) where ended_at is null;
create index webhook_deliveries_ended_at on webhook_deliveries (ended_at) where ended_at is not null;

-- Judges that were told to be closed.
create table webhook_judges (judge text primary key, reason text);

-- By triggers, so that no way to end a job or a batch, and no older process beside this one, leaves them out, and all is one
-- transaction. A job that is an item of a batch is told by its batch, unless somebody asked for it by itself.
create function webhooks_of_job() returns trigger language plpgsql as $$
begin
    insert into webhook_deliveries (delivery_id, endpoint_id, event, subject, data, happened_at, due_at)
    select gen_random_uuid(), e.endpoint_id, 'job.' || new.state, new.job_id::text,
        jsonb_build_object('job_id', new.job_id, 'kind', new.kind, 'state', new.state, 'session_id', new.subject_id,
            'batch_id', new.batch_id, 'judge', new.judge, 'score_id', new.result->'score_id',
            'total_score', new.result->'total_score', 'total', new.result->'total', 'class', new.error_class,
            'simulated', case when new.state = 'succeeded' then new.simulated end),
        new.finished_at, new.finished_at
    from webhook_endpoints e where e.events ? ('job.' || new.state);
    return null;
end $$;
create trigger scoring_jobs_ended after update of finished_at on scoring_jobs for each row
    when (old.finished_at is null and new.finished_at is not null and (new.batch_id is null or new.on_demand))
    execute function webhooks_of_job();

create function webhooks_of_batch() returns trigger language plpgsql as $$
begin
    insert into webhook_deliveries (delivery_id, endpoint_id, event, subject, data, happened_at, due_at)
    select gen_random_uuid(), e.endpoint_id, wanted.value, new.batch_id::text,
        jsonb_build_object('batch_id', new.batch_id, 'kind', new.kind, 'state', new.state, 'name', new.name, 'items', new.total),
        new.finished_at, new.finished_at
    from webhook_endpoints e, jsonb_array_elements_text(e.events) as wanted(value)
    where wanted.value = 'batch.' || new.state or (wanted.value = 'batch.mean_dropped' and new.state = 'completed');
    return null;
end $$;
create trigger scoring_batches_ended after update of finished_at on scoring_batches for each row
    when (old.finished_at is null and new.finished_at is not null)
    execute function webhooks_of_batch();
