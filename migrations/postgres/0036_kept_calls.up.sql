-- no-transaction
-- The call log is where a reply is found again: by this key, for a day, and for 8 days where it was collected. judge_replies is what the
-- release before looks into; it goes with the next one.
alter table judge_calls add column if not exists cache_key uuid;
alter table judge_calls add column if not exists repaired boolean not null default false;
alter table judge_calls add column if not exists simulated boolean not null default false;
alter table judge_calls add column if not exists retries_spent bigint not null default 0;
update judge_calls set cache_key = left(r.cache_key, 32)::uuid, repaired = r.repaired, simulated = r.simulated from judge_replies r
where r.job_id = judge_calls.job_id and r.expires_at > now() and not r.reply ? 'declined' and judge_calls.error_class is null
    and judge_calls.called_at > now() - interval '9 days'
    and not exists (select 1 from judge_calls later where later.job_id = judge_calls.job_id and later.error_class is null
        and later.called_at > judge_calls.called_at);
drop index concurrently if exists judge_calls_cache_key;
create index concurrently judge_calls_cache_key on judge_calls (cache_key, called_at) where cache_key is not null;
-- Deliveries go by when what they tell of happened; nothing looks for when they ended.
drop index concurrently if exists webhook_deliveries_ended_at;
drop index concurrently if exists webhook_deliveries_happened_at;
create index concurrently webhook_deliveries_happened_at on webhook_deliveries (happened_at);
