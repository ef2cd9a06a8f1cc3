//! Parses text within limits of length, nesting and stack.
//!
//! The parser has a depth limit, but builds chains (`1 + 1 + 1 …`, `select … union all select …`) in a loop, as trees as deep as the chain
//! is long. Walking and dropping such a tree uses stack for each link. So trees are created and dropped on a stack sized by the text.

use std::borrow::Cow;

use sqlparser::ast::Statement;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Tokenizer;

use super::normalize::normalized;
use super::{Dialect, SqlError, object};

/// Maximum length of a text, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// Maximum nesting of statements, subqueries, parentheses and joins.
const DEEPEST: usize = 50;

/// Stack for an empty text, sufficient for the parser at its maximum depth.
const BASE_STACK: usize = 1024 * 1024;

/// Stack per byte of text: half a link of a chain, because the shortest link has two bytes (`+1`). Measured in an unoptimized build with
/// coverage. Untouched stack uses no memory.
const STACK_PER_BYTE: usize = 2048;

/// Parses the text with the requested dialect, or else the generic one, and passes the statements to `read`.
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

/// Returns whether the dialect's own grammar parses both unmodified texts into equal trees after `normalize`.
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

/// Runs `work` on a stack large enough for the tree of a text of that length.
fn on_deep_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let needed = BASE_STACK + bytes * STACK_PER_BYTE;
    stacker::maybe_grow(needed, needed, work)
}

/// Fallback grammars. A text in generic SQL may be of any dialect.
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

/// Parses with the dialect, then with the fallbacks. The error is the dialect's own.
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

/// Parses query texts inside statements, recursively.
fn unloaded(statements: &[Statement], dialect: Dialect) -> Result<Vec<Statement>, SqlError> {
    let mut found = Vec::new();
    for text in statements.iter().filter_map(object::run_text) {
        let inner = self::statements(text, dialect)?;
        found.extend(unloaded(&inner, dialect)?);
        found.extend(inner);
    }
    Ok(found)
}

/// Shortens a parser's message in the middle, because it may quote the complete text. The end contains the position.
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

/// Parses a text of the dialect `of` with another grammar. Reserved words are taken from `of`.
fn parse_by(sql: &str, dialect: Dialect, of: Dialect) -> Result<Vec<Statement>, ParserError> {
    let grammar = dialect.grammar();
    // The parser supports the executable comments of MySQL, but not of MariaDB.
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
