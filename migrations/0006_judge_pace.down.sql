alter table judges drop column pace;
