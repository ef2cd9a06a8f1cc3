-- The key of the question as it was handed over: an answer to another one isn't kept. Null: handed over before this was noted.
alter table provider_batch_items add column cache_key text;
