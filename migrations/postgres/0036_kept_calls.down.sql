drop index judge_calls_cache_key;
alter table judge_calls drop column cache_key, drop column repaired, drop column simulated, drop column retries_spent;
