drop table judge_latency_daily;
