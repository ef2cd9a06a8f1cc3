drop table erased_jobs;
alter table judge_replies drop column job_id;
