-- Sessions by what an id of the tool that recorded them begins with.
create index alert_sessions_external_id on alert_sessions (external_id) where external_id is not null;
