drop table provider_batch_items;
drop table provider_batches;
drop index scoring_batches_economy;
alter table scoring_batches drop column economy_note;
alter table scoring_batches drop column economy_heard_at;
alter table scoring_batches drop column economy_owner;
alter table scoring_batches drop column economy;
