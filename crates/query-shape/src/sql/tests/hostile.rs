//! Texts that try to exhaust time or stack, or to cause a panic.

use proptest::prelude::*;

use super::*;

/// Text of the maximum length: a head and as many links as fit.
fn chain(head: &str, link: &str) -> String {
    let links = (LONGEST - head.len()) / link.len();
    format!("{head}{}", link.repeat(links))
}

#[test]
fn a_chain_of_any_length_fits_the_stack() {
    for (head, link) in [
        ("select 1", "+1"),
        ("select 1", " union all select 1"),
        ("select * from t where a", " or a"),
        ("select a", " is null"),
        ("select a", "::int"),
        ("select a", "[1]"),
        ("select * from t", " join t on 1=1"),
        ("select * from t", ",t"),
        ("select count(*) from t group by 1", ",1"),
        ("with a as (select 1)", ",a as (select 1)"),
        ("select cast(a as int", "[]"),
        ("select * from t", " pivot (sum(x) for y in ('z'))"),
        ("select 1;", "select 1;"),
    ] {
        let text = chain(head, link);
        // Parsing may fail, depending on the dialect, but must return.
        let _ = parse(&text, Dialect::Snowflake);
    }
    let shape = read(
        &chain("select 1 from t where a=1", " or a=1"),
        Dialect::Postgres,
    );
    assert!(shape.filters.len() > 9_000);
}

#[test]
fn rejects_too_deep_nesting() {
    for (open, core, close) in [
        ("(", "1", ")"),
        ("(select ", "1", ")"),
        ("not (", "a", ")"),
        ("f(", "a", ")"),
    ] {
        let text = format!("select {}{core}{}", open.repeat(2_000), close.repeat(2_000));
        assert_eq!(
            parse(&text, Dialect::Generic),
            Err(SqlError::TooDeep),
            "{open}"
        );
    }
    let text = format!(
        "select * from {}t{}",
        "(".repeat(30_000),
        ")".repeat(30_000)
    );
    assert_eq!(parse(&text, Dialect::Generic), Err(SqlError::TooDeep));
}

#[test]
fn rejects_too_long_text() {
    let text = format!("select '{}' from t", "x".repeat(1_000_000));
    assert_eq!(
        parse(&text, Dialect::Generic),
        Err(SqlError::TooLong { bytes: text.len() })
    );
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "select",
            "from",
            "t",
            "a",
            "b.c",
            "*",
            ",",
            "(",
            ")",
            "where",
            "and",
            "or",
            "not",
            "=",
            "<",
            "1",
            "'x'",
            "\"q\"",
            "`p.d.t`",
            "[a b]",
            "join",
            "on",
            "using",
            "group by",
            "order by",
            "having",
            "with",
            "as",
            "recursive",
            "union all",
            "insert into",
            "values",
            "update",
            "set",
            "delete from",
            "merge into",
            "create table",
            "drop table",
            "truncate",
            "case when",
            "then",
            "end",
            "in",
            "between",
            "like",
            "is null",
            "exists",
            "over",
            "partition by",
            "limit",
            "interval",
            "date",
            "::",
            "[",
            "]",
            "{",
            "}",
            "->",
            "|>",
            "@v",
            "$1",
            "?",
            ":x",
            "--",
            "/*",
            "*/",
            ";",
            ".",
            "unnest",
            "lateral",
            "flatten",
            "pivot",
            "option",
            "only",
            "using",
            "into",
            "/*+",
            "/*!",
            "array join",
            "count(*)",
            "sum",
            "rollup",
            "\\",
            "'",
            "$$",
            "é",
            "\u{0}",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_text_is_handled(text in any::<String>()) {
        for dialect in Dialect::ALL {
            let _ = parse(&text, dialect);
        }
    }

    #[test]
    fn any_mix_of_keywords_is_handled(pieces in prop::collection::vec(piece(), 0..40)) {
        let text = pieces.join(" ");
        for dialect in Dialect::ALL {
            let _ = is_nothing(&text, dialect);
            let Ok(shape) = parse(&text, dialect) else { continue };
            let mut names: Vec<_> = shape.tables.iter().map(TableName::folded).collect();
            names.sort_by_key(TableName::dotted);
            let all = names.len();
            names.dedup();
            prop_assert_eq!(names.len(), all, "a table stands twice");
        }
    }

    #[test]
    fn white_space_and_comments_are_ignored(gap in "[ \t\n]{1,3}|/\\* from x \\*/|-- from x\n") {
        let plain = "with c as ( select a , count( * ) from s.t where b = 'x y' group by a ) select * from c order by 1";
        let spaced = plain.split(' ').collect::<Vec<_>>().join(&gap).replace(&format!("x{gap}y"), "x y");
        prop_assert_eq!(read(&spaced, Dialect::Generic), read(plain, Dialect::Generic));
    }
}

#[test]
fn long_token_error_is_short_with_position() {
    let long = "'é".repeat(20_000);
    for dialect in [Dialect::Generic, Dialect::Postgres] {
        let error = parse(&long, dialect).unwrap_err().to_string();
        assert!(
            error.chars().count() < 350,
            "{} characters",
            error.chars().count()
        );
        assert!(error.contains("doesn't parse as"), "{error}");
        assert!(error.contains("Line: 1, Column: "), "{error}");
    }
}
