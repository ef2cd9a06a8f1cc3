drop trigger alert_sessions_changed on alert_sessions;
drop trigger alert_sessions_came on alert_sessions;
drop function mark_days_left_and_entered();
drop function mark_day_entered();
