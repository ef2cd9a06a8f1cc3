-- Up to where each kind of row is deleted by age, so that a limit that leaps ahead is noticed.
create table retention_limits (
    kind text primary key,
    -- The limit of the last completed run; null before the first.
    completed_before timestamptz,
    -- The limit that was refused since: so many rows of those stored are older. Null: none.
    refused_before timestamptz,
    refused_rows bigint not null default 0,
    stored_rows bigint not null default 0
);
