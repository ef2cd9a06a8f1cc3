-- Three years of sessions, the newest a minute old, most of them with a score and the job that made it.
-- $N sessions; written out per run, so that each statement is one pass.
create temporary table numbered as
    select n, now() - interval '1 minute' - (n - 1) * (interval '1095 days' / $N) as at,
        md5('session ' || n)::uuid as session_id, md5('score ' || n)::uuid as score_id,
        -- Ordered by time, as the program's own ids are.
        (lpad(to_hex((extract(epoch from now() - (n - 1) * (interval '1095 days' / $N)) * 1000)::bigint), 12, '0')
            || '7' || substr(md5('job ' || n), 1, 19))::uuid as job_id,
        case when n % 50 = 7 then 'failed' when n % 97 = 3 then 'cancelled' when n % 500 = 11 then 'in_progress'
            else 'completed' end as status,
        -- Six dice: most scores lie in the middle.
        least(100, 20 + (abs(hashint4(n::int)) % 17) + (abs(hashint4(n::int * 3)) % 17) + (abs(hashint4(n::int * 7)) % 17)
            + (abs(hashint4(n::int * 11)) % 17) + (abs(hashint4(n::int * 13)) % 17)) as total,
        n % 20 <> 5 as scored, n > $N / 2 as old
    from generate_series(1, $N) n;

insert into alert_sessions (session_id, source, status, alert_type, agent, author, alert_type_lower, agent_lower, author_lower,
    alert_data, conversation, message_count, final_analysis, tools, tags, started_at, completed_at, created_at, updated_at,
    listed_at, content_hash, revision)
select session_id, 'bench', status, 'AlertType' || n % 41, 'agent-' || n % 7, 'person-' || n % 211, 'alerttype' || n % 41,
    'agent-' || n % 7, 'person-' || n % 211, '{"alert":"AlertType"}',
    '[{"role":"user","content":"case ' || n || ': a pod restarts again and again"},{"role":"assistant","content":"'
        || repeat('The probe begins before the process listens. ', 20) || '"}]',
    2, 'The probe begins before the process listens.', '["kubectl-logs"]',
    case when n % 100000 = 77 then '["rare"]' else format('["team-%s"]', n % 23) end::jsonb,
    at - interval '5 minutes', case when status = 'in_progress' then null else at end, at, at, at, md5(n::text), 1
from numbered;

insert into scoring_criteria_definitions (criteria_hash, kind, criteria_content, created_at)
select repeat('0a', 32), kind, criteria_content, created_at - interval '3 years' from scoring_criteria_definitions
where criteria_hash = '$CRITERIA';

insert into session_scores (score_id, session_id, job_id, criteria_hash, purpose, total_score, score_breakdown, score_reasoning,
    flags, judge_provider, judge_model, simulated, scored_triggered_by, scored_at)
select score_id, session_id, job_id, case when old then repeat('0a', 32) else '$CRITERIA' end, 'score', total,
    format('{"logical_flow":%s,"consistency":%s,"tool_relevance":%s,"synthesis_quality":%s}',
        total / 4, total / 4, total / 4, total - 3 * (total / 4))::jsonb,
    repeat('The agent looked at the logs and not at the probe. ', 10), '[]', 'openai', 'a-model', false, 'operator', at
from numbered where scored and status = 'completed';

insert into score_missing_tools (id, score_id, position, tool_name, rationale, tool_key)
select gen_random_uuid(), score_id, place, 'tool-' || (n * 31 + place * 17) % 60, 'it would have shown the probe', 'tool' || (n * 31 + place * 17) % 60
from numbered cross join lateral generate_series(0, n % 3 - 1) place where scored and status = 'completed';

insert into score_alternative_approaches (id, score_id, position, name, description, name_key)
select gen_random_uuid(), score_id, 0, 'Approach ' || n % 35, 'look at the probe first', 'approach' || n % 35
from numbered where scored and status = 'completed' and n % 2 = 0;

insert into scoring_batches (batch_id, name, kind, origin, state, total, created_by, created_at, touched_at, halted, finished_at,
    criteria_hash)
select md5('batch')::uuid, 'three years', 'session', 'rescore', 'completed', count(*), 'operator', now(), now(), false, now(),
    '$CRITERIA'
from numbered where status = 'completed';

insert into scoring_jobs (job_id, kind, subject_id, purpose, payload, judge, lane, priority, state, due_at, error_class, error,
    criteria_hash, force_rescore, triggered_by, tokens_in, tokens_out, cost_usd, created_at, started_at, finished_at, batch_id, item_no)
select job_id, 'session', session_id, 'score', jsonb_build_object('session_id', session_id, 'force_rescore', true), 'openai',
    'openai', 'bulk', case when scored then 'succeeded' else 'failed' end, at,
    case when not scored then 'unparsable' end, case when not scored then 'the reply is not JSON' end,
    case when old then repeat('0a', 32) else '$CRITERIA' end, true, 'operator', 900, 200, 0.001, at, at, at,
    md5('batch')::uuid, n
from numbered where status = 'completed';

insert into judge_usage_daily (day, judge, model, worker_id, calls, failed_calls, tokens_in, tokens_in_cached, tokens_out, cost_usd,
    unpriced_calls)
select to_char(at, 'YYYY-MM-DD'), 'openai', 'a-model', md5('worker')::uuid, count(*), 0, 900 * count(*), 0, 200 * count(*),
    0.001 * count(*), 0
from numbered where status = 'completed' group by 1;

drop table numbered;
