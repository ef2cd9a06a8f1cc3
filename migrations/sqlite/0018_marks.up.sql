-- A session that comes or changes marks the days that it leaves and enters.
create trigger alert_sessions_came after insert on alert_sessions
begin
    insert into day_marks (day) values (substr(new.listed_at, 1, 10));
end;
create trigger alert_sessions_changed after update on alert_sessions
begin
    insert into day_marks (day) values (substr(old.listed_at, 1, 10)), (substr(new.listed_at, 1, 10));
end;
