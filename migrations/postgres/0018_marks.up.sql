-- A session that comes or changes marks the days that it leaves and enters: only a trigger sees both under any order of puts.
create function mark_day_entered() returns trigger language plpgsql as $$
begin
    insert into day_marks (day) values (to_char(new.listed_at at time zone 'UTC', 'YYYY-MM-DD'));
    return null;
end $$;
create function mark_days_left_and_entered() returns trigger language plpgsql as $$
begin
    insert into day_marks (day) values
        (to_char(old.listed_at at time zone 'UTC', 'YYYY-MM-DD')), (to_char(new.listed_at at time zone 'UTC', 'YYYY-MM-DD'));
    return null;
end $$;
create trigger alert_sessions_came after insert on alert_sessions
    for each row execute function mark_day_entered();
create trigger alert_sessions_changed after update on alert_sessions
    for each row execute function mark_days_left_and_entered();
