drop table criteria_choices;
drop table criteria_names;
