//! Two queries that are one but for white space and comments. Strings and quoted names are compared as they are.

use super::{Language, kql};

/// Whether two queries are identical once white space and comments are reduced, and the semicolons at the end.
pub fn identical(one: &str, other: &str, language: Language) -> bool {
    one == other || normalised(one, language) == normalised(other, language)
}

/// A query with white space and comments reduced to one space between tokens, without semicolons at the end. Text in which it isn't certain
/// where a string ends (SQL with a backslash before a quote, which dialects read differently) is only trimmed.
pub fn normalised(query: &str, language: Language) -> String {
    let mut text = match language {
        Language::Kql => kql::normalised(query),
        Language::Sql if query.contains("\\'") || query.contains("\\\"") => query.trim().to_owned(),
        Language::Sql => sql(query),
    };
    text.truncate(text.trim_end_matches([';', ' ']).len());
    text
}

/// Signs that may form one operator with their neighbours.
fn is_operator(c: char) -> bool {
    "<>=!|&+-*/%^~:?#@".contains(c)
}

fn in_word(c: char) -> bool {
    !c.is_whitespace() && !is_operator(c) && !"(),;[]{}'\"`$".contains(c)
}

/// SQL, token by token.
fn sql(query: &str) -> String {
    let mut out = String::with_capacity(query.len());
    let mut rest = query;
    let mut gap = false;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = blank(rest) {
            gap = true;
            rest = &rest[length..];
            continue;
        }
        let (length, joins) = match first {
            '\'' | '"' | '`' => (quoted(rest, first), true),
            '$' => (dollar_quoted(rest).unwrap_or(1), true),
            c if is_operator(c) => (operator(rest), false),
            c if in_word(c) => (rest.find(|c| !in_word(c)).unwrap_or(rest.len()), true),
            other => (other.len_utf8(), false),
        };
        // A prefix stays with its string (`N'x'`), and a name with its quotes; all else stands apart.
        let joined = joins && !gap && out.ends_with(|c: char| in_word(c) || "'\"`$".contains(c));
        if !joined && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&rest[..length]);
        gap = false;
        rest = &rest[length..];
    }
    out
}

/// The length of the white space or the comment that a text begins with. `/*!` and `/*+` are no comments: servers act on them.
fn blank(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") && !text.starts_with("/*!") && !text.starts_with("/*+") {
        return Some(text[2..].find("*/").map_or(text.len(), |end| end + 4));
    }
    let length = text
        .find(|c: char| !c.is_whitespace())
        .unwrap_or(text.len());
    (length > 0).then_some(length)
}

/// The length of a string or quoted name; a doubled quote begins the next one, which is joined to it.
fn quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

/// The length of `$tag$ .. $tag$`, if one begins here.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = text[1..]
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map(|end| end + 1)?;
    if !text[tag..].starts_with('$') {
        return None;
    }
    let fence = &text[..=tag];
    text[fence.len()..]
        .find(fence)
        .map(|end| end + 2 * fence.len())
}

/// The length of an operator: signs in a row, up to a comment.
fn operator(text: &str) -> usize {
    let run = text.find(|c| !is_operator(c)).unwrap_or(text.len());
    let comment = ["--", "/*"]
        .iter()
        .filter_map(|mark| text[1..run.max(1)].find(mark))
        .min();
    comment.map_or(run, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_comments_do_not_tell_two_queries_apart() {
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
        ];
        for (language, one, other) in same {
            assert!(identical(one, other, language), "{one} / {other}");
        }
    }

    #[test]
    fn what_stands_in_strings_and_makes_tokens_tells_them_apart() {
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
        ];
        for (language, one, other) in apart {
            assert!(!identical(one, other, language), "{one} / {other}");
        }
    }
}
