-- The newest jobs of a state, however many others there are: by the key alone a look for the few that failed reads every job that ever was.
create index scoring_jobs_open on scoring_jobs (job_id) where finished_at is null;
create index scoring_jobs_errors on scoring_jobs (job_id) where error_class is not null;
-- What a session's judge used, the newest first, past all that ended without having asked one.
create index scoring_jobs_asked on scoring_jobs (finished_at)
    where finished_at is not null and subject_id is not null and tokens_out > 0;
