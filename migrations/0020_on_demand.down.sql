alter table scoring_jobs drop column on_demand;
