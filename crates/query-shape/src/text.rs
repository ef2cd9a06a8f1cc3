//! Tests of query identity: white space, comments, trailing semicolons and the case of SQL keywords are ignored.

use super::{Language, kql, sql};

fn identical(one: &str, other: &str, language: Language) -> bool {
    match language {
        Language::Kql => kql::are_identical(one, other),
        Language::Sql => sql::are_identical(one, other, sql::Dialect::Generic),
    }
}

#[test]
fn white_space_and_comments_are_ignored() {
    let same = [
        (Language::Kql, "T|where a==1", "T // all\n| where  a == 1 ;"),
        (
            Language::Kql,
            "T | where a == \"x // y\"",
            "T\u{a0}|\u{200b}where a==\"x // y\"",
        ),
        (
            Language::Sql,
            "select a,b from t",
            "select a , b -- two\nfrom /* the */ t;",
        ),
        (Language::Sql, "select 'it''s'", "select\n'it''s' ;;"),
        (Language::Sql, "select a+b", "select a + /* and */ b"),
        (Language::Sql, "select a from t", "SELECT a FROM t"),
    ];
    for (language, one, other) in same {
        assert!(identical(one, other, language), "{one} / {other}");
    }
}

#[test]
fn strings_and_token_boundaries_are_significant() {
    let apart = [
        (
            Language::Kql,
            "T | where a == 'x y'",
            "T | where a == 'x  y'",
        ),
        (
            Language::Kql,
            "T | where a == '//1'",
            "T | where a == '//2'",
        ),
        (Language::Kql, "T | take 1 d", "T | take 1d"),
        (Language::Kql, "T )", "T"),
        (Language::Sql, "select 'a b'", "select 'a  b'"),
        (Language::Sql, "select '--a'", "select '--b'"),
        (Language::Sql, "select 'it\\'s  a'", "select 'it\\'s a'"),
        (Language::Sql, "select $q$ a  b $q$", "select $q$ a b $q$"),
        (Language::Sql, "select \"a  b\"", "select \"a b\""),
        (Language::Sql, "select a > = b", "select a >= b"),
        (Language::Sql, "select 'a' 'b'", "select 'a''b'"),
        (Language::Sql, "select /*+ full(t) */ 1", "select 1"),
        (Language::Sql, "select N'x'", "select N 'x'"),
        (Language::Kql, "t | take 1", "T | take 1"),
    ];
    for (language, one, other) in apart {
        assert!(!identical(one, other, language), "{one} / {other}");
    }
}
