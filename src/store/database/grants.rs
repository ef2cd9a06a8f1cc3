//! Privileges that the role must have on Gavel's tables. `gavel migrate` needs to own them; every other process needs
//! these only.

use super::migrations::tables;
use super::sql::{Sql, sql};

pub(in crate::store) const ATTEMPTED: &str = "reading the role's privileges";

/// One row for each `grant` that is missing. A schema that the role can't use hides its tables, so that it comes first.
pub(in crate::store) fn statement() -> Sql {
    let mut statement = sql!(
        "with place as (
            select n.oid, n.nspname from pg_namespace n
            where exists (select 1 from pg_class c where c.relnamespace = n.oid and c.relname = 'schema_versions')
              and n.nspname = any (select btrim(replace(name, '$user', current_user), ' \"')
                                   from unnest(string_to_array(current_setting('search_path'), ',')) as name))
         select format('grant usage on schema %I to %I', nspname, current_user) as missing
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
