-- Which reading of a TARSy's events wrote the session. Null: an older one, or it came in another way.
alter table alert_sessions add column reader smallint;
-- What the session is called where it came from, if that isn't our id.
alter table alert_sessions add column external_id text;
