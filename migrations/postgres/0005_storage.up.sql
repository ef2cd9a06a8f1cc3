-- Half-empty pages keep every claim a heap-only update, and the vacuum follows the count of dead rows, not the table's size.
alter table scoring_jobs set (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

-- lz4 halves the cost of storing long conversations; servers that were built without it (or before 14) keep pglz.
do $$
begin
    execute 'alter table alert_sessions alter column conversation set compression lz4';
    execute 'alter table alert_sessions alter column alert_data set compression lz4';
exception when others then
    raise notice 'lz4 is not available: %', sqlerrm;
end
$$;
