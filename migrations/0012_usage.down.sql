drop index session_scores_figures;
drop index score_alternative_approaches_key;
alter table score_alternative_approaches drop column name_key;
drop index score_missing_tools_key;
alter table score_missing_tools drop column tool_key;
drop table judge_usage_daily;
