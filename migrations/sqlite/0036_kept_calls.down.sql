drop index webhook_deliveries_happened_at;
create index webhook_deliveries_ended_at on webhook_deliveries (ended_at) where ended_at is not null;
drop index judge_calls_cache_key;
alter table judge_calls drop column cache_key;
alter table judge_calls drop column repaired;
alter table judge_calls drop column simulated;
alter table judge_calls drop column retries_spent;
