create table session_scores (
    score_id uuid primary key,
    session_id uuid not null references alert_sessions (session_id) on delete cascade,
    job_id uuid not null,
    criteria_hash varchar(64) not null,
    purpose text not null,
    total_score bigint not null,
    score_breakdown jsonb not null,
    score_reasoning text not null,
    flags jsonb not null,
    judge_provider text not null,
    judge_model text not null,
    simulated boolean not null,
    scored_triggered_by text not null,
    scored_at timestamptz not null,
    superseded_at timestamptz,
    constraint session_scores_total check (total_score between 0 and 100)
);
create unique index session_scores_job on session_scores (job_id);
create unique index session_scores_current on session_scores (session_id)
    where superseded_at is null and purpose = 'score';
create index session_scores_session on session_scores (session_id, scored_at);
create index session_scores_criteria on session_scores (criteria_hash);
create index session_scores_total_score on session_scores (total_score);

create table score_missing_tools (
    score_id uuid not null references session_scores (score_id) on delete cascade,
    position bigint not null,
    tool_name text not null,
    tool_rationale text not null,
    primary key (score_id, position)
);
create index score_missing_tools_name on score_missing_tools (tool_name);

create table score_alternative_approaches (
    score_id uuid not null references session_scores (score_id) on delete cascade,
    position bigint not null,
    name text not null,
    description text not null,
    primary key (score_id, position)
);
create index score_alternative_approaches_name on score_alternative_approaches (name);

create table score_alternative_approach_steps (
    score_id uuid not null,
    approach_position bigint not null,
    step_order bigint not null,
    step_description text not null,
    primary key (score_id, approach_position, step_order),
    foreign key (score_id, approach_position)
        references score_alternative_approaches (score_id, position) on delete cascade
);
