drop table judge_calls;
drop table judge_replies;
drop table brakes;
drop table judges;
