drop index scoring_jobs_panels;
drop index session_scores_figures;
create index session_scores_figures on session_scores (session_id, criteria_hash, simulated, total_score, score_id)
    where superseded_at is null and purpose = 'score';
drop index session_scores_criteria;
create index session_scores_criteria on session_scores (criteria_hash);
