//! Text to statements, within bounds: refuses long input, limits nesting, and gives the parser a stack that its trees fit into.
//!
//! The parser stops at a depth of its own, but builds chains (`1 + 1 + 1 …`, `select … union all select …`) in a loop, as trees whose depth is
//! their length. Walking and dropping such a tree takes stack for every link, so the whole life of the tree runs on a stack that is
//! sized by the text.

use std::borrow::Cow;

use sqlparser::ast::Statement;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Tokenizer;

use super::normalize::normalized;
use super::{Dialect, SqlError, object};

/// The longest text that is parsed, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// How deep statements, subqueries, parentheses and joins may nest.
const DEEPEST: usize = 50;

/// Stack for a text of no length: the parser at its deepest.
const BASE_STACK: usize = 1024 * 1024;

/// Stack for each byte of a text: half a link of a chain, since the shortest takes two bytes (`+1`). It is what a build without
/// optimisation and with coverage takes; what isn't touched takes no memory.
const STACK_PER_BYTE: usize = 2048;

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
        let mut statements = statements(sql, dialect)?;
        statements.extend(unloaded(&statements, dialect)?);
        if statements.is_empty() {
            return Err(SqlError::Empty);
        }
        Ok(read(&statements))
    })
}

/// Returns whether the dialect's own grammar reads both texts as they are, as the same tree once `normalize` has changed both.
pub(super) fn are_one_tree(
    left: &str,
    right: &str,
    dialect: Dialect,
    normalize: impl Fn(&mut Vec<Statement>),
) -> bool {
    let bytes = left.len() + right.len();
    bytes <= 2 * LONGEST
        && on_deep_stack(bytes, || {
            let trees = [left, right].map(|text| {
                let parser = Parser::new(dialect.grammar()).with_recursion_limit(DEEPEST);
                let mut tree = parser.try_with_sql(text).ok()?.parse_statements().ok()?;
                normalize(&mut tree);
                Some(tree)
            });
            let [left, right] = trees;
            left.is_some() && left == right
        })
}

/// Runs `work` where a tree of a text of that length may be built, walked and dropped.
fn on_deep_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let needed = BASE_STACK + bytes * STACK_PER_BYTE;
    stacker::maybe_grow(needed, needed, work)
}

/// The grammars that are tried when the dialect's own fails. A text of no particular dialect may be of any.
fn others(dialect: Dialect) -> &'static [Dialect] {
    if dialect == Dialect::Hive {
        return &[Dialect::Generic, Dialect::Databricks];
    }
    if dialect != Dialect::Generic {
        return &[Dialect::Generic];
    }
    &[
        Dialect::Mysql,
        Dialect::Mssql,
        Dialect::Bigquery,
        Dialect::Snowflake,
        Dialect::Clickhouse,
    ]
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

/// The statements of queries that are texts in others, and of those in them.
fn unloaded(statements: &[Statement], dialect: Dialect) -> Result<Vec<Statement>, SqlError> {
    let mut found = Vec::new();
    for text in statements.iter().filter_map(object::run_text) {
        let inner = self::statements(text, dialect)?;
        found.extend(unloaded(&inner, dialect)?);
        found.extend(inner);
    }
    Ok(found)
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
    // The parser knows the comments that MySQL runs, and not those that only MariaDB does.
    let sql = match grammar.supports_multiline_comment_hints() {
        true => Cow::Owned(sql.replace("/*M!", "/*!")),
        false => Cow::Borrowed(sql),
    };
    let tokens = Tokenizer::new(grammar, &sql).tokenize_with_location()?;
    Parser::new(grammar)
        .with_recursion_limit(DEEPEST)
        .with_tokens_with_locations(normalized(tokens, dialect, of))
        .parse_statements()
}
