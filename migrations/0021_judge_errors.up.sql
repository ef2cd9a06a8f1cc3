-- When the last error of `last_error` came: one that a judge has long outlived is no news.
alter table judges add column last_error_at timestamptz;
