drop index judge_calls_cache_key;
alter table judge_calls drop column cache_key;
alter table judge_calls drop column repaired;
alter table judge_calls drop column simulated;
alter table judge_calls drop column retries_spent;
