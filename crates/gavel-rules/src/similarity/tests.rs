use super::*;
use query_shape::kql::shape;

fn of(expected: &str, generated: &str) -> Similarity {
    similarity(&shape(expected), &shape(generated))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-12
}

#[test]
fn worked_examples() {
    let same = of(
        "AppTraces | where Time > ago(1h) | summarize count() by Level",
        "AppTraces | where Time > ago(60m) | summarize count() by Level",
    );
    assert!(near(same.score, 1.0));
    assert!(near(same.filter_literals.score, 1.0));
    // A wrong table, and one grouping column too many: F1 of {count} and {count, by:level} is 2/3.
    let wrong = of(
        "AppTraces | summarize count()",
        "Traces | summarize count() by level",
    );
    assert!(near(wrong.tables.score, 0.0));
    assert!(near(wrong.aggregations.score, 2.0 / 3.0));
    assert!(near(wrong.score, 0.3 + 0.3 * 2.0 / 3.0));
    assert_eq!(wrong.tables.missing, ["apptraces"]);
    assert_eq!(wrong.tables.extra, ["traces"]);
    assert_eq!(wrong.aggregations.extra, ["by:level"]);
    assert!(near(of("T | count", "T | summarize count()").score, 1.0));
}

#[test]
fn predicate_position_is_ignored() {
    let pairs = [
        (
            "T | where a == 1 and b > 2",
            "T | where a == 1 | where b > 2",
        ),
        ("T | where not(a == 1)", "T | where a != 1"),
        ("T | where 5 < a", "T | where a > 5"),
        (
            "T | where b > 2 and a == 1",
            "T | filter (a == 1) and (b > 2)",
        ),
    ];
    for (expected, generated) in pairs {
        assert!(
            near(of(expected, generated).filters.score, 1.0),
            "{expected} / {generated}"
        );
    }
    let half = of(
        "T | where a == 1 and b == 2",
        "T | where a == 1 and b has \"x\"",
    );
    assert!(near(half.filters.score, 0.5));
    assert_eq!(
        (half.filters.missing, half.filters.extra),
        (vec!["==".to_owned()], vec!["has".to_owned()])
    );
}

#[test]
fn empty_sides_score_1_and_one_empty_side_0() {
    assert!(near(of("print 1", "print 2").score, 1.0));
    let one = of("print 1", "T | where a == 1 | count");
    assert!(near(one.score, 0.0));
    let other = of("T | where a == 1 | count", "print 1");
    assert!(near(other.score, 0.0));
}

#[test]
fn tables_are_a_case_insensitive_set() {
    assert!(near(of("union A, B, a", "union b, A").tables.score, 1.0));
    assert!(near(of("union A, B", "union B, C").tables.score, 1.0 / 3.0));
    assert!(near(
        of("cluster('x').database('y').T", "T").tables.score,
        1.0
    ));
    assert!(near(of("union App*", "union app*").tables.score, 1.0));
    assert!(near(
        of("search \"x\"", "search in (*) \"x\"").tables.score,
        1.0
    ));
    assert!(near(of("search \"x\"", "print 1").tables.score, 0.0));
}

#[test]
fn unqualified_name_matches_one_qualified_name() {
    let name = |text: &str| {
        let mut parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        let name = parts.pop().unwrap();
        TableName {
            qualifiers: parts,
            name,
        }
    };
    let cases: &[(&[&str], &[&str], f64)] = &[
        (&["public.users"], &["Users"], 1.0),
        (&["users"], &["public.users"], 1.0),
        (&["public.users"], &["sales.users"], 0.0),
        (&["db.public.users"], &["public.users"], 0.0),
        (&["public.users", "sales.users"], &["users"], 0.5),
        (&["users"], &["users", "public.users"], 0.5),
        (
            &["public.users", "orders"],
            &["PUBLIC.USERS", "s.orders"],
            1.0,
        ),
        (&[], &[], 1.0),
        (&["a"], &[], 0.0),
    ];
    for (expected, generated, score) in cases {
        let expected: Vec<TableName> = expected.iter().map(|text| name(text)).collect();
        let generated: Vec<TableName> = generated.iter().map(|text| name(text)).collect();
        assert!(
            near(tables(&expected, &generated).score, *score),
            "{expected:?} / {generated:?}"
        );
        assert!(
            near(tables(&generated, &expected).score, *score),
            "the other way: {expected:?} / {generated:?}"
        );
    }
}

#[test]
fn columns_and_literals_of_filters_are_details() {
    let part = of(
        "T | where a == 1 and b == \"x\"",
        "T | where A == 1.0 and c == \"x\"",
    );
    assert!(near(part.filter_columns.score, 1.0 / 3.0));
    assert!(near(part.filter_literals.score, 1.0));
    assert!(near(part.score, 1.0));
}

#[test]
fn repeated_entries_count_separately() {
    let list = |entries: &[&str]| {
        entries
            .iter()
            .map(|entry| (*entry).to_owned())
            .collect::<Vec<_>>()
    };
    let part = multiset_f1(&list(&["a", "a", "b"]), &list(&["a", "b", "b", "c"]));
    assert!(near(part.score, 4.0 / 7.0));
    assert_eq!(part.matched, ["a", "b"]);
    assert_eq!(part.missing, ["a"]);
    assert_eq!(part.extra, ["b", "c"]);
}

#[test]
fn detail_lists_are_limited_but_scores_are_not() {
    let many = |from: usize| {
        (from..from + 200)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
    };
    let part = jaccard(&many(0), &many(100));
    assert!(near(part.score, 1.0 / 3.0));
    assert_eq!(
        (part.matched.len(), part.missing.len(), part.extra.len()),
        (SHOWN, SHOWN, SHOWN)
    );
}

#[test]
fn unparsable_query_is_approximate() {
    assert!(of("T | where (a == 1", "T").approximate);
    assert!(!of("T", "T").approximate);
}
