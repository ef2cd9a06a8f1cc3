alter table judges drop column last_error_at;
