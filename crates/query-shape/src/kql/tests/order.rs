use super::exact;
use crate::SortKey;

#[test]
fn only_top_level_order_counts() {
    let sorted = [
        "T | sort by a",
        "T | order by a desc, b asc | take 5",
        "T | top 5 by a",
        "T | sort by a | where b == 1 | extend c = 1 | project a, c | render table",
        "(T | sort by a) | take 5",
        "let mine = T | sort by a; mine | take 5",
        "let f = () { T | sort by a }; f()",
        "T | summarize count() by a | order by a",
    ];
    for query in sorted {
        assert!(exact(query).sorted_at_top, "{query}");
    }
    let name = |name: &str| SortKey::named(name);
    for (query, keys) in [
        (
            "T | order by a desc, ['b c'] asc nulls first | take 5",
            vec![name("a"), name("b c")],
        ),
        (
            "let u = V | sort by z; T | top 5 by a | where b in (U | top 1 by c)",
            vec![name("a")],
        ),
        ("let mine = T | sort by a; mine | take 5", vec![name("a")]),
        ("T | sort by a, tolower(b)", vec![name("a"), name("b")]),
        ("T | top 3 by abs(c) desc nulls last", vec![name("c")]),
        (
            "let k = 2; T | order by iff(a > k, b.x, 'z') asc, ['c d'] / 2",
            vec![name("a"), name("b"), name("c d")],
        ),
        ("T | sort by a, rand()", vec![]),
        ("T | sort by a | count", vec![]),
    ] {
        assert_eq!(exact(query).sort_keys, keys, "{query}");
    }
    let unsorted = [
        "T",
        "T | take 5",
        "T | sort by a | summarize make_list(b)",
        "T | sort by a | distinct a",
        "T | sort by a | count",
        "T | join (U | sort by a) on a",
        "union (T | sort by a), (U | sort by a)",
        "T | where a in (U | top 5 by b | project a)",
        "let mine = T | sort by a; U | where a in (mine)",
        "T | where a == \"| sort by b\" // | sort by a",
        "T | mv-apply x = a on (sort by x)",
    ];
    for query in unsorted {
        assert!(!exact(query).sorted_at_top, "{query}");
    }
}
