//! Privileges that the role requires on Gavel's tables, and table locks of other clients. Only `gavel migrate` must own the
//! tables.

use super::migrations::tables;
use super::sql::{Statement, sql};

/// Returns one row per missing grant. Schemas come first, because an unusable schema hides its tables.
pub(in crate::store) fn statement() -> Statement {
    let mut statement = sql!(
        "reading the role's privileges",
        "with place as (
            select n.oid, n.nspname from pg_namespace n
            where exists (select 1 from pg_class c where c.relnamespace = n.oid and c.relname = 'schema_versions')
              and n.nspname = any (select btrim(replace(name, '$user', current_user), ' \"')
                                   from unnest(string_to_array(current_setting('search_path'), ',')) as name))
         select format('grant usage on schema %I to %I', nspname, current_user) as found
         from place where not has_schema_privilege(oid, 'usage')
         union all
         select format('grant %s on table %I.%I to %I', string_agg(p, ', '), nspname, relname, current_user)
         from place join pg_class c on c.relnamespace = place.oid and c.relkind in ('r', 'p')
         cross join unnest(array['select', 'insert', 'update', 'delete']) as p
         where has_schema_privilege(place.oid, 'usage') and not has_table_privilege(c.oid, p)
           and (c.relname = 'schema_versions' and p = 'select' or c.relname in "
    );
    statement.push_list(tables());
    statement.push(") group by nspname, relname order by 1");
    statement
}

/// Returns one row per foreign session that has locked one of Gavel's tables against writes for more than a second, or for an
/// unknown time.
pub(in crate::store) fn locks() -> Statement {
    let mut statement = sql!(
        "reading locks of tables",
        "select format('process %s holds %s on table %s; end it: `select pg_terminate_backend(%s)`',
                l.pid, l.mode, c.relname, l.pid) as found
         from pg_locks l join pg_class c on c.oid = l.relation left join pg_stat_activity a on a.pid = l.pid
         where l.granted and l.locktype = 'relation' and l.pid <> pg_backend_pid()
           and l.database = (select oid from pg_database where datname = current_database())
           and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
           and coalesce(a.xact_start < now() - interval '1 second', true)
           and pg_table_is_visible(c.oid) and c.relname in "
    );
    statement.push_list(tables());
    statement.push(" order by 1");
    statement
}
