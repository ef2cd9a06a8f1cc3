use super::*;
use crate::{Literal, SortKey};

#[test]
fn filters_are_leaves_with_operators() {
    let cases: &[(&str, &[&str])] = &[
        (
            "select * from t where a = 1 and (b > 2 or not c < 3)",
            &["=", ">", ">="],
        ),
        (
            "select * from t where not (a = 1 and b in (1, 2))",
            &["<>", "not in"],
        ),
        (
            "select * from t where a is null or a is not null",
            &["is null", "is not null"],
        ),
        ("select * from t where not a is null", &["is not null"]),
        (
            "select * from t where a like 'x%' and b not like 'y'",
            &["like", "not like"],
        ),
        ("select * from t where a between 1 and 2", &["between"]),
        (
            "select * from t where starts_with(a, 'x') and active and not gone",
            &["starts_with", "is true", "is false"],
        ),
        ("select * from t where true", &[]),
        (
            "select * from t where exists (select 1 from u where u.a = t.a)",
            &["exists", "="],
        ),
        (
            "select * from t join u on t.a = u.a and t.b <> u.b",
            &["=", "<>"],
        ),
        ("select * from t join u using (a, b)", &["=", "="]),
        ("select a from t group by a having count(*) > 1", &[">"]),
        ("select * from t where a = any(array[1])", &["= any"]),
        ("delete from t where a = 1", &["="]),
        ("update t set a = 1 where b = 2", &["="]),
        ("select 'a = 1' from t -- where b = 2", &[]),
        ("select case when a = 1 then 2 end from t", &[]),
    ];
    for (sql, expected) in cases {
        let shape = read(sql, Dialect::Generic);
        let found: Vec<_> = shape.filters.iter().map(|f| f.operator.as_str()).collect();
        assert_eq!(&found, expected, "{sql}");
    }
}

#[test]
fn filter_excludes_columns_of_subqueries() {
    let shape = read(
        "select * from t where lower(t.a) in ('x', -5) and b > date '2024-03-08' \
         and c >= now() - interval '60' minute and d = (select max(e) from u where f = 7)",
        Dialect::Postgres,
    );
    let found: Vec<_> = shape
        .filters
        .iter()
        .map(|filter| (filter.columns.join(","), filter.literals.clone()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "a".to_owned(),
                vec![Literal::Text("x".to_owned()), Literal::number("-5")]
            ),
            (
                "b".to_owned(),
                Literal::instant("2024-03-08").into_iter().collect()
            ),
            (
                "c".to_owned(),
                Literal::duration("1h").into_iter().collect()
            ),
            ("d".to_owned(), vec![]),
            ("f".to_owned(), vec![Literal::number("7")]),
        ]
    );
}

#[test]
fn aggregations_are_calls_and_keys() {
    let cases: &[(&str, &[&str])] = &[
        ("select count(*) from t", &["count"]),
        ("select a, sum(b) from t group by a", &["by:a", "sum"]),
        (
            "select a, sum(b) from t group by 1 having sum(b) > 1 order by SUM(b)",
            &["by:a", "sum"],
        ),
        (
            "select count(distinct a), count(a) from t",
            &["count distinct", "count"],
        ),
        (
            "select date_trunc('day', t.at) as d, max(x) from t group by d",
            &["by:date_trunc('day', at)", "max"],
        ),
        (
            "select t.\"A\", avg(b) from t group by t.\"A\"",
            &["by:a", "avg"],
        ),
        (
            "select a, b, sum(c) from t group by rollup (a, b)",
            &["by:a", "by:b", "sum"],
        ),
        (
            "select a, b, sum(c) from t group by all",
            &["by:a", "by:b", "sum"],
        ),
        ("select sum(a) over (partition by b), lower(c) from t", &[]),
        (
            "select count(*) from t union all select count(*) from u",
            &["count", "count"],
        ),
        (
            "select * from (select a, min(b) from t group by a) d",
            &["by:a", "min"],
        ),
        ("select a from t group by a, A, 1", &["by:a"]),
    ];
    for (sql, expected) in cases {
        assert_eq!(&read(sql, Dialect::Generic).aggregations, expected, "{sql}");
    }
}

#[test]
fn only_top_level_order_counts() {
    let cases = [
        ("select * from t order by a", true),
        ("(select * from t order by a)", true),
        (
            "with c as (select 1) select * from c order by 1 limit 5",
            true,
        ),
        ("select * from a union all select * from b order by 1", true),
        ("select * from (select * from t order by a) d", false),
        (
            "with c as (select * from t order by a) select * from c",
            false,
        ),
        ("select row_number() over (order by a) from t", false),
        ("select array_agg(a order by b) from t", false),
        ("select 'order by a' from t -- order by a", false),
        ("set x = 1; select * from t order by a", true),
    ];
    for (sql, expected) in cases {
        assert_eq!(read(sql, Dialect::Generic).sorted_at_top, expected, "{sql}");
    }
    let piped = |sql| read(sql, Dialect::Bigquery).sorted_at_top;
    assert!(piped("from t |> order by a |> limit 5"));
    assert!(!piped(
        "from t |> order by a |> aggregate count(*) group by b"
    ));
}

#[test]
fn sort_keys_have_names_and_positions() {
    let by = |sql| read(sql, Dialect::Generic).sort_keys;
    let name = |name: &str| SortKey::named(name);
    let place = |place| SortKey {
        name: None,
        place: Some(place),
    };
    let both = |name: &str, place| SortKey {
        name: Some(name.to_owned()),
        place: Some(place),
    };
    for (sql, keys) in [
        (
            "select n, c from t order by c desc, n",
            vec![both("c", 1), both("n", 0)],
        ),
        (
            "select n, count(*) from t group by n order by count(*)",
            vec![place(1)],
        ),
        (
            "select n, count(*) as c from t group by n order by count(*), 1",
            vec![both("c", 1), both("n", 0)],
        ),
        (
            "select e.name n, b.name from e join b on true order by e.name",
            vec![both("n", 0)],
        ),
        (
            "select e.n, b.n from e join b on true order by b.n",
            vec![place(1)],
        ),
        ("select * from t order by t.a", vec![name("a")]),
        ("select * from t order by 2, 1", vec![place(1), place(0)]),
        (
            "select t.*, n from t order by 2, n",
            vec![place(1), name("n")],
        ),
        ("select *, count(*) from t order by 2", vec![place(1)]),
        ("values (1, 2), (2, 1) order by 1", vec![place(0)]),
        (
            "select a as b, b as c from t order by b, abs(b)",
            vec![both("b", 0), both("c", 1)],
        ),
        (
            "select a from t union select b from u order by 1",
            vec![both("a", 0)],
        ),
        (
            "select b.name from e join b on true order by e.name",
            vec![],
        ),
        (
            "select a, b from t order by a, lower(b)",
            vec![both("a", 0), both("b", 1)],
        ),
        (
            "select n, c from t order by abs(c) desc nulls last",
            vec![both("c", 1)],
        ),
        (
            "select n, sum(c), d x from t group by n, d order by -abs(sum(c)), case when d > 1 then n end, 1 + 2 * d",
            vec![place(1), both("x", 2), both("n", 0), both("x", 2)],
        ),
        (
            "select n from t order by n collate nocase, n is null, cast(n as int) % 10",
            vec![both("n", 0), both("n", 0), both("n", 0)],
        ),
        ("select a from t group by a, b order by a, sum(a)", vec![]),
        (
            "select a from t order by a, row_number() over (order by a)",
            vec![],
        ),
        (
            "select a from t order by a, (select max(b) from u where u.a = t.a)",
            vec![],
        ),
        ("select a from t order by a, lower(t.b)", vec![]),
        ("select a from t order by a, random()", vec![]),
        ("select a from t", vec![]),
    ] {
        assert_eq!(by(sql), keys, "{sql}");
    }
}
