drop trigger scoring_batches_ended on scoring_batches;
drop trigger scoring_jobs_ended on scoring_jobs;
drop trigger alert_sessions_updated on alert_sessions;
drop trigger alert_sessions_inserted on alert_sessions;
drop function webhooks_of_batch();
drop function webhooks_of_job();
drop function mark_days_left_and_entered();
drop function mark_day_entered();
drop table webhook_deliveries;
