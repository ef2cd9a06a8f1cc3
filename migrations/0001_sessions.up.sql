-- What agents did. conversation and alert_data hold JSON as text: they are large, are read whole, and are never searched.
create table alert_sessions (
    session_id uuid primary key,
    source text not null,
    status text not null,
    alert_type text,
    agent text,
    author text,
    -- Lower-cased copies: SQLite's lower() knows ASCII only.
    alert_type_lower text,
    agent_lower text,
    author_lower text,
    alert_data text not null,
    conversation text not null,
    message_count bigint not null,
    final_analysis text,
    tools jsonb not null,
    tags jsonb not null,
    started_at timestamptz,
    completed_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- completed_at, else created_at: what lists sort by.
    listed_at timestamptz not null,
    -- SHA-256 of the content: tells an unchanged put from a changed one.
    content_hash text not null,
    revision bigint not null
);
create index alert_sessions_listed on alert_sessions (listed_at, session_id);

create table scoring_criteria_definitions (
    criteria_hash varchar(64) primary key,
    kind text not null,
    criteria_content jsonb not null,
    created_at timestamptz not null
);
