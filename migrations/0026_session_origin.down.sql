alter table alert_sessions drop column external_id;
alter table alert_sessions drop column reader;
