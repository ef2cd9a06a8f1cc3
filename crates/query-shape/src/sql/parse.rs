//! Text to statements, within bounds: refuses long input, limits nesting, and gives the parser a stack that its trees fit into.
//!
//! The parser stops at a depth of its own, but builds chains (`1 + 1 + 1 …`, `select … union all select …`) in a loop, as trees whose depth is
//! their length. Walking and dropping such a tree takes stack for every link, so the whole life of the tree runs on a stack that is
//! sized by the text.

use sqlparser::ast::Statement;
use sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::{Dialect, SqlError};

/// The longest text that is parsed, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// How deep statements, subqueries, parentheses and joins may nest.
const DEEPEST: usize = 50;

/// How many tokens the options of a statement may have.
const LONGEST_OPTION: usize = 64;

/// Stack for a text of no length: the parser at its deepest.
const BASE_STACK: usize = 1024 * 1024;

/// Stack for each byte of a text: half a link of a chain, since the shortest takes two bytes (`+1`).
const STACK_PER_BYTE: usize = 1024;

/// Parses the text and hands the statements to `read`. They come of the dialect asked for, or else of the generic one.
pub(super) fn with_statements<T>(
    sql: &str,
    dialect: Dialect,
    read: impl FnOnce(&[Statement]) -> T,
) -> Result<T, SqlError> {
    if sql.len() > LONGEST {
        return Err(SqlError::TooLong { bytes: sql.len() });
    }
    on_deep_stack(sql.len(), || {
        let statements = statements(sql, dialect)?;
        if statements.is_empty() {
            return Err(SqlError::Empty);
        }
        Ok(read(&statements))
    })
}

/// Runs `work` where a tree of a text of that length may be built, walked and dropped.
fn on_deep_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let needed = BASE_STACK + bytes * STACK_PER_BYTE;
    stacker::maybe_grow(needed, needed, work)
}

/// The grammars that are tried when the dialect's own fails. A text of no particular dialect may be of any.
fn others(dialect: Dialect) -> &'static [Dialect] {
    match dialect {
        Dialect::Generic => &[
            Dialect::Mysql,
            Dialect::Mssql,
            Dialect::Bigquery,
            Dialect::Snowflake,
            Dialect::Clickhouse,
        ],
        Dialect::Postgres
        | Dialect::Mysql
        | Dialect::Sqlite
        | Dialect::Mssql
        | Dialect::Bigquery
        | Dialect::Snowflake
        | Dialect::Redshift
        | Dialect::Clickhouse
        | Dialect::Duckdb
        | Dialect::Databricks
        | Dialect::Hive
        | Dialect::Ansi => &[Dialect::Generic],
    }
}

/// Parses by the dialect, and if that fails by others. The error is the dialect's own.
fn statements(sql: &str, dialect: Dialect) -> Result<Vec<Statement>, SqlError> {
    let first = match parse(sql, dialect) {
        Ok(statements) => return Ok(statements),
        Err(error) => error,
    };
    let message = match first {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            bounded(message)
        }
        ParserError::RecursionLimitExceeded => return Err(SqlError::TooDeep),
    };
    others(dialect)
        .iter()
        .find_map(|other| parse_by(sql, *other, dialect).ok())
        .ok_or(SqlError::Syntax { dialect, message })
}

/// A parser's message without the middle of the token that it quotes, which may be the whole text: its end says where it stands.
fn bounded(message: String) -> String {
    const HEAD: usize = 200;
    const TAIL: usize = 60;
    let length = message.chars().count();
    if length <= HEAD + TAIL {
        return message;
    }
    let head = message.chars().take(HEAD);
    let tail = message.chars().skip(length - TAIL);
    head.chain(['…']).chain(tail).collect()
}

fn parse(sql: &str, dialect: Dialect) -> Result<Vec<Statement>, ParserError> {
    parse_by(sql, dialect, dialect)
}

/// Parses a text of the dialect `of` by the grammar of another: which words are reserved is its own dialect's to say.
fn parse_by(sql: &str, dialect: Dialect, of: Dialect) -> Result<Vec<Statement>, ParserError> {
    let grammar = dialect.grammar();
    let mut tokens = Tokenizer::new(grammar, sql).tokenize_with_location()?;
    match dialect {
        Dialect::Mssql => tokens = without_options(tokens),
        Dialect::Generic | Dialect::Ansi | Dialect::Postgres | Dialect::Redshift => {
            let is_reserved = matches!(of, Dialect::Ansi | Dialect::Postgres | Dialect::Redshift);
            tokens = without_only(tokens, is_reserved);
        }
        Dialect::Mysql
        | Dialect::Sqlite
        | Dialect::Bigquery
        | Dialect::Snowflake
        | Dialect::Clickhouse
        | Dialect::Duckdb
        | Dialect::Databricks
        | Dialect::Hive => {}
    }
    Parser::new(grammar)
        .with_recursion_limit(DEEPEST)
        .with_tokens_with_locations(tokens)
        .parse_statements()
}

/// Drops the `only` of `from only t`, which leaves the tables that inherit from `t` aside: the parser takes it for the table. The word is reserved
/// where it means that, so that no table is called so without quotes, and no column: there it may stand behind a comma
/// or a bracket too.
fn without_only(mut tokens: Vec<TokenWithSpan>, is_reserved: bool) -> Vec<TokenWithSpan> {
    const BEFORE: [Keyword; 7] = [
        Keyword::FROM,
        Keyword::JOIN,
        Keyword::UPDATE,
        Keyword::TABLE,
        Keyword::TRUNCATE,
        Keyword::USING,
        Keyword::INTO,
    ];
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|at| {
            let token = tokens.get(*at).map(|token| &token.token);
            !matches!(token, Some(Token::Whitespace(_)))
        })
        .collect();
    let mut drop = Vec::new();
    for place in solid.windows(3) {
        let [before, only, after] = *place else {
            continue;
        };
        let word = |at: usize| match tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        };
        let behind_sign = matches!(
            tokens.get(before).map(|token| &token.token),
            Some(Token::Comma | Token::LParen)
        );
        let is_before = is_reserved && behind_sign
            || word(before).is_some_and(|word| BEFORE.contains(&word.keyword));
        let is_only = word(only).is_some_and(|word| {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case("only")
        });
        // Behind it a name, and no word that can't be one: `from only where ..` has a table of that name, somewhere.
        let is_named = match tokens.get(after).map(|token| &token.token) {
            Some(Token::LParen) => true,
            Some(Token::Word(word)) => {
                word.keyword != Keyword::AS && !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
            }
            _ => false,
        };
        if is_before && is_only && is_named {
            drop.push(only);
        }
    }
    let (mut drop, mut at) = (drop.into_iter().peekable(), 0);
    tokens.retain(|_| {
        let is_kept = drop.next_if_eq(&at).is_none();
        at += 1;
        is_kept
    });
    tokens
}

/// Drops the `option (…)` that ends a statement in T-SQL: it advises the planner, and the parser doesn't know it.
fn without_options(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        let is_option = matches!(
            &token.token,
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("option")
        );
        match is_option.then(|| group_at_end(after)).flatten() {
            Some(length) => rest = &after[length..],
            None => {
                kept.push(token.clone());
                rest = after;
            }
        }
    }
    kept
}

/// How many tokens the parenthesised group has that stands here and ends a statement; none if there is no such group. Looks at
/// [`LONGEST_OPTION`] tokens only, so that it can't take long.
fn group_at_end(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut solid = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    if solid.next()?.1.token != Token::LParen {
        return None;
    }
    let mut depth = 1_u8;
    let mut end = 0;
    for (at, token) in solid.by_ref().take(LONGEST_OPTION) {
        if token.token == Token::LParen {
            depth = depth.saturating_add(1);
        } else if token.token == Token::RParen {
            depth -= 1;
        }
        if depth == 0 {
            end = at + 1;
            break;
        }
    }
    let is_end = match solid.next() {
        None => true,
        Some((_, token)) => matches!(token.token, Token::SemiColon | Token::EOF),
    };
    (depth == 0 && is_end).then_some(end)
}
