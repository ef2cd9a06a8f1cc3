use super::*;
use crate::TableName;

mod clauses;
mod hostile;

fn read(sql: &str, dialect: Dialect) -> QueryShape {
    parse(sql, dialect).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn tables(sql: &str, dialect: Dialect) -> Vec<String> {
    let mut names: Vec<_> = read(sql, dialect)
        .tables
        .iter()
        .map(TableName::dotted)
        .collect();
    names.sort();
    names
}

#[track_caller]
fn assert_tables(dialect: Dialect, cases: &[(&str, &[&str])]) {
    for (sql, expected) in cases {
        assert_eq!(&tables(sql, dialect), expected, "{dialect}: {sql}");
    }
}

#[test]
fn finds_tables_read_or_written_by_statements() {
    assert_tables(
        Dialect::Generic,
        &[
            ("select 1", &[]),
            ("select * from a, b join c on b.x = c.x", &["a", "b", "c"]),
            (
                "select (select max(x) from b) from a where y in (select y from c)",
                &["a", "b", "c"],
            ),
            ("select * from (select * from a) d", &["a"]),
            ("select * from (a join b on a.x = b.x)", &["a", "b"]),
            (
                "select * from a union all (select * from b except select * from c)",
                &["a", "b", "c"],
            ),
            ("insert into a (x) select x from b", &["a", "b"]),
            (
                "update a set x = (select max(x) from b) where y = 1",
                &["a", "b"],
            ),
            ("delete from a where x in (select x from b)", &["a", "b"]),
            (
                "merge into a using b on a.x = b.x when matched then update set y = b.y when not matched then insert (x) values (b.x)",
                &["a", "b"],
            ),
            ("create table a as select * from b", &["a", "b"]),
            ("create table a like b", &["a", "b"]),
            ("create view a as select * from b", &["a", "b"]),
            ("drop table a, b", &["a", "b"]),
            ("drop view a", &["a"]),
            ("drop index a", &[]),
            ("truncate table a", &["a"]),
            ("alter table a add column x int", &["a"]),
            ("select * into a from b", &["a", "b"]),
            ("select x, y into v, w from a", &["a"]),
            ("explain select * from a", &["a"]),
            ("select 1 from a; delete from b", &["a", "b"]),
            ("select * from A, a, \"a\"", &["A"]),
            ("select a.x from s.t as a", &["s.t"]),
            ("select * from \"s p\".\"t\"", &["s p.t"]),
            ("with c as (select 1) table a", &["a"]),
        ],
    );
}

#[test]
fn ignores_names_other_than_base_relations() {
    assert_tables(
        Dialect::Generic,
        &[
            ("select * from (values (1), (2)) v(x)", &[]),
            ("values (1)", &[]),
            (
                "select * from generate_series(1, 3) g join a on a.x = g",
                &["a"],
            ),
            ("select * from unnest(array[1, 2])", &[]),
            ("select 'from b' from a -- join c", &["a"]),
            ("select extract(year from d) from a", &["a"]),
            ("select * from a where x is distinct from y", &["a"]),
            (
                "select * from employees.employees",
                &["employees.employees"],
            ),
            (
                "select * from c.db.a as c cross join c.db.d as d",
                &["c.db.a", "c.db.d"],
            ),
            (
                "select * from public.orders as sales join sales.items i on true",
                &["public.orders", "sales.items"],
            ),
        ],
    );
    assert_tables(
        Dialect::Redshift,
        &[
            ("select * from a, a.items i", &["a"]),
            (
                "select (select count(*) from o.items) from orders o",
                &["orders"],
            ),
        ],
    );
    assert_eq!(
        read("select * from f(1), g(2), f(3)", Dialect::Generic).unknown_functions,
        ["f", "g"]
    );
}

#[test]
fn cte_shadows_table_only_in_scope() {
    assert_tables(
        Dialect::Generic,
        &[
            (
                "with users as (select * from users) select * from users",
                &["users"],
            ),
            (
                "with a as (select 1), b as (select * from a) select * from b",
                &[],
            ),
            (
                "with b as (select * from a), a as (select 1) select * from b, a",
                &["a"],
            ),
            (
                "with recursive a as (select 1 union all select * from a) select * from a",
                &[],
            ),
            (
                "with recursive b as (select * from a), a as (select 1) select * from b",
                &[],
            ),
            (
                "select * from (with a as (select 1) select * from a) d, a",
                &["a"],
            ),
            ("with a as (select 1) select * from s.a", &["s.a"]),
            ("with a as (select 1) select * from A", &[]),
            (
                "with a as (with b as (select * from c) select * from b) select * from a, b",
                &["b", "c"],
            ),
            ("with a as (select 1) insert into a select * from a", &["a"]),
            ("with a as (select * from t) table a", &["t"]),
            (
                "with a as (select 1) select * from t; select * from a",
                &["a", "t"],
            ),
            (
                "select * from t where exists (with t as (select 1) select * from t)",
                &["t"],
            ),
            (
                "with a as (select 1) select (select x from a) from t where y in (select y from a)",
                &["t"],
            ),
        ],
    );
}

#[test]
fn recursion_is_implied_in_some_dialects() {
    let sql = "with a as (select 1 as x union all select x + 1 from a where x < 9) select * from a";
    for dialect in [Dialect::Mssql, Dialect::Sqlite, Dialect::Snowflake] {
        assert_tables(dialect, &[(sql, &[])]);
        assert_tables(
            dialect,
            &[(
                "with users as (select * from users) select * from users",
                &["users"],
            )],
        );
    }
    assert_tables(Dialect::Postgres, &[(sql, &["a"])]);
}

#[test]
fn only_keyword_is_not_a_table() {
    for dialect in [Dialect::Generic, Dialect::Postgres, Dialect::Ansi] {
        assert_tables(
            dialect,
            &[
                ("select * from only t", &["t"]),
                (
                    "select * from ONLY public.t as x where x.a = 1",
                    &["public.t"],
                ),
                ("select * from a join only b on a.x = b.x", &["a", "b"]),
                ("select * from only (t)", &["t"]),
                ("update only t set a = 1", &["t"]),
                ("delete from only t where a = 1", &["t"]),
                ("select * from \"only\" t", &["only"]),
                ("select only from t", &["t"]),
            ],
        );
    }
    for dialect in [Dialect::Generic, Dialect::Ansi, Dialect::Mysql] {
        assert_tables(dialect, &[("select * from only where a = 1", &["only"])]);
    }
    assert_tables(
        Dialect::Postgres,
        &[
            ("select * from a, only b, only c as d", &["a", "b", "c"]),
            (
                "select * from (only t join only u on t.i = u.i)",
                &["t", "u"],
            ),
            ("select * from x, only (t)", &["t", "x"]),
            (
                "select * from x join (only t join u on true) on true",
                &["t", "u", "x"],
            ),
            ("delete from a using only b where a.i = b.i", &["a", "b"]),
            (
                "merge into only a using only b on a.i = b.i when matched then delete",
                &["a", "b"],
            ),
        ],
    );
    let many = "select * from only t; ".repeat(2_900);
    assert_eq!(tables(&many, Dialect::Postgres), ["t"]);
}

#[test]
fn finds_tables_of_streams_vacuums_and_unloads() {
    assert_tables(
        Dialect::Databricks,
        &[
            (
                "select * from stream s.t join stream(u) on t.x = u.x",
                &["s.t", "u"],
            ),
            ("select * from stream where x = 1", &["stream"]),
        ],
    );
    assert_tables(
        Dialect::Redshift,
        &[
            (
                "unload ('select * from a where x = ''1''') to 's3://b/c'",
                &["a"],
            ),
            ("unload (select * from a) to 's3://b/c'", &["a"]),
            ("vacuum full s.t", &["s.t"]),
        ],
    );
    assert_tables(
        Dialect::Postgres,
        &[
            ("vacuum", &[]),
            ("vacuum analyze", &[]),
            ("vacuum full analyze t", &["t"]),
        ],
    );
    assert_tables(Dialect::Sqlite, &[("vacuum main", &[]), ("vacuum", &[])]);
    let hidden = parse("unload ('selec * from a') to 's3://b'", Dialect::Redshift);
    assert!(matches!(hidden, Err(SqlError::Syntax { .. })), "{hidden:?}");
}

#[test]
fn parses_table_syntax_of_each_dialect() {
    assert_tables(
        Dialect::Mssql,
        &[
            (
                "select top 5 * from [my db].[dbo].[t] with (nolock)",
                &["my db.dbo.t"],
            ),
            ("select * from t (nolock)", &["t"]),
            ("select * from @t", &[]),
            (
                "update o set x = 1 from orders o join lines l on l.id = o.id",
                &["lines", "orders"],
            ),
            ("delete o from orders o where o.x = 1", &["orders"]),
            (
                "with c as (select * from t) delete from c where x = 1",
                &["t"],
            ),
            ("select * from t option (maxrecursion 0)", &["t"]),
            (
                "select * from t where x in (select option from u) option (hash join);",
                &["t", "u"],
            ),
            ("select * into #tmp from t", &["#tmp", "t"]),
        ],
    );
    assert_tables(
        Dialect::Bigquery,
        &[
            ("select * from `p-1.d.t`", &["p-1.d.t"]),
            ("select * from `p-1`.d.`events_*`", &["p-1.d.events_*"]),
            ("select * from p-1.d.t", &["p-1.d.t"]),
            (
                "select * from d.t as t, unnest(t.hits) as h, t.items",
                &["d.t"],
            ),
            (
                "from d.t |> where x = 1 |> join u on t.id = u.id |> aggregate count(*) group by y",
                &["d.t", "u"],
            ),
        ],
    );
    assert_tables(
        Dialect::Snowflake,
        &[
            (
                "select * from db..t, lateral flatten(input => t.v) f",
                &["db.t"],
            ),
            ("select * from table(flatten(parse_json('[]')))", &[]),
            ("select $1 from @stage/file.csv", &[]),
            (
                "select * from t qualify row_number() over (order by x) = 1",
                &["t"],
            ),
            ("alter table a swap with s.b", &["a", "s.b"]),
        ],
    );
    assert_tables(
        Dialect::Mysql,
        &[
            ("select a into @v from t", &["t"]),
            ("replace into t values (1)", &["t"]),
            ("delete a from t a join u b on a.x = b.x", &["t", "u"]),
            ("update t a join u b on a.x = b.x set a.y = 1", &["t", "u"]),
            ("rename table a to b", &["a", "b"]),
        ],
    );
    assert_tables(
        Dialect::Postgres,
        &[
            ("delete from a using b where a.x = b.x", &["a", "b"]),
            ("update a set x = b.x from b where a.y = b.y", &["a", "b"]),
            (
                "with d as (delete from a returning *) insert into b select * from d",
                &["a", "b"],
            ),
            (
                "select * from a, lateral (select * from b where b.x = a.x) l",
                &["a", "b"],
            ),
            ("select * from a, a.b", &["a", "a.b"]),
            ("lock table a", &["a"]),
            ("copy a to stdout", &["a"]),
        ],
    );
    assert_tables(
        Dialect::Clickhouse,
        &[
            ("select * from t array join items as i where x = 1", &["t"]),
            (
                "select * from t left array join a as x, b as y, c join u on u.i = x, v",
                &["t", "u", "v"],
            ),
        ],
    );
    assert_tables(
        Dialect::Hive,
        &[("select x from t lateral view explode(xs) e as x", &["t"])],
    );
}

#[test]
fn falls_back_to_other_dialects() {
    assert_tables(
        Dialect::Generic,
        &[("select `a` from `t` force index (i) # all", &["t"])],
    );
    assert_tables(
        Dialect::Generic,
        &[("select t.[a] from [dbo].[t]", &["dbo.t"])],
    );
    assert_tables(
        Dialect::Ansi,
        &[("select * from t limit 5 offset 2", &["t"])],
    );
}

#[test]
fn syntax_error_contains_position() {
    let error = parse("select * from t where = 1", Dialect::Postgres).unwrap_err();
    assert!(matches!(
        &error,
        SqlError::Syntax {
            dialect: Dialect::Postgres,
            ..
        }
    ));
    assert!(error.to_string().contains("Line: 1"), "{error}");
    assert_eq!(
        parse(" ; -- nothing", Dialect::Generic),
        Err(SqlError::Empty)
    );
}

#[test]
fn dialect_accepts_aliases() {
    for dialect in Dialect::ALL {
        let name = serde_json::to_value(dialect).unwrap();
        assert_eq!(name, dialect.name());
        assert_eq!(serde_json::from_value::<Dialect>(name).unwrap(), dialect);
    }
    for (name, dialect) in [
        ("postgresql", Dialect::Postgres),
        ("tsql", Dialect::Mssql),
        ("spark", Dialect::Databricks),
    ] {
        assert_eq!(
            serde_json::from_value::<Dialect>(name.into()).unwrap(),
            dialect
        );
    }
}

fn lines(text: &str) -> impl Iterator<Item = (Dialect, String, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    lines.map(|line| {
        let [dialect, tables, sql] = line.splitn(3, '|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let dialect = serde_json::from_value(dialect.into()).unwrap();
        (dialect, tables.replace('"', ""), sql)
    })
}

#[test]
fn finds_tables_in_strings_and_reports_hidden_ones() {
    for (dialect, expected, sql) in lines(include_str!("tests/named.txt")) {
        let found = match read(sql, dialect).hidden.as_slice() {
            [] => tables(sql, dialect).join(" "),
            hidden => format!("[{}]", hidden.join(" ")),
        };
        assert!(found.eq_ignore_ascii_case(&expected), "{sql}: {found}");
        assert_eq!(
            known_tables(&read(sql, dialect)).is_err(),
            expected.starts_with('[')
        );
    }
}

#[test]
fn rewrites_syntax_unsupported_by_the_parser() {
    for (dialect, expected, sql) in lines(include_str!("tests/read.txt")) {
        assert_eq!(tables(sql, dialect).join(" "), expected, "{dialect}: {sql}");
    }
    let shape = read(
        "select * from a global any left join b on a.i = b.i where a.x mod 2 = 1",
        Dialect::Generic,
    );
    let operators: Vec<_> = shape
        .filters
        .iter()
        .map(|filter| &filter.operator)
        .collect();
    assert_eq!(operators, ["=", "="]);
    assert_tables(
        Dialect::Generic,
        &[("insert into table a select * from b", &["a", "b"])],
    );
    assert_tables(
        Dialect::Mysql,
        &[(
            "select mode, share from lock_in where `mod` = 2",
            &["lock_in"],
        )],
    );
}
