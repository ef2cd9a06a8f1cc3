drop index idempotency_keys_subject;
alter table idempotency_keys drop column subject_id;
