-- What SQLite alone needs; the reasons are in postgres/.

create index alert_sessions_external_id on alert_sessions (external_id) where external_id is not null;

create trigger alert_sessions_inserted after insert on alert_sessions
begin
    insert into dirty_days (day) values (substr(new.listed_at, 1, 10));
end;
create trigger alert_sessions_updated after update on alert_sessions
begin
    insert into dirty_days (day) values (substr(old.listed_at, 1, 10)), (substr(new.listed_at, 1, 10));
end;

-- Events to send to endpoints, ordered by number within a subject. No foreign key, because finishing a job must not fail when an endpoint is
-- deleted.
create table webhook_deliveries (
    delivery_no integer primary key autoincrement,
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

create trigger scoring_jobs_ended after update of finished_at on scoring_jobs
    when old.finished_at is null and new.finished_at is not null and (new.batch_id is null or new.on_demand)
begin
    insert into webhook_deliveries (delivery_id, endpoint_id, event, subject, data, happened_at, due_at)
    select randomblob(16), e.endpoint_id, 'job.' || new.state, hex(new.job_id),
        json_object('job_id', hex(new.job_id), 'kind', new.kind, 'state', new.state, 'session_id', nullif(hex(new.subject_id), ''),
            'batch_id', nullif(hex(new.batch_id), ''), 'judge', new.judge, 'score_id', json_extract(new.result, '$.score_id'),
            'total_score', json_extract(new.result, '$.total_score'), 'total', json_extract(new.result, '$.total'), 'class', new.error_class,
            'simulated', json(case when new.state <> 'succeeded' then 'null' when new.simulated then 'true' else 'false' end)),
        new.finished_at, new.finished_at
    from webhook_endpoints e where exists (select 1 from json_each(e.events) wanted where wanted.value = 'job.' || new.state);
end;

create trigger scoring_batches_ended after update of finished_at on scoring_batches
    when old.finished_at is null and new.finished_at is not null
begin
    insert into webhook_deliveries (delivery_id, endpoint_id, event, subject, data, happened_at, due_at)
    select randomblob(16), e.endpoint_id, wanted.value, hex(new.batch_id),
        json_object('batch_id', hex(new.batch_id), 'kind', new.kind, 'state', new.state, 'name', new.name, 'items', new.total),
        new.finished_at, new.finished_at
    from webhook_endpoints e, json_each(e.events) wanted
    where wanted.value = 'batch.' || new.state or (wanted.value = 'batch.mean_dropped' and new.state = 'completed');
end;
