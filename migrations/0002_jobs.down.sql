drop table workers;
drop table scoring_jobs;
