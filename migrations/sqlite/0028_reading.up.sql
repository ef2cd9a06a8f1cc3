-- For people who look by hand: the one score of each session that counts, and what they sort by.
create view current_session_scores as
    select score_id, session_id, criteria_hash, total_score, score_breakdown, score_reasoning, scored_triggered_by, scored_at,
        judge_provider, judge_model, simulated
    from session_scores
    where superseded_at is null and purpose = 'score';
create index session_scores_scored_at on session_scores (scored_at);
create index scoring_criteria_definitions_created_at on scoring_criteria_definitions (created_at);
