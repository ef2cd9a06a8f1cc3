//! Cuts an SQL text into words, strings and signs, in linear time. Accepts everything: what isn't closed runs to the end.
//!
//! Knows no grammar. It serves texts that don't parse, and the comparing of texts; the parser has a lexer of its own.

use super::Dialect;

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or a plain name, a number, a variable.
    Word,
    /// A name in quotes or brackets.
    Quoted,
    /// A string; or a comment that a server acts on (`/*+ .. */`, `/*! .. */`).
    Text,
    /// An operator, a bracket, a comma.
    Sign,
}

/// A piece of text; white space and comments lie between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// As written, quotes included.
    pub(super) text: &'a str,
    /// The place of its first byte.
    pub(super) start: usize,
}

impl Token<'_> {
    /// Whether it is this word in any case, and not in quotes.
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it is this sign.
    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }
}

/// Signs of several characters, longer ones first.
const SIGNS: &[&str] = &[
    "<=>", "->>", "#>>", "!~*", "~~*", "<=", ">=", "<>", "!=", "==", "||", "::", "->", "#>", ":=",
    "=>", "!~", "~*", "~~", "@>", "<@", "&&", "<<", ">>", "|>", "@@", "//",
];

/// The tokens of a text.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    /// How long the whole text is.
    length: usize,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self {
            rest: text,
            length: text.len(),
            dialect,
        }
    }

    /// Drops white space and comments.
    fn skip_blank(&mut self) {
        loop {
            let text = self
                .rest
                .trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            let is_line = self.starts_line_comment(text);
            self.rest = if is_line {
                text.find('\n').map_or("", |end| &text[end..])
            } else if text.starts_with("/*") && !is_hint(text) {
                after_block(text, self.dialect)
            } else {
                self.rest = text;
                return;
            };
        }
    }

    /// In MySQL `5--1` is 6: only a gap makes two dashes a comment.
    fn starts_line_comment(&self, text: &str) -> bool {
        if let Some(rest) = text.strip_prefix("--") {
            return self.dialect != Dialect::Mysql
                || rest.is_empty()
                || rest.starts_with(|c: char| c.is_whitespace() || c.is_control());
        }
        matches!(self.dialect, Dialect::Mysql | Dialect::Bigquery) && text.starts_with('#')
    }

    /// Takes the first `length` bytes, which end between two characters.
    fn take(&mut self, kind: Kind, length: usize) -> Token<'a> {
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .unwrap_or((self.rest, ""));
        let start = self.length - self.rest.len();
        self.rest = rest;
        Token { kind, text, start }
    }

    /// How long the text in quotes is that begins here, both quotes and what stands before the first included; a doubled quote is part of it.
    fn quoted(&self, prefix: usize, close: char, has_escapes: bool) -> usize {
        let mut chars = self.rest.char_indices().skip(prefix + 1).peekable();
        while let Some((at, c)) = chars.next() {
            if has_escapes && c == '\\' {
                chars.next();
            } else if c == close && chars.next_if(|(_, next)| *next == close).is_none() {
                return at + close.len_utf8();
            }
        }
        self.rest.len()
    }

    /// How long the string `$tag$…$tag$` is that begins here; none if none does.
    fn dollar_quoted(&self) -> Option<usize> {
        let end = self.rest[1..].find('$')? + 2;
        let tag = &self.rest[..end];
        let is_tag = tag[1..end - 1]
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_')
            && !tag[1..].starts_with(|c: char| c.is_ascii_digit());
        is_tag.then(|| {
            let closed = self.rest[end..].find(tag);
            closed.map_or(self.rest.len(), |at| end + at + end)
        })
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blank();
        let first = self.rest.chars().next()?;
        Some(match first {
            '\'' => {
                let length = self.quoted(0, '\'', escapes_in_strings(self.dialect));
                self.take(Kind::Text, length)
            }
            // PostgreSQL and its kin: a string with escapes.
            'e' | 'E' if self.rest[1..].starts_with('\'') => {
                let length = self.quoted(1, '\'', true);
                self.take(Kind::Text, length)
            }
            '/' if is_hint(self.rest) => {
                let length = self.rest.len() - after_block(self.rest, self.dialect).len();
                self.take(Kind::Text, length)
            }
            '"' => {
                let is_text = matches!(self.dialect, Dialect::Mysql | Dialect::Bigquery);
                let length = self.quoted(0, '"', is_text);
                self.take(if is_text { Kind::Text } else { Kind::Quoted }, length)
            }
            '`' => {
                let length = self.quoted(0, '`', false);
                self.take(Kind::Quoted, length)
            }
            '[' if matches!(
                self.dialect,
                Dialect::Mssql | Dialect::Sqlite | Dialect::Generic
            ) && self.rest[1..].starts_with(|c: char| c.is_alphabetic() || c == '_') =>
            {
                let length = self.quoted(0, ']', false);
                self.take(Kind::Quoted, length)
            }
            '$' => match self.dollar_quoted() {
                Some(length) => self.take(Kind::Text, length),
                None => self.word(),
            },
            c if is_word(c) => self.word(),
            c => {
                let known = SIGNS.iter().find(|sign| self.rest.starts_with(**sign));
                let length = known.map_or(c.len_utf8(), |sign| sign.len());
                self.take(Kind::Sign, length)
            }
        })
    }
}

impl<'a> Lexer<'a> {
    fn word(&mut self) -> Token<'a> {
        let length = self
            .rest
            .find(|c: char| !is_word(c))
            .unwrap_or(self.rest.len());
        self.take(Kind::Word, length)
    }
}

/// Whether a comment begins here that a server acts on.
fn is_hint(text: &str) -> bool {
    text.starts_with("/*+") || text.starts_with("/*!")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | '#')
}

/// Whether a backslash escapes the next character in a string.
fn escapes_in_strings(dialect: Dialect) -> bool {
    match dialect {
        Dialect::Mysql
        | Dialect::Bigquery
        | Dialect::Snowflake
        | Dialect::Clickhouse
        | Dialect::Databricks
        | Dialect::Hive => true,
        Dialect::Generic
        | Dialect::Postgres
        | Dialect::Sqlite
        | Dialect::Mssql
        | Dialect::Redshift
        | Dialect::Duckdb
        | Dialect::Ansi => false,
    }
}

/// What follows a block comment. In PostgreSQL and T-SQL they nest.
fn after_block(text: &str, dialect: Dialect) -> &str {
    let nests = matches!(
        dialect,
        Dialect::Postgres | Dialect::Mssql | Dialect::Redshift | Dialect::Duckdb
    );
    let mut depth = 1_usize;
    let mut rest = &text[2..];
    while let Some(at) = rest.find(['*', '/']) {
        if rest[at..].starts_with("*/") {
            depth -= 1;
            rest = &rest[at + 2..];
            if depth == 0 {
                return rest;
            }
        } else if nests && rest[at..].starts_with("/*") {
            depth += 1;
            rest = &rest[at + 2..];
        } else {
            rest = &rest[at + 1..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(text: &str, dialect: Dialect) -> Vec<&str> {
        Lexer::new(text, dialect).map(|token| token.text).collect()
    }

    #[test]
    fn a_text_is_cut_as_its_dialect_says() {
        let cases: &[(Dialect, &str, &[&str])] = &[
            (
                Dialect::Generic,
                "a<=b||'it''s' -- end",
                &["a", "<=", "b", "||", "'it''s'"],
            ),
            (Dialect::Generic, "a/* x */b", &["a", "b"]),
            (Dialect::Generic, "[a b].[c]", &["[a b]", ".", "[c]"]),
            (Dialect::Postgres, "a[1]", &["a", "[", "1", "]"]),
            (Dialect::Postgres, "/* a /* b */ c */ d", &["d"]),
            (Dialect::Mysql, "/* a /* b */ c", &["c"]),
            (Dialect::Mysql, r"'it\'s' # end", &[r"'it\'s'"]),
            (Dialect::Postgres, r"'it\' x", &[r"'it\'", "x"]),
            (Dialect::Postgres, "$f$ ' -- $f$ x", &["$f$ ' -- $f$", "x"]),
            (Dialect::Postgres, "$1 $2", &["$1", "$2"]),
            (Dialect::Mssql, "#tmp @x", &["#tmp", "@x"]),
            (Dialect::Postgres, r"E'it\'s' x", &[r"E'it\'s'", "x"]),
            (Dialect::Generic, "/*+ a */ b", &["/*+ a */", "b"]),
            (Dialect::Mysql, "a--1 -- b", &["a", "-", "-", "1"]),
            (Dialect::Generic, "'not closed", &["'not closed"]),
            (Dialect::Generic, "/* not closed", &[]),
        ];
        for (dialect, text, expected) in cases {
            assert_eq!(&cut(text, *dialect), expected, "{dialect}: {text}");
        }
    }

    proptest! {
        #[test]
        fn every_text_is_cut_without_loss(text in any::<String>()) {
            for dialect in Dialect::ALL {
                let whole: usize = Lexer::new(&text, dialect).map(|token| token.text.len()).sum();
                prop_assert!(whole <= text.len());
                prop_assert!(Lexer::new(&text, dialect).all(|token| !token.text.is_empty()));
            }
        }
    }
}
