drop table scoring_criteria_definitions;
drop table alert_sessions;
