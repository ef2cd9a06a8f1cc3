drop index scoring_jobs_failed;
drop index session_scores_by_total;
create index session_scores_total_score on session_scores (total_score);
drop table day_folds;
drop table day_marks;
drop table facet_days;
drop table name_days;
drop table score_days;
drop table session_days;
