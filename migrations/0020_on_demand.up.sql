-- Whether somebody asked for this job by itself: it runs though its batch is paused, and outlives a cancelled one.
alter table scoring_jobs add column on_demand boolean not null default false;
