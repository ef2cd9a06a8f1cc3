-- Imports from a TARSy: what is walked, how far it came, and who walks.
create table session_imports (
    import_id uuid primary key,
    -- What makes two imports the same: source and filter, as they were given.
    same_as text not null,
    -- An address, without credentials.
    source text not null,
    generation text,
    statuses jsonb not null,
    since_given text,
    until_given text,
    since timestamptz,
    -- Fixed at the start: what begins later belongs to the next import.
    until timestamptz not null,
    requests_per_second double precision not null,
    refresh boolean not null,
    state text not null check (state in ('running', 'completed', 'failed', 'cancelled')),
    -- Where the walk stands: the end of the window that is listed, the page of it, and how many it held.
    walk_until timestamptz not null,
    walk_page bigint not null,
    walk_total bigint,
    -- How many the list held at first.
    expected bigint,
    new_count bigint not null,
    updated_count bigint not null,
    unchanged_count bigint not null,
    failed_count bigint not null,
    last_error text,
    started_by text not null,
    -- Whose run it is, and when that one was last heard, by the database's clock.
    owner uuid,
    heartbeat_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz,
    check ((state = 'running') = (finished_at is null))
);
create unique index session_imports_running on session_imports (same_as) where finished_at is null;

-- What an import has seen while it runs, each id once; of one that ended, its failures with a reason.
create table session_import_items (
    import_id uuid not null references session_imports (import_id) on delete cascade,
    item text not null,
    outcome text not null,
    reason text,
    primary key (import_id, item)
);
