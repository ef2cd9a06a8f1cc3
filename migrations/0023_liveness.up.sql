-- A worker is judged by its own lease, also while another setting is rolled out. Null: an older release, judged by the reader's.
alter table workers add column lease_s double precision;
-- Who does the work that only one worker may do. A leader that has stopped, or was declared dead, leads no more.
create table leaders (
    role text primary key,
    worker_id uuid not null,
    since timestamptz not null
);
