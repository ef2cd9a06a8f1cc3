-- What a day of UTC comes to, so that a look at years doesn't read every score: the sessions of the day (completed, else first
-- seen), how their scores are spread, and the names in the current ones. Folded from sessions and scores, day by day, and never
-- ahead of them: a day with a mark is counted from its sessions until it is folded anew.
create table session_days (
    -- YYYY-MM-DD.
    day text primary key,
    sessions bigint not null
);
create table score_days (
    day text not null,
    criteria_hash varchar(64) not null,
    simulated boolean not null,
    -- Whether they are their sessions' current ones; the others were superseded.
    is_current boolean not null,
    total_score bigint not null,
    scores bigint not null,
    first_scored_at timestamptz not null,
    primary key (day, criteria_hash, simulated, is_current, total_score)
);
create table name_days (
    day text not null,
    -- missing_tool or approach.
    named text not null,
    criteria_hash varchar(64) not null,
    simulated boolean not null,
    name_key text not null,
    name text not null,
    -- A session counts once for a key, with the spelling of its first mention.
    sessions bigint not null,
    primary key (day, named, criteria_hash, simulated, name_key, name)
);

-- On which days there are sessions of an agent, with a tag, ..: where to look for what is rare.
create table facet_days (
    day text not null,
    -- A column of sessions, or tag.
    facet text not null,
    value text not null,
    sessions bigint not null,
    primary key (day, facet, value)
);
create index facet_days_value on facet_days (facet, value, day, sessions);

-- Days that are to be folded anew. Rows are only added by whoever changes a day and only removed by whoever folds it, so that
-- nobody waits for anybody: a day may have many.
create table day_marks (
    day text not null
);
create index day_marks_day on day_marks (day);
insert into day_marks (day) select distinct substr(cast(listed_at as text), 1, 10) from alert_sessions;

-- Held by whoever folds.
create table day_folds (
    one bigint primary key,
    folds bigint not null
);
insert into day_folds (one, folds) values (1, 0);

-- Current scores in their order, and the sessions of jobs that failed.
drop index session_scores_total_score;
-- The last condition says nothing of the scores, only of who asks: a planner that knows nothing of a table that was never analysed
-- takes any index of its current scores for a look by session, and this one would be read from end to end for each.
create index session_scores_by_total on session_scores (total_score, session_id)
    where superseded_at is null and purpose = 'score' and total_score >= 0;
create index scoring_jobs_failed on scoring_jobs (subject_id)
    where error_class is not null and subject_id is not null and purpose = 'score';
