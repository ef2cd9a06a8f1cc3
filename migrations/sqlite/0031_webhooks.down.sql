drop trigger scoring_batches_ended;
drop trigger scoring_jobs_ended;
drop table webhook_judges;
drop table webhook_deliveries;
drop table webhook_endpoints;
