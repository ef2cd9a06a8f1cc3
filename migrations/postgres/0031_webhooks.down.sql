drop trigger scoring_batches_ended on scoring_batches;
drop trigger scoring_jobs_ended on scoring_jobs;
drop function webhooks_of_batch();
drop function webhooks_of_job();
drop table webhook_judges;
drop table webhook_deliveries;
drop table webhook_endpoints;
