alter table provider_batch_items drop column cache_key;
