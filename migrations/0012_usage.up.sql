-- What judge calls came to, by day of UTC. judge_calls are pruned by retention, these rows stay.
create table judge_usage_daily (
    -- YYYY-MM-DD.
    day text not null,
    judge text not null,
    model text not null,
    -- The process that counted: each adds to rows of its own, so that none waits for another.
    worker_id uuid not null,
    calls bigint not null,
    failed_calls bigint not null,
    tokens_in bigint not null,
    tokens_in_cached bigint not null,
    tokens_out bigint not null,
    -- Of the calls whose price is known.
    cost_usd double precision not null,
    unpriced_calls bigint not null,
    primary key (day, judge, model, worker_id)
);

-- What spellings of a name have in common, of its first mention in a score; null: it is mentioned before. Those of new scores
-- are made by the program, which folds more than ASCII.
alter table score_missing_tools add column tool_key text;
update score_missing_tools
    set tool_key = nullif(lower(replace(replace(replace(replace(trim(tool_name), '-', ''), '_', ''), ' ', ''), '.', '')), '');
update score_missing_tools set tool_key = null
    where exists (select 1 from score_missing_tools e where e.score_id = score_missing_tools.score_id
        and e.tool_key = score_missing_tools.tool_key and e.position < score_missing_tools.position);
create index score_missing_tools_key on score_missing_tools (tool_key, score_id) where tool_key is not null;

alter table score_alternative_approaches add column name_key text;
update score_alternative_approaches
    set name_key = nullif(lower(replace(replace(replace(replace(trim(name), '-', ''), '_', ''), ' ', ''), '.', '')), '');
update score_alternative_approaches set name_key = null
    where exists (select 1 from score_alternative_approaches e where e.score_id = score_alternative_approaches.score_id
        and e.name_key = score_alternative_approaches.name_key and e.position < score_alternative_approaches.position);
create index score_alternative_approaches_key on score_alternative_approaches (name_key, score_id) where name_key is not null;

-- All that is counted of current scores: their rows, with the judge's reasons, needn't be read.
create index session_scores_figures on session_scores (session_id, criteria_hash, simulated, total_score, score_id)
    where superseded_at is null and purpose = 'score';
