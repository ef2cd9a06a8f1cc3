-- no-transaction
-- Sessions by what an id of the tool that recorded them begins with; byte by byte, as a beginning is a range only then.
drop index concurrently if exists alert_sessions_external_id;
create index concurrently alert_sessions_external_id on alert_sessions (external_id collate "C") where external_id is not null;
