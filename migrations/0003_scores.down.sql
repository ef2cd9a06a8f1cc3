drop table score_alternative_approach_steps;
drop table score_alternative_approaches;
drop table score_missing_tools;
drop table session_scores;
