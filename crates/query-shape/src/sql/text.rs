//! Texts that differ in nothing a database reads: white space, comments, a trailing `;`, the case of keywords.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::Dialect;

/// Whether two texts are the same query: the same words, strings and signs in the same order. Keywords compare in any case, names, strings
/// and hints to the server (`/*+ .. */`) as they are written. Where nobody can tell where a string ends (one isn't closed, or the dialect is
/// unknown and a backslash stands before a quote) only the same text is identical. Linear in both texts.
pub fn are_identical(left: &str, right: &str, dialect: Dialect) -> bool {
    let is_unclear = |text: &str| text.contains("\\'") || text.contains("\\\"");
    let is_known = dialect != Dialect::Generic || !(is_unclear(left) || is_unclear(right));
    match (words(left, dialect), words(right, dialect)) {
        (Some(left), Some(right)) if is_known => left == right,
        (Some(_) | None, Some(_) | None) => left.trim() == right.trim(),
    }
}

/// Whether there is nothing in a text but white space, comments and semicolons.
pub fn is_nothing(text: &str, dialect: Dialect) -> bool {
    let is_blank = |token: &Token| *token == Token::SemiColon || is_hint(token);
    words(text, dialect).is_some_and(|words| words.iter().all(is_blank))
}

/// The tokens of a text without trailing semicolons, keywords in upper case; `None` where the dialect can't cut it.
fn words(text: &str, dialect: Dialect) -> Option<Vec<Token>> {
    let tokens = Tokenizer::new(dialect.grammar(), text)
        .with_unescape(false)
        .tokenize();
    let mut words: Vec<Token> = tokens.ok()?;
    words.retain(|token| !matches!(token, Token::Whitespace(_)) || is_hint(token) || is_run(token));
    while words.last() == Some(&Token::SemiColon) {
        words.pop();
    }
    for token in &mut words {
        if let Token::Word(word) = token
            && word.keyword != Keyword::NoKeyword
        {
            word.value.make_ascii_uppercase();
        }
    }
    Some(words)
}

/// Whether it is a comment that advises the planner.
fn is_hint(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('+'))
}

/// Whether it is a comment whose text MySQL runs.
fn is_run(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('!'))
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
