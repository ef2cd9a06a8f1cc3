-- Whether the worker can't reach the queue: it leads only where nobody else can either.
alter table workers add column queue_away boolean not null default false;
