drop table judge_usage_daily;
