drop table scoring_batch_usage;
drop table scoring_batch_skips;
drop table scoring_batch_picks;
alter table scoring_batches drop column paused_by;
alter table scoring_batches drop column skipped;
alter table scoring_batches drop column expanded;
alter table scoring_batches drop column plan;
alter table scoring_batches drop column criteria_hash;
alter table scoring_batches drop column purpose;
