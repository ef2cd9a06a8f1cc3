-- The call log is where a reply is found again: by this key, for a day, and for 8 days where it was collected. judge_replies is what the
-- release before looks into; it goes with the next one.
alter table judge_calls add column cache_key uuid;
alter table judge_calls add column repaired boolean not null default false;
alter table judge_calls add column simulated boolean not null default false;
alter table judge_calls add column retries_spent bigint not null default 0;
update judge_calls set cache_key = unhex(substr(r.cache_key, 1, 32)), repaired = r.repaired, simulated = r.simulated from judge_replies r
where r.job_id = judge_calls.job_id and json_extract(r.reply, '$.declined') is null and judge_calls.error_class is null
    and not exists (select 1 from judge_calls later where later.job_id = judge_calls.job_id and later.error_class is null
        and later.called_at > judge_calls.called_at);
create index judge_calls_cache_key on judge_calls (cache_key, called_at) where cache_key is not null;
-- Deliveries go by when what they tell of happened; nothing looks for when they ended.
drop index webhook_deliveries_ended_at;
create index webhook_deliveries_happened_at on webhook_deliveries (happened_at);
