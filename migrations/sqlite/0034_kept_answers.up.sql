-- The session that a kept answer tells of, so that it goes with that session. Null: it tells of none, or an older release keeps it, for a day.
alter table idempotency_keys add column subject_id uuid;
create index idempotency_keys_subject on idempotency_keys (subject_id);
