drop trigger alert_sessions_changed;
drop trigger alert_sessions_came;
