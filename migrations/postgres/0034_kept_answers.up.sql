-- no-transaction
-- The session that a kept answer tells of, so that it goes with that session. Null: it tells of none, or an older release keeps it, for a day.
alter table idempotency_keys add column if not exists subject_id uuid;
drop index concurrently if exists idempotency_keys_subject;
create index concurrently idempotency_keys_subject on idempotency_keys (subject_id);
