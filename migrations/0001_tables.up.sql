-- The schema that both databases share. The file of the same number in postgres/ or sqlite/ runs after it, in the same transaction.
-- It may be edited until 0.1.0 is released; from then on each change is a new numbered file that only adds.

-- Sessions and imports

-- `conversation` and `alert_data` hold JSON as text, because they are large, read whole, and not searched.
create table alert_sessions (
    session_id uuid primary key,
    source text not null,
    status text not null,
    alert_type text,
    agent text,
    author text,
    -- Lower-cased copies, because SQLite's lower() handles ASCII only.
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
    -- completed_at, else created_at; lists sort by it.
    listed_at timestamptz not null,
    -- SHA-256 of the content, to detect an unchanged put.
    content_hash text not null,
    revision bigint not null,
    -- Version of the reader that converted TARSy's events. Null: the session was put in another way.
    reader smallint,
    -- The session's id in the tool that recorded it, if it isn't ours.
    external_id text
);
create index alert_sessions_listed on alert_sessions (listed_at, session_id);

-- Imports from a TARSy: filter, progress, and the process that runs each.
create table session_imports (
    import_id uuid primary key,
    -- Deduplication key: source and filter as given.
    same_as text not null,
    -- A URL without credentials.
    source text not null,
    generation text,
    statuses jsonb not null,
    since_given text,
    until_given text,
    since timestamptz,
    -- Fixed at the start, so that later sessions belong to the next import.
    until timestamptz not null,
    requests_per_second double precision not null,
    refresh boolean not null,
    state text not null check (state in ('running', 'completed', 'failed', 'cancelled')),
    -- Cursor: end of the listed window, page, and number of sessions in the window.
    walk_until timestamptz not null,
    walk_page bigint not null,
    walk_total bigint,
    -- Number of sessions that the list had at the start.
    expected bigint,
    new_count bigint not null,
    updated_count bigint not null,
    unchanged_count bigint not null,
    failed_count bigint not null,
    last_error text,
    started_by text not null,
    -- The process that runs it, and its last heartbeat by the database's clock.
    owner uuid,
    heartbeat_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz,
    check ((state = 'running') = (finished_at is null))
);
create unique index session_imports_running on session_imports (same_as) where finished_at is null;

-- Ids that a running import has seen; of a finished one, its failures.
create table session_import_items (
    import_id uuid not null references session_imports (import_id) on delete cascade,
    item text not null,
    outcome text not null,
    reason text,
    primary key (import_id, item)
);

-- Criteria

create table scoring_criteria_definitions (
    criteria_hash varchar(64) primary key,
    kind text not null,
    criteria_content jsonb not null,
    created_at timestamptz not null
);
create index scoring_criteria_definitions_created_at on scoring_criteria_definitions (created_at);

-- Names and notes that users give to a version of the criteria.
create table criteria_names (
    criteria_hash varchar(64) primary key references scoring_criteria_definitions (criteria_hash) on delete cascade,
    name text,
    note text,
    named_by text not null,
    named_at timestamptz not null
);

-- The version that users made current: the newest row of a kind. A null hash returns to the version of the servers' files.
create table criteria_choices (
    choice_id uuid primary key,
    kind text not null,
    criteria_hash varchar(64) references scoring_criteria_definitions (criteria_hash),
    chosen_by text not null,
    chosen_at timestamptz not null
);
create index criteria_choices_newest on criteria_choices (kind, chosen_at, choice_id);

-- Jobs and batches

create table scoring_jobs (
    job_id uuid primary key,
    kind text not null,
    subject_id uuid,
    purpose text not null,
    payload jsonb not null,
    judge text,
    lane text not null,
    priority text not null,
    state text not null,
    claim_no bigint not null default 0,
    attempts bigint not null default 0,
    losses bigint not null default 0,
    retries bigint not null default 0,
    wait_reason text,
    wait_until timestamptz,
    waiting_since timestamptz,
    due_at timestamptz not null,
    worker_id uuid,
    error_class text,
    error text,
    criteria_hash varchar(64) not null,
    force_rescore boolean not null,
    -- The user who requested it, and the name of the token that authenticated the request.
    triggered_by varchar(255) not null,
    authenticated_as varchar(255),
    batch_id uuid,
    item_no bigint,
    -- Requested by itself: it runs although its batch is paused, and is kept when the batch is cancelled.
    on_demand boolean not null default false,
    result jsonb,
    simulated boolean not null default false,
    tokens_in bigint not null default 0,
    tokens_out bigint not null default 0,
    -- Null: the price of some call is unknown.
    cost_usd double precision default 0,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    constraint scoring_jobs_state check (state in ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled')),
    constraint scoring_jobs_priority check (priority in ('interactive', 'bulk')),
    constraint scoring_jobs_finished check ((state in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
    constraint scoring_jobs_failed check ((state = 'failed') = (error_class is not null)),
    constraint scoring_jobs_waiting check ((state = 'waiting') = (wait_reason is not null))
);
-- No index here may name the state, as a column or in its predicate: it would end HOT updates, and Postgres would run claims and
-- records through it instead of through the primary key.
create unique index scoring_jobs_one_active on scoring_jobs (kind, subject_id) where finished_at is null and purpose = 'score';
create index scoring_jobs_due on scoring_jobs (lane, priority, due_at, job_id) where finished_at is null;
create index scoring_jobs_subject on scoring_jobs (subject_id, job_id) where subject_id is not null;
create index scoring_jobs_finished_at on scoring_jobs (finished_at) where finished_at is not null;
create index scoring_jobs_waiting_since on scoring_jobs (waiting_since) where waiting_since is not null;
create unique index scoring_jobs_batch on scoring_jobs (batch_id, item_no) where batch_id is not null;
-- Whether a batch has unfinished items.
create index scoring_jobs_batch_open on scoring_jobs (batch_id) where finished_at is null and batch_id is not null;
-- Items of a batch that judge one session several times, ordered by session.
create index scoring_jobs_panels on scoring_jobs (batch_id, subject_id, job_id) where purpose in ('repeat', 'jury');
-- Sessions with failed jobs.
create index scoring_jobs_failed on scoring_jobs (subject_id)
    where error_class is not null and subject_id is not null and purpose = 'score';
-- The newest unfinished and failed jobs; a scan of the primary key would read every finished job.
create index scoring_jobs_open on scoring_jobs (job_id) where finished_at is null;
create index scoring_jobs_errors on scoring_jobs (job_id) where error_class is not null;
-- Newest jobs that called a judge.
create index scoring_jobs_asked on scoring_jobs (finished_at)
    where finished_at is not null and subject_id is not null and tokens_out > 0;

create table idempotency_keys (
    key_hash text primary key,
    request_hash text not null,
    effect_id uuid not null,
    holder uuid not null,
    locked_until timestamptz not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    status bigint,
    headers jsonb,
    body text,
    -- The session that the stored response is about; the response is deleted with it.
    subject_id uuid
);
create index idempotency_keys_expires on idempotency_keys (expires_at);
create index idempotency_keys_subject on idempotency_keys (subject_id);

-- Jobs of erased sessions: calls that were in flight are written later, and deleted by the next prune.
create table erased_jobs (
    job_id uuid primary key,
    erased_at timestamptz not null
);

-- A batch: many items of one kind, requested together. Its items are jobs, which run only while it is `running`.
create table scoring_batches (
    batch_id uuid primary key,
    name text,
    kind text not null,
    -- suite (items given) or rescore (sessions found by a filter).
    origin text not null,
    purpose text not null default 'score',
    -- Null: items of several criteria.
    criteria_hash varchar(64),
    state text not null,
    filter jsonb,
    -- Of a rescore: how items are made of the sessions.
    plan jsonb,
    cursor text,
    threshold double precision,
    budget_usd double precision,
    -- Items inserted so far; final after `expanding`.
    total bigint not null default 0,
    created_by varchar(255) not null,
    authenticated_as varchar(255),
    created_at timestamptz not null,
    -- Last heartbeat of its maker while `expanding`; a batch whose maker is silent is deleted.
    touched_at timestamptz not null,
    -- Items are not claimed: while `expanding` or `paused`, and until the items of a cancelled batch have ended.
    halted boolean not null,
    -- Its maker was silent while `expanding`: it is being deleted, and hidden.
    abandoned boolean not null default false,
    -- Whether all items are inserted. Items of a rescore run while it expands.
    expanded boolean not null default true,
    -- Of a rescore: number of sessions skipped, by reason.
    skipped jsonb,
    -- operator or budget.
    paused_by text,
    -- Calls through a provider's batch API: asked (items wait for replies), collected; null: not used.
    economy text,
    -- The worker that runs it, and its last heartbeat by the database's clock.
    economy_owner uuid,
    economy_heard_at timestamptz,
    -- What it waits for, as text for users.
    economy_note text,
    finished_at timestamptz,
    -- Times that finished items were queued again, which invalidates stored figures.
    reopened bigint not null default 0,
    -- Stored once all items have ended, because counting a million items takes seconds.
    figures jsonb,
    constraint scoring_batches_state check (state in ('expanding', 'running', 'paused', 'completed', 'cancelled')),
    constraint scoring_batches_finished check ((state in ('completed', 'cancelled')) = (finished_at is not null))
);
create index scoring_batches_created on scoring_batches (created_at, batch_id);
-- Used by rescue.
create index scoring_batches_open on scoring_batches (batch_id) where finished_at is null;
-- Used by claims.
create index scoring_batches_halted on scoring_batches (batch_id) where halted;
create index scoring_batches_economy on scoring_batches (batch_id) where economy = 'asked';

-- Sessions of a rescore that were named or sampled; deleted once it has expanded.
create table scoring_batch_picks (
    batch_id uuid not null,
    session_id uuid not null,
    primary key (batch_id, session_id)
);

-- Sessions that a rescore skipped because they had an active job.
create table scoring_batch_skips (
    batch_id uuid not null,
    session_id uuid not null,
    -- Null: the job had ended when it was looked up.
    job_id uuid,
    primary key (batch_id, session_id)
);

-- Usage of a batch's calls, one row a worker, so that workers don't contend for a row.
create table scoring_batch_usage (
    batch_id uuid not null,
    worker_id uuid not null,
    cost_usd double precision not null,
    -- Runs with unknown cost.
    unpriced bigint not null,
    tokens_in bigint not null,
    tokens_out bigint not null,
    primary key (batch_id, worker_id)
);

-- One file of a provider's batch API.
create table provider_chunks (
    -- Generated before it is sent.
    chunk_id uuid primary key,
    batch_id uuid not null,
    judge text not null,
    -- The provider's id; null: not confirmed.
    provider_id text,
    state text not null,
    requests bigint not null,
    -- Ended requests, as reported by the provider.
    done bigint not null default 0,
    made_at timestamptz not null,
    submitted_at timestamptz,
    error text,
    constraint provider_chunks_state check (state in ('making', 'submitted', 'collected', 'failed'))
);
create index provider_chunks_batch on provider_chunks (batch_id, chunk_id);

-- Items that were sent, each in one chunk.
create table provider_chunk_items (
    job_id uuid primary key,
    chunk_id uuid not null,
    -- replied: its reply is stored; failed: an ordinary call follows; null: pending.
    outcome text,
    error text,
    -- Key of the question as sent; a reply to another question is dropped. Null: not sent.
    cache_key uuid,
    constraint provider_chunk_items_outcome check (outcome in ('replied', 'failed'))
);
create index provider_chunk_items_chunk on provider_chunk_items (chunk_id, job_id);

-- Scores

create table session_scores (
    score_id uuid primary key,
    session_id uuid not null references alert_sessions (session_id) on delete cascade,
    job_id uuid not null,
    criteria_hash varchar(64) not null references scoring_criteria_definitions (criteria_hash),
    -- Only scores with purpose `score` become their session's current one.
    purpose text not null,
    total_score integer not null,
    score_breakdown jsonb not null,
    score_reasoning text not null,
    flags jsonb not null,
    judge_provider text not null,
    judge_model text not null,
    simulated boolean not null,
    -- The user who requested it, and the name of the token that authenticated the request.
    scored_triggered_by varchar(255) not null,
    authenticated_as varchar(255),
    scored_at timestamptz not null,
    -- Null: current, if the purpose is `score`.
    superseded_at timestamptz,
    constraint session_scores_total check (total_score between 0 and 100)
);
create unique index session_scores_job on session_scores (job_id);
create unique index session_scores_current on session_scores (session_id) where superseded_at is null and purpose = 'score';
create index session_scores_session on session_scores (session_id, scored_at);
create index session_scores_scored_at on session_scores (scored_at);
-- Scores of one version of the criteria, ordered by session: exports, comparisons and counts.
create index session_scores_criteria
    on session_scores (criteria_hash, session_id, purpose, simulated, scored_at, score_id, total_score);
-- Covers the figures of current scores, so that rows with long texts aren't read. SQLite also needs the columns of the predicate.
create index session_scores_figures
    on session_scores (session_id, criteria_hash, simulated, total_score, score_id, superseded_at, purpose)
    where superseded_at is null and purpose = 'score';
-- Current scores in order. The last condition is always true and must be in the query too: on a table without statistics the planner would
-- otherwise choose this index for a lookup by session and read all of it.
create index session_scores_by_total on session_scores (total_score, session_id)
    where superseded_at is null and purpose = 'score' and total_score >= 0;

create table score_missing_tools (
    id uuid primary key,
    score_id uuid not null references session_scores (score_id) on delete cascade,
    position integer not null,
    tool_name varchar(255) not null,
    rationale text not null,
    -- Common spelling of the name, at its first mention in a score; else null.
    tool_key text
);
create unique index score_missing_tools_score on score_missing_tools (score_id, position);
create index score_missing_tools_name on score_missing_tools (tool_name);
create index score_missing_tools_key on score_missing_tools (tool_key, score_id) where tool_key is not null;

create table score_alternative_approaches (
    id uuid primary key,
    score_id uuid not null references session_scores (score_id) on delete cascade,
    position integer not null,
    name varchar(255) not null,
    description text not null,
    -- As tool_key.
    name_key text
);
create unique index score_alternative_approaches_score on score_alternative_approaches (score_id, position);
create index score_alternative_approaches_name on score_alternative_approaches (name);
create index score_alternative_approaches_key on score_alternative_approaches (name_key, score_id) where name_key is not null;

create table score_alternative_approach_steps (
    id uuid primary key,
    approach_id uuid not null references score_alternative_approaches (id) on delete cascade,
    step_order integer not null,
    step_description text not null
);
create unique index score_alternative_approach_steps_approach on score_alternative_approach_steps (approach_id, step_order);

-- For SQL by hand: the tables above also hold superseded scores and those of previews, repeats and juries.
create view current_session_scores as
    select score_id, session_id, criteria_hash, total_score, score_breakdown, score_reasoning, scored_triggered_by, authenticated_as,
        scored_at, judge_provider, judge_model, simulated
    from session_scores
    where superseded_at is null and purpose = 'score';
create view current_missing_tools as
    select t.id, t.score_id, s.session_id, t.position, t.tool_name, t.rationale
    from score_missing_tools t join session_scores s on s.score_id = t.score_id
    where s.superseded_at is null and s.purpose = 'score';
create view current_alternative_approaches as
    select a.id, a.score_id, s.session_id, a.position, a.name, a.description
    from score_alternative_approaches a join session_scores s on s.score_id = a.score_id
    where s.superseded_at is null and s.purpose = 'score';
create view current_alternative_approach_steps as
    select p.id, p.approach_id, a.score_id, s.session_id, p.step_order, p.step_description
    from score_alternative_approach_steps p join score_alternative_approaches a on a.id = p.approach_id
        join session_scores s on s.score_id = a.score_id
    where s.superseded_at is null and s.purpose = 'score';

-- Results of queries, QAS cases and metric cases. A job has one row; a retry replaces it.
create table evaluation_scores (
    score_id uuid primary key,
    job_id uuid not null,
    kind text not null,
    batch_id uuid,
    item_no bigint,
    criteria_hash varchar(64) not null,
    -- 0-1; null: incomplete.
    total double precision,
    passed boolean,
    threshold double precision,
    components jsonb not null,
    -- {class, message} if the judge failed.
    error jsonb,
    simulated boolean not null,
    scored_at timestamptz not null
);
create unique index evaluation_scores_job on evaluation_scores (job_id);
create index evaluation_scores_criteria on evaluation_scores (criteria_hash);
create index evaluation_scores_batch on evaluation_scores (batch_id, item_no) where batch_id is not null;

-- Ratings by users: one a user and score, and one a user and session; a new one replaces it.
create table human_ratings (
    rating_id uuid primary key,
    session_id uuid not null references alert_sessions (session_id) on delete cascade,
    -- Null: it rates the session, whichever score it has.
    score_id uuid references session_scores (score_id) on delete cascade,
    -- total (0-100, in total), rating (one of five words) or quality (one of three, in word).
    form text not null,
    total bigint,
    word text,
    rated_by text not null,
    comment text,
    rated_at timestamptz not null,
    constraint human_ratings_form check (form in ('total', 'rating', 'quality')),
    constraint human_ratings_given check ((form = 'total') = (total is not null) and (form = 'total') = (word is null)),
    constraint human_ratings_total check (total is null or total between 0 and 100)
);
create unique index human_ratings_of_score on human_ratings (score_id, rated_by) where score_id is not null;
create unique index human_ratings_of_session on human_ratings (session_id, rated_by) where score_id is null;
create index human_ratings_listed on human_ratings (session_id, rated_at);

-- Judges and workers

create table judges (
    name text not null,
    worker_id uuid not null,
    breaker text not null,
    closed text,
    closed_until timestamptz,
    failures_in_row bigint not null,
    in_flight bigint not null,
    last_error text,
    last_error_at timestamptz,
    pace jsonb,
    updated_at timestamptz not null,
    primary key (name, worker_id)
);

-- Lanes, or the whole queue, that are closed until a user opens them or `until` has passed.
create table holds (
    target text primary key,
    reason text not null,
    message text not null,
    set_by text not null,
    since timestamptz not null,
    until timestamptz
);

-- Log of calls, and the cache of replies.
create table judge_calls (
    call_id uuid primary key,
    job_id uuid not null,
    judge text not null,
    model text not null,
    called_at timestamptz not null,
    latency_us bigint not null,
    error_class text,
    message text,
    status bigint,
    tokens_in bigint not null,
    tokens_in_cached bigint not null,
    tokens_out bigint not null,
    cost_usd double precision,
    reply text,
    -- Key of the question: a reply is reused for a day, and for 8 days if it was collected from a batch API.
    cache_key uuid,
    repaired boolean not null default false,
    simulated boolean not null default false,
    retries_spent bigint not null default 0
);
create index judge_calls_job on judge_calls (job_id, called_at);
create index judge_calls_called on judge_calls (called_at);
create index judge_calls_cache_key on judge_calls (cache_key, called_at) where cache_key is not null;

-- Usage by UTC day; kept when calls are pruned. One row a process, so that processes don't contend for a row.
create table judge_usage_daily (
    -- YYYY-MM-DD.
    day text not null,
    judge text not null,
    model text not null,
    worker_id uuid not null,
    calls bigint not null,
    failed_calls bigint not null,
    tokens_in bigint not null,
    tokens_in_cached bigint not null,
    tokens_out bigint not null,
    -- Of calls with a known price.
    cost_usd double precision not null,
    unpriced_calls bigint not null,
    primary key (day, judge, model, worker_id)
);

-- Latency histogram of successful calls by UTC day of sending; kept when calls are pruned. One row a process, as above.
create table judge_latency_daily (
    day text not null,
    judge text not null,
    worker_id uuid not null,
    -- Up to 2^(bucket / 4) ms, and more than the bucket before; the last one has no upper bound.
    bucket bigint not null,
    calls bigint not null,
    primary key (day, judge, worker_id, bucket)
);

create table workers (
    worker_id uuid primary key,
    name text not null,
    version text not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    in_hand bigint not null,
    state text not null,
    -- Declared dead since its last heartbeat: its jobs may be taken back.
    declared_dead boolean not null default false,
    -- Its own lease, because the setting may be changing while a release is rolled out.
    lease_s double precision not null,
    -- Names of judges that it can call, and `entry:*` for any model of an entry.
    judges jsonb,
    -- It can't reach the queue, so it leads only if no other worker can.
    queue_away boolean not null default false,
    constraint workers_state check (state in ('running', 'draining', 'stopped'))
);

-- Owner of the work that only one worker may do.
create table leaders (
    role text primary key,
    worker_id uuid not null,
    since timestamptz not null
);

-- Rollups by UTC day of sessions, so that figures of years don't read every score. A day in dirty_days is counted from its sessions until it
-- is rolled up again.

create table session_days (
    -- YYYY-MM-DD.
    day text primary key,
    sessions bigint not null
);

create table score_days (
    day text not null,
    criteria_hash varchar(64) not null,
    simulated boolean not null,
    -- False: superseded.
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
    -- A session counts once a key, with the spelling of its first mention.
    sessions bigint not null,
    primary key (day, named, criteria_hash, simulated, name_key, name)
);

-- Days that have sessions of an agent, with a tag, and so on: where to look for rare values.
create table facet_days (
    day text not null,
    -- A column of sessions, or tag.
    facet text not null,
    value text not null,
    sessions bigint not null,
    primary key (day, facet, value)
);
create index facet_days_value on facet_days (facet, value, day, sessions);

-- Append-only for writers, and a day may have many rows, so that no writer waits for another.
create table dirty_days (
    day text not null
);
create index dirty_days_day on dirty_days (day);

-- Webhooks and access

-- The secret is stored in plain text, because events are signed with it.
create table webhook_endpoints (
    endpoint_id uuid primary key,
    name text not null,
    url text not null,
    secret text,
    events jsonb not null,
    format text not null,
    from_settings boolean not null,
    created_by text not null,
    created_at timestamptz not null,
    constraint webhook_endpoints_format check (format in ('standard', 'slack'))
);
create unique index webhook_endpoints_name on webhook_endpoints (name);

-- Judges whose closing was reported.
create table webhook_judges (
    judge text primary key,
    reason text
);

-- Browsers that signed in with a token. Only hashes are stored: `id_hash` of the cookie's id, `token_hash` of that id and the token, so that a
-- changed or removed token ends its sign-ins.
create table sign_ins (
    id_hash varchar(64) primary key,
    token_name text not null,
    token_hash varchar(64) not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index sign_ins_expire on sign_ins (expires_at);

-- Retention limit of each kind of row, to detect a limit that jumps ahead.
create table retention_limits (
    kind text primary key,
    -- Limit of the last completed run; null before the first.
    completed_before timestamptz,
    -- Limit that was refused since, and its numbers of older and stored rows. Null: none.
    refused_before timestamptz,
    refused_rows bigint not null default 0,
    stored_rows bigint not null default 0
);

-- The id of this database in Redis, so that installations that share a Redis share no keys. One row.
create table installation (
    only_row integer primary key default 1 check (only_row = 1),
    installation_id uuid not null
);
