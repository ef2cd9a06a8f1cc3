-- Of one version of the criteria, session by session: what is exported, compared and counted of it.
drop index session_scores_criteria;
create index session_scores_criteria
    on session_scores (criteria_hash, session_id, purpose, simulated, scored_at, score_id, total_score);

-- SQLite looks for the columns of an index's own condition too.
drop index session_scores_figures;
create index session_scores_figures
    on session_scores (session_id, criteria_hash, simulated, total_score, score_id, superseded_at, purpose)
    where superseded_at is null and purpose = 'score';

-- The items of a batch that ask the same of one session several times, session by session.
create index scoring_jobs_panels on scoring_jobs (batch_id, subject_id, job_id)
    where purpose in ('repeat', 'jury');
