-- What Postgres alone needs.

-- Half-empty pages keep claims heap-only updates, and vacuum starts by the number of dead rows, not by the table's size.
alter table scoring_jobs set (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

-- lz4 halves the time to store long conversations; servers built without it (or before 14) keep pglz.
do $$
begin
    execute 'alter table alert_sessions alter column conversation set compression lz4';
    execute 'alter table alert_sessions alter column alert_data set compression lz4';
exception when others then
    raise notice 'lz4 is not available: %', sqlerrm;
end
$$;

-- Search by a prefix of the external id; a prefix is a range only in byte order.
create index alert_sessions_external_id on alert_sessions (external_id collate "C") where external_id is not null;

-- A new or changed session marks the days that it leaves and enters. By triggers, because only they see both under any order of puts.
create function mark_day_entered() returns trigger language plpgsql as $$
begin
    insert into dirty_days (day) values (to_char(new.listed_at at time zone 'UTC', 'YYYY-MM-DD'));
    return null;
end $$;
create function mark_days_left_and_entered() returns trigger language plpgsql as $$
begin
    insert into dirty_days (day) values
        (to_char(old.listed_at at time zone 'UTC', 'YYYY-MM-DD')), (to_char(new.listed_at at time zone 'UTC', 'YYYY-MM-DD'));
    return null;
end $$;
create trigger alert_sessions_inserted after insert on alert_sessions
    for each row execute function mark_day_entered();
create trigger alert_sessions_updated after update on alert_sessions
    for each row execute function mark_days_left_and_entered();

-- Events to send to endpoints, ordered by number within a subject. No foreign key, because finishing a job must not fail when an endpoint is
-- deleted.
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
create index webhook_deliveries_happened_at on webhook_deliveries (happened_at);

-- By triggers, so that each way to end a job or a batch inserts its deliveries in the same transaction. An item of a batch has none unless
-- it was also requested by itself.
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
