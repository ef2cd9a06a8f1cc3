use super::exact;

#[test]
fn aggregations_include_functions_and_groups() {
    let cases: &[(&str, &[&str])] = &[
        ("T | summarize count()", &["count"]),
        ("T | count", &["count"]),
        (
            "search in (T) \"x\" | summarize count() by $table",
            &["count", "by:$table"],
        ),
        ("T | count as n", &["count"]),
        ("T | summarize by a", &["by:a"]),
        (
            "T | summarize n = count(), avg(b) by a, c",
            &["count", "avg", "by:a", "by:c"],
        ),
        (
            "T | summarize arg_max(a, *) by ['my b']",
            &["arg_max", "by:my b"],
        ),
        ("T | summarize (x, y) = arg_min(a, b)", &["arg_min"]),
        (
            "T | summarize percentiles(a, 50, 95), make_set(strcat(b, c), 10)",
            &["percentiles", "make_set"],
        ),
        (
            "T | summarize round(sum(a) / count(), 2)",
            &["sum", "count"],
        ),
        ("T | summarize my_own(tolower(a))", &["my_own"]),
        (
            "T | summarize count() by bin(a, 1h), day = startofday(b)",
            &["count", "by:a", "by:b"],
        ),
        (
            "T | summarize hint.strategy=shuffle count() by a",
            &["count", "by:a"],
        ),
        (
            "let step = 1h; T | summarize count() by bin(a, step)",
            &["count", "by:a"],
        ),
        (
            "T | make-series n = count() default = 0, avg(b) on a from ago(7d) to now() step 1d by c",
            &["count", "avg", "by:c"],
        ),
        (
            "T | where a in (U | summarize max(b) | project c)",
            &["max"],
        ),
        ("T | summarize toscalar(U | summarize max(b))", &["max"]),
        (
            "T | summarize take_any(a) | summarize take_any(a)",
            &["take_any", "take_any"],
        ),
        ("T | project count() | extend sum(b) | distinct c", &[]),
        (
            "T | where a == \"| summarize count() by b\" // | count",
            &[],
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(exact(query).aggregations, *expected, "{query}");
    }
}
