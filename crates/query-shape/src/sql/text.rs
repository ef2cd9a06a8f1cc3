//! Texts that differ in nothing a database reads: white space, comments, a trailing `;`, the case of keywords.

use std::borrow::Cow;

use sqlparser::keywords::ALL_KEYWORDS;

use super::Dialect;
use super::lexer::{Kind, Lexer};
use super::parse;

/// Whether two texts are the same query: the same words, strings and signs in the same order. Keywords compare in any case, names, strings
/// and hints to the server (`/*+ .. */`, `/*! .. */`) as they are written. Where the dialect is unknown and a backslash stands before a
/// quote, nobody can tell where the string ends: then only the same text is identical. Linear in both texts.
pub fn are_identical(left: &str, right: &str, dialect: Dialect) -> bool {
    let is_unclear = |text: &str| text.contains("\\'") || text.contains("\\\"");
    if dialect == Dialect::Generic && (is_unclear(left) || is_unclear(right)) {
        return left.trim() == right.trim();
    }
    let mut left = words(left, dialect).into_iter();
    let mut right = words(right, dialect).into_iter();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(left), Some(right)) if left == right => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// Whether there is nothing in a text but white space, comments and semicolons.
pub fn is_nothing(text: &str, dialect: Dialect) -> bool {
    words(text, dialect).is_empty() || parse::is_nothing(text, dialect)
}

/// The words of a text without trailing semicolons, keywords in upper case. A word right before a string may be its prefix (`N'x'`), and one with
/// a gap a name (`n 'x'`), so of each string it counts whether it has one.
fn words(text: &str, dialect: Dialect) -> Vec<(bool, Cow<'_, str>)> {
    let mut tokens: Vec<_> = Lexer::new(text, dialect).collect();
    while tokens.last().is_some_and(|token| token.is_sign(";")) {
        tokens.pop();
    }
    let mut word_ends = None;
    tokens
        .into_iter()
        .map(|token| {
            let is_prefixed = token.kind == Kind::Text && word_ends == Some(token.start);
            word_ends = (token.kind == Kind::Word).then_some(token.start + token.text.len());
            if token.kind == Kind::Word {
                let upper = token.text.to_ascii_uppercase();
                if ALL_KEYWORDS.binary_search(&upper.as_str()).is_ok() {
                    return (is_prefixed, upper.into());
                }
            }
            (is_prefixed, token.text.into())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_a_database_reads_tells_two_texts_apart() {
        let cases = [
            ("select a from t", "SELECT\n  a\tFROM t;", true),
            (
                "select a from t -- why",
                "select /* what */ a from t ; ;",
                true,
            ),
            ("select a+1 from t", "select a + 1 from t", true),
            ("select a from t", "select A from t", false),
            ("select 'a b'", "select 'a  b'", false),
            ("select 'SELECT'", "select 'select'", false),
            ("select '-- a'", "select '-- b'", false),
            (
                "select \"Select\" from t",
                "select \"select\" from t",
                false,
            ),
            (
                "select a from t where b >= 1",
                "select a from t where b > = 1",
                false,
            ),
            ("select a from t", "select a from t where true", false),
            ("select 1; select 2", "select 1 select 2", false),
            ("", ";", true),
            ("select n'x'", "select n 'x'", false),
            (
                "select /*+ index(a) */ 1",
                "select /*+ index(b) */ 1",
                false,
            ),
            ("select /*! 1 */", "select /*! 2 */", false),
            (r"select 'it\'s  a'", r"select 'it\'s a'", false),
            (r"select 'it\'s a'", " select 'it\\'s a'\n", true),
        ];
        for (left, right, expected) in cases {
            assert_eq!(
                are_identical(left, right, Dialect::Generic),
                expected,
                "{left} | {right}"
            );
        }
    }

    #[test]
    fn comments_alone_are_nothing() {
        for text in ["", " \n", ";", "-- nothing", "/* a */ ; -- b", "/*+ a */"] {
            assert!(is_nothing(text, Dialect::Generic), "{text}");
        }
        for text in ["select", "''", "\"a\"", "1", "/*! 1 */"] {
            assert!(!is_nothing(text, Dialect::Generic), "{text}");
        }
        assert!(is_nothing("# a", Dialect::Mysql));
    }

    #[test]
    fn a_comment_of_one_dialect_is_an_operator_of_another() {
        let (left, right) = ("select a # 1", "select a # 2");
        assert!(are_identical(left, right, Dialect::Mysql));
        assert!(!are_identical(left, right, Dialect::Postgres));
    }

    #[test]
    fn strings_and_comments_end_where_the_dialect_says() {
        let cases = [
            (Dialect::Mysql, r"select 'a\'  b'", r"select 'a\' b'", false),
            (
                Dialect::Mysql,
                r"select 'a\'b'  c",
                r"select 'a\'b' c",
                true,
            ),
            (
                Dialect::Postgres,
                r"select E'a\'  b'",
                r"select E'a\' b'",
                false,
            ),
            (
                Dialect::Postgres,
                r"select E'a\'b'  c",
                r"select E'a\'b' c",
                true,
            ),
            (Dialect::Mysql, "select 5--1", "select 5--2", false),
            (Dialect::Mysql, "select 5 -- 1", "select 5 --\t2", true),
            (Dialect::Postgres, "select 5--1", "select 5--2", true),
        ];
        for (dialect, left, right, expected) in cases {
            assert_eq!(
                are_identical(left, right, dialect),
                expected,
                "{dialect}: {left} | {right}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_text_is_identical_to_itself(text in any::<String>()) {
            for dialect in Dialect::ALL {
                prop_assert!(are_identical(&text, &text, dialect));
            }
        }
    }
}
