alter table workers drop column queue_away;
