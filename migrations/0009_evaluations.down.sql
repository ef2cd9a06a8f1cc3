drop table evaluation_scores;
drop index scoring_jobs_batch_open;
drop index scoring_jobs_batch;
alter table scoring_jobs drop column item_no;
alter table scoring_jobs drop column batch_id;
drop table scoring_batches;
