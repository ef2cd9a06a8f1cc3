drop table human_ratings;
