drop index scoring_jobs_asked;
drop index scoring_jobs_errors;
drop index scoring_jobs_open;
