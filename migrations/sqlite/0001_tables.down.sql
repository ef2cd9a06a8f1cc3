drop trigger scoring_batches_ended;
drop trigger scoring_jobs_ended;
drop trigger alert_sessions_updated;
drop trigger alert_sessions_inserted;
drop table webhook_deliveries;
