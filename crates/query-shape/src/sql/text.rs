//! Compares texts, ignoring differences that databases ignore: white space, comments, a trailing `;`, the case of keywords.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, ObjectNamePart, Statement, visit_expressions_mut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::{Dialect, parse};

/// Functions that MySQL recognizes only directly before a parenthesis.
const UNSPACED: &str = "adddate bit_and bit_or bit_xor cast count curdate curtime date_add date_sub extract group_concat max mid min now \
    position session_user std stddev stddev_pop stddev_samp subdate substr substring sum sysdate system_user trim variance var_pop var_samp";

/// Returns whether two texts are the same query: equal words, strings and signs in the same order. Comparison is case-sensitive except for
/// keywords of the dialect's grammar and, unless `Dialect::has_case_sensitive_builtins`, built-in functions. Names are always
/// case-sensitive, even if spelled like a keyword, as are all words of a text that doesn't parse.
///
/// Texts must be equal after trimming if they contain comments that a server may execute or follow (`/*! .. */`, `/*M! .. */`,
/// `/*+ .. */`), or marks that are a comment or escape only in some dialects. O(n) in both texts.
///
/// Texts without a query aren't identical.
pub fn are_identical(left: &str, right: &str, dialect: Dialect) -> bool {
    if is_nothing(left, dialect) {
        return false;
    }
    if left.trim() == right.trim() {
        return true;
    }
    if has_unclear_mark(left, dialect) || has_unclear_mark(right, dialect) {
        return false;
    }
    let (Some(left_words), Some(right_words)) = (
        significant_tokens(left, dialect),
        significant_tokens(right, dialect),
    ) else {
        return false;
    };
    if left_words.len() != right_words.len() {
        return false;
    }
    let mut in_other_case = left_words
        .iter()
        .zip(&right_words)
        .filter(|(left, right)| left != right)
        .peekable();
    if in_other_case.peek().is_none() {
        return true;
    }
    in_other_case.all(|(left, right)| is_one_keyword(left, right, dialect))
        && parse::are_one_tree(left, right, dialect, |statements| {
            if !dialect.has_case_sensitive_builtins() {
                lower_builtins(statements);
            }
        })
}

/// Returns whether a text has a comment that some server executes, or a mark that ends or escapes a string only in some dialects.
fn has_unclear_mark(text: &str, dialect: Dialect) -> bool {
    let is_generic = dialect == Dialect::Generic;
    // Hive has escapes, but not in the parser.
    let has_escapes = is_generic || dialect == Dialect::Hive;
    let is_in = |mark: &&str| text.contains(*mark);
    let has_run_comment = text.split("/*").skip(1).any(|comment| {
        let mark = comment.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        mark.starts_with(['!', '+'])
    });
    let has_close_dashes = || {
        let mut after = text.split("--").skip(1);
        after.any(|rest| !rest.is_empty() && !rest.starts_with([' ', '\t', '\r', '\n', '-']))
    };
    has_run_comment
        || text.contains("--+")
        || has_escapes && ["\\'", "\\\""].iter().any(is_in)
        || is_generic && (["#", "//"].iter().any(is_in) || has_close_dashes())
}

/// Returns whether two tokens are one keyword in different case. With case-sensitive built-ins, each must be all upper or all lower case,
/// because a mixed-case built-in has only one spelling.
fn is_one_keyword(left: &Token, right: &Token, dialect: Dialect) -> bool {
    let (Token::Word(left), Token::Word(right)) = (left, right) else {
        return false;
    };
    let is_in_one_case = |text: &str| {
        text.bytes().all(|c| !c.is_ascii_lowercase())
            || text.bytes().all(|c| !c.is_ascii_uppercase())
    };
    left.keyword != Keyword::NoKeyword
        && left.quote_style.is_none()
        && right.quote_style.is_none()
        && left.value.eq_ignore_ascii_case(&right.value)
        && (!dialect.has_case_sensitive_builtins()
            || (is_in_one_case(&left.value) && is_in_one_case(&right.value)))
}

/// Converts functions that are keywords to lower case.
fn lower_builtins(statements: &mut Vec<Statement>) {
    // The closure never breaks.
    let _: ControlFlow<()> = visit_expressions_mut(statements, |expr| {
        if let Expr::Function(function) = expr
            && let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice()
            && name.quote_style.is_none()
        {
            name.value.make_ascii_lowercase();
        }
        ControlFlow::Continue(())
    });
}

/// Returns whether a text has only white space, comments and semicolons.
pub fn is_nothing(text: &str, dialect: Dialect) -> bool {
    significant_tokens(text, dialect)
        .is_some_and(|words| words.iter().all(|word| *word == Token::SemiColon))
}

/// Returns the tokens of a text without trailing semicolons, with white space only where it changes the meaning; `None` if the dialect can't
/// tokenize it.
fn significant_tokens(text: &str, dialect: Dialect) -> Option<Vec<Token>> {
    let tokens = Tokenizer::new(dialect.grammar(), text)
        .with_unescape(false)
        .tokenize();
    let (mut words, mut gap): (Vec<Token>, Vec<Whitespace>) = Default::default();
    for token in tokens.ok()? {
        if let Token::Whitespace(space) = token {
            gap.push(space);
            continue;
        }
        let before = words.last().filter(|_| !gap.is_empty());
        let space = before.and_then(|before| significant_gap(before, &gap, &token, dialect));
        words.extend(space.map(Token::Whitespace));
        words.push(token);
        gap.clear();
    }
    while words.last() == Some(&Token::SemiColon) {
        words.pop();
    }
    Some(words)
}

/// Returns white space for a gap without which two tokens may mean something else: `1a` and `1 a`, `count(*)` and
/// `count (*)` in MySQL. A line break joins two strings in standard SQL, other white space doesn't.
fn significant_gap(
    before: &Token,
    gap: &[Whitespace],
    after: &Token,
    dialect: Dialect,
) -> Option<Whitespace> {
    use Dialect::{Duckdb, Mysql, Postgres, Redshift};
    let (left, right) = (before.to_string(), after.to_string());
    let (last, first) = (left.chars().next_back()?, right.chars().next()?);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if last == '\'' && first == '\'' && !dialect.grammar().supports_string_literal_concatenation() {
        let is_break = |space: &Whitespace| {
            matches!(
                space,
                Whitespace::Newline | Whitespace::SingleLineComment { .. }
            )
        };
        let is_comment = |space: &Whitespace| matches!(space, Whitespace::MultiLineComment(_));
        let joins = gap.iter().any(is_break) && !gap.iter().any(is_comment);
        let (line_break, space) = (Whitespace::Newline, Whitespace::Space);
        return Some(if joins { line_break } else { space });
    }
    let is_call = dialect == Mysql
        && first == '('
        && UNSPACED
            .split(' ')
            .any(|name| left.eq_ignore_ascii_case(name));
    // Postgres reads `!=-` as one operator.
    let is_operator = matches!(dialect, Postgres | Redshift | Duckdb)
        && *before == Token::Neq
        && "+-@~".contains(first);
    let is_significant = is_call || is_operator || is_word(last) && is_word(first);
    is_significant.then_some(Whitespace::Space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ignores_differences_that_databases_ignore() {
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
            ("", ";", false),
            ("-- x", "-- x", false),
            ("/* x */;", "-- y", false),
            ("select n'x'", "select n 'x'", false),
            (
                "select /*+ index(a) */ 1",
                "select /*+ index(b) */ 1",
                false,
            ),
            ("select /*! 1 */", "select /*! 2 */", false),
            ("select 5--1", "select 5--2", false),
            ("select a # 1", "select a # 2", false),
            ("select count(*) from t", "SELECT COUNT(*) FROM t", true),
            ("select Date from t", "select date from t", false),
            ("SELECT Value FROM Type", "select Value from Type", true),
            ("select f from", "SELECT f FROM", false),
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
    fn text_of_comments_is_empty() {
        for text in ["", " \n", ";", "-- nothing", "/* a */ ; -- b", "/*+ a */"] {
            assert!(is_nothing(text, Dialect::Generic), "{text}");
        }
        for text in ["select", "''", "\"a\"", "1", "/*! 1 */"] {
            assert!(!is_nothing(text, Dialect::Generic), "{text}");
        }
        assert!(is_nothing("# a", Dialect::Mysql));
    }

    #[test]
    fn comment_syntax_depends_on_the_dialect() {
        let (left, right) = ("select a # 1", "select a # 2");
        assert!(are_identical(left, right, Dialect::Mysql));
        assert!(!are_identical(left, right, Dialect::Postgres));
    }

    #[test]
    fn names_and_paths_are_case_sensitive() {
        let cases = [
            (
                Dialect::Snowflake,
                "select v:type from t",
                "select v:Type from t",
            ),
            (
                Dialect::Snowflake,
                "select v:a.Key::int from t",
                "select v:a.key::int from t",
            ),
            (
                Dialect::Snowflake,
                "select $1 from @st/Date/x",
                "select $1 from @st/date/x",
            ),
            (
                Dialect::Databricks,
                "select raw:Owner.Name from t",
                "select raw:Owner.name from t",
            ),
            (
                Dialect::Clickhouse,
                "select Value from t",
                "select value from t",
            ),
            (
                Dialect::Clickhouse,
                "select Order from t",
                "select order from t",
            ),
            (
                Dialect::Clickhouse,
                "select x::String from t",
                "select x::STRING from t",
            ),
            (
                Dialect::Clickhouse,
                "select Count() from t",
                "select count() from t",
            ),
            (Dialect::Mysql, "select * from Value", "select * from value"),
            (
                Dialect::Mysql,
                "insert into Type (a) values (1)",
                "insert into type (a) values (1)",
            ),
            (
                Dialect::Bigquery,
                "select * from d.Date",
                "select * from d.date",
            ),
            (
                Dialect::Bigquery,
                "select x.Type from t",
                "select x.type from t",
            ),
            (Dialect::Duckdb, "select {Key: 1}", "select {key: 1}"),
            (
                Dialect::Postgres,
                "select \"Date\" from t",
                "select \"date\" from t",
            ),
        ];
        for (dialect, left, right) in cases {
            assert!(!are_identical(left, right, dialect), "{dialect}: {left}");
            let keywords = right
                .replace("select", "SELECT")
                .replace(" from ", " FROM ");
            assert!(
                are_identical(right, &keywords, dialect),
                "{dialect}: {keywords}"
            );
        }
    }

    #[test]
    fn white_space_may_be_significant() {
        use Dialect::{
            Ansi, Bigquery, Clickhouse, Duckdb, Generic, Hive, Mysql, Postgres, Redshift,
        };
        let strings = |gap: &str| format!("select 'a'{gap}'b'");
        for dialect in [Postgres, Redshift, Duckdb, Ansi, Generic] {
            let is_same = |left, right| are_identical(&strings(left), &strings(right), dialect);
            assert!(is_same("\n", " -- c\n\t"), "{dialect}");
            assert!(is_same(" ", "\t/* c */ "), "{dialect}");
            assert!(!is_same("\n", " "), "{dialect}");
            assert!(!is_same("\r\n", "/*\n*/"), "{dialect}");
            assert!(!is_same("\n", "\n/* c */"), "{dialect}");
        }
        assert!(are_identical(&strings("\n"), &strings(" "), Mysql));
        for (dialect, left, right, expected) in [
            (Postgres, "select E'a'\n'b'", "select E'a' 'b'", false),
            (Postgres, "select 1a", "select 1 a", false),
            (Postgres, "select a!=-1", "select a != -1", false),
            (Postgres, "select a@-1", "select a @ -1", false),
            (Clickhouse, "select a!=-1", "select a != -1", true),
            (
                Mysql,
                "select count(*) from t",
                "select COUNT (*) from t",
                false,
            ),
            (Mysql, "select f(a) in(1)", "select f (a) in (1)", true),
            (
                Postgres,
                "select count(*) from t",
                "select COUNT (*) from t",
                true,
            ),
            (Hive, r"select 'a\' -- b'", r"select 'a\' -- c'", false),
            (Bigquery, "select a from t", "select a  from\tt", true),
        ] {
            assert_eq!(
                are_identical(left, right, dialect),
                expected,
                "{dialect}: {left}"
            );
        }
    }

    #[test]
    fn executable_comments_are_significant() {
        for comment in [
            "/*! where a */",
            "/*M!100 x */",
            "/*T! x */",
            "/*+ no_index(t) */",
            "--+ x",
        ] {
            let text = format!("select a from t {comment}");
            for dialect in Dialect::ALL {
                assert!(
                    !are_identical(&text, "select a from t", dialect),
                    "{comment}"
                );
                assert!(
                    !are_identical(&text, "select a from t where a", dialect),
                    "{comment}"
                );
                assert!(
                    are_identical(&text, &format!(" {text}\n"), dialect),
                    "{comment}"
                );
            }
        }
    }

    #[test]
    fn string_and_comment_ends_depend_on_the_dialect() {
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
                prop_assert_eq!(are_identical(&text, &text, dialect), !is_nothing(&text, dialect));
            }
        }
    }
}
