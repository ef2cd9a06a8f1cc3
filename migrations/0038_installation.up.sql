-- The id of this database in Redis, so that installations that share a Redis share no keys. One row.
create table installation (
    only_row integer primary key default 1 check (only_row = 1),
    installation_id uuid not null
);
