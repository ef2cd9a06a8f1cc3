//! Any text gets a shape, in bounded time and on a small stack.

use proptest::prelude::*;

use super::{exact, names, shape};
use crate::kql::{are_identical, is_nothing};

const STACK: usize = 1 << 20;

#[test]
fn unparsable_text_yields_approximate_shape() {
    let cases: &[(&str, &[&str])] = &[
        (
            "Orders | where (a == 1 | join Returns on Id",
            &["Orders", "Returns"],
        ),
        (
            "Orders | where a == \"open | take 1\n| join Returns on Id",
            &["Orders", "Returns"],
        ),
        (
            "Orders | wehre a == 1 | union Returns",
            &["Orders", "Returns"],
        ),
        ("Orders where a == 1", &["Orders"]),
        ("Orders ) | union Returns", &["Orders", "Returns"]),
        ("Orders || union Returns", &["Orders", "Returns"]),
        ("Orders | join", &["Orders"]),
        ("Orders | where", &["Orders"]),
        ("Orders | where a == 1 and", &["Orders"]),
        ("| take 1", &[]),
        ("let ; Orders", &["Orders"]),
        ("let x Orders; Returns", &["Returns"]),
        ("select * from Orders", &[]),
        ("Orders | take 1 § 2", &["Orders"]),
        ("union ,Orders", &["Orders"]),
        ("table(T1, x) | take 1", &[]),
        ("Orders | where a == 1\n\nReturns | take 5", &["Orders"]),
        ("Orders | render timechart\n\nReturns | take 5", &["Orders"]),
        ("let n = 1\nOrders | take n", &[]),
        ("Orders | where a == 1 AND b == 2", &["Orders"]),
        ("Orders | where a is null", &["Orders"]),
        ("Orders | where a and or b", &["Orders"]),
        ("Orders | where == 1", &["Orders"]),
        ("Orders | extend a = = b", &["Orders"]),
        ("Orders | extend a = b -", &["Orders"]),
        ("Orders | extend a = f(b,)", &["Orders"]),
        ("Orders | project a, b, | take 5", &["Orders"]),
        ("Orders | project a b", &["Orders"]),
        ("Orders | summarize count(), by a", &["Orders"]),
        ("Orders | join Returns on Id Gifts", &["Orders", "Returns"]),
        ("Orders | sort by a b", &["Orders"]),
        ("Orders | extend", &["Orders"]),
        ("Orders | sort a desc", &["Orders"]),
        ("Orders | order a", &["Orders"]),
        ("Orders | sort by", &["Orders"]),
        ("Orders | top 5", &["Orders"]),
        ("Orders | top 5 by", &["Orders"]),
        ("Orders | top by a", &["Orders"]),
        ("Orders | parse x 'a'", &["Orders"]),
        ("Orders | where a between (1, 2)", &["Orders"]),
        ("Orders | where a in 1", &["Orders"]),
        ("Orders | where a !in~ 'x'", &["Orders"]),
        ("Orders | lookup Returns", &["Orders", "Returns"]),
        ("Orders | make-series count()", &["Orders"]),
        ("Orders | where !a", &["Orders"]),
        ("Orders | where a == #1", &["Orders"]),
        ("Orders | where a == @x", &["Orders"]),
        ("Orders | project-rename a", &["Orders"]),
        ("Orders | summarize count() by", &["Orders"]),
        ("Orders | mv-apply a on (sort b)", &["Orders"]),
    ];
    for (query, expected) in cases {
        let shape = shape(query);
        assert!(shape.approximate, "{query}");
        for table in *expected {
            assert!(names(&shape).contains(table), "{query}: {:?}", shape.tables);
        }
    }
}

#[test]
fn accepts_valid_adjacent_operands() {
    for query in [
        "T | where a == \"x\" 'y' and b has_any (\"x\" \"y\")",
        "T | parse kind=regex Line with * \"a=\" a:long \" b=\" b | take 5",
        "T | scan declare (n:long=0) with (step s output=last: a == 1 => n = n + 1;)",
        "T | graph-match (a)-[e*1..3]->(b) where a.x == 1 project a.x",
        "T | make-graph a --> b with U on Id",
        "T | top-nested 3 of a with others=\"x\" by count(), top-nested 2 of b by sum(c)",
        "T | make-series kind=nonempty n=count() default=0 on t from x to y step 1h by b",
        "T | mv-expand with_itemindex=i bagexpansion=array a to typeof(long) limit 5",
        "T | sort by a asc nulls first, b desc | project-reorder b granny-asc, *",
        "T | render timechart title=\"x\" kind=stacked with (ymin=0)",
        "T | reduce by a with threshold=0.1 | sample-distinct 5 of a | count as n",
        "find withsource=From in (T, U) where a == 1 project a, pack(*)",
        "search kind=case_sensitive in (T) \"x\" and (a:\"y\" or * has \"z\")",
        "set notruncation; let f = (a:int, b:string = \"x\") { T | take a }; f(-1) | where -a < 2",
        "datatable(a:string, b:int)[\"x\", 1, \"y\", 2,] | extend first = a, to = from | sort by last desc",
    ] {
        exact(query);
    }
}

#[test]
fn too_long_string_is_not_a_table_name() {
    let query = |length: usize| format!("let x = '{}'; table(x) | take 1", "n".repeat(length));
    assert_eq!(exact(&query(1000)).tables.len(), 1);
    assert_eq!(shape(&query(1_000_000)).tables.len(), 0);
}

#[test]
fn depth_is_limited() {
    let nested =
        |depth: usize| format!("T | where {}a == 1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(exact(&nested(40)).filters.len(), 1);
    let deep = shape(&nested(40_000));
    assert!(deep.approximate && deep.filters.is_empty());
}

#[test]
fn hostile_texts_finish_fast_on_small_stack() {
    let run = || {
        let texts = [
            "(".repeat(16_384),
            format!("{}{}", "(".repeat(10_000), "]".repeat(10_000)),
            format!("T{}", "| where a == 1 and b ".repeat(12_500)),
            format!("union {}", "T, ".repeat(12_500)),
            format!("T{}", "| union U".repeat(12_500)),
            format!("T | where a == \"{}\"", "x".repeat(1 << 17)),
            format!("T | where a == \"{}", "\\".repeat(1 << 17)),
            "T | where a in (".repeat(5_000),
            "toscalar(T | where x in (".repeat(5_000),
            format!("T | where {}", "not(".repeat(10_000)),
            format!("T | where {}", "not ".repeat(10_000)),
            "let f = (a:int) {".repeat(5_000),
            "T | partition by a (".repeat(5_000),
            "cluster('x').".repeat(10_000),
            "[\"".repeat(10_000),
            "```~~~".repeat(10_000),
            format!("union {}", "a*".repeat(12_500)),
        ];
        for text in texts {
            shape(&text);
        }
    };
    // A stack overflow would abort the test process.
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    thread.unwrap().join().unwrap();
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "T",
        "union",
        "join",
        "where",
        "find",
        "search",
        "in",
        "let",
        "x",
        "=",
        "==",
        "|",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ";",
        ",",
        ".",
        "..",
        "*",
        "-",
        "not",
        "and",
        "or",
        "by",
        "on",
        "as",
        "summarize",
        "count()",
        "make-series",
        "mv-apply",
        "fork",
        "partition",
        "toscalar",
        "materialize",
        "view",
        "table",
        "cluster",
        "database",
        "('a')",
        "\"s\"",
        "'",
        "\"",
        "@",
        "h",
        "```",
        "~~~",
        "['a b']",
        "['",
        "1d",
        "1.5",
        "0x",
        "1e-",
        "datetime(",
        "dynamic(",
        "typeof(",
        "kind=",
        "hint.a=1",
        "!in~",
        "in~",
        "!",
        "$left",
        "invoke",
        "declare query_parameters(",
        "\n",
        "//",
        "\u{200b}",
        "é",
        "make-graph",
        "with",
        "evaluate",
        ":",
    ]);
    let glue = prop::sample::select(vec!["", " ", " ", "\n"]);
    prop::collection::vec((piece, glue), 0..60).prop_map(|pieces| {
        pieces
            .into_iter()
            .flat_map(|(piece, glue)| [piece, glue])
            .collect()
    })
}

fn holds(text: &str) {
    let shape = shape(text);
    assert!(shape.tables.len() + shape.filters.len() + shape.aggregations.len() <= text.len());
    assert_eq!(are_identical(text, text), !is_nothing(text));
}

proptest! {
    #[test]
    fn any_text_has_a_shape(text in any::<String>()) {
        holds(&text);
    }

    #[test]
    fn any_pieces_of_kql_have_a_shape(text in pieces()) {
        holds(&text);
    }

    #[test]
    fn mutated_query_has_a_shape(at in 0_usize..300, length in 0_usize..40, put in pieces()) {
        let query = "let f = (T:(*), n:int = 3) { T | where a in (U | project b) }; \
            union withsource=S (f(Orders, 1) | summarize n = count() by bin(t, 1h)), ['My T'], database('d').App* \
            | join kind=inner (X | sort by y) on $left.a == $right.b | where not(c between (datetime(2024-01-01) .. 7d)) \
            | mv-apply e = d to typeof(string) on (where e has_any ('x', @\"y\")) | top 5 by n";
        let start = at.min(query.len());
        let end = (start + length).min(query.len());
        holds(&format!("{}{put}{}", &query[..start], &query[end..]));
    }

    #[test]
    fn white_space_and_comments_are_ignored(text in pieces()) {
        let spaced = format!("\n\u{feff} // {{\n{text}");
        prop_assert_eq!(are_identical(&spaced, &text), !is_nothing(&text));
    }
}
