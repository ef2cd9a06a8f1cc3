alter table judges add column pace jsonb;
