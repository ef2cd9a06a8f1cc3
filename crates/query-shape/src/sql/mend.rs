//! What the parser doesn't know of a dialect, taken out of its tokens: words that advise the planner or choose among rows, and
//! spellings that have another one. Never changes which tables, conditions and groups a text names.

use std::collections::BTreeMap;

use sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::Dialect::{
    self, Ansi, Bigquery, Clickhouse, Databricks, Duckdb, Generic, Mssql, Mysql, Postgres,
    Redshift, Sqlite,
};

/// A group in brackets is looked at for so many tokens: options, hints and samples have fewer.
const LONGEST_GROUP: usize = 64;

/// Rules, and the dialects that each holds for: that of the grammar, or that of the text.
///
/// A rule says what stands side by side: words without quotes (`inner|left`), signs, or a class. `PATH` is a name with its qualifiers, `ITEM`
/// a name or a bracket where a table may stand, `GROUP` what stands in round brackets, `VALUE` what ends an operand, `OPERAND` what begins
/// one, `END` the end of a statement. `!` before it drops it, `?` drops it if it's there, `mod>%` puts the one for the other, and `^as` puts
/// the word in.
const RULES: &[(&[Dialect], &str)] = &[
    // It leaves the tables that inherit from this one aside. Where the word is reserved it is no column either.
    (
        &[Generic, Ansi, Postgres, Redshift],
        "from|join|update|table|truncate|using|into !only ITEM",
    ),
    (&[Ansi, Postgres, Redshift], ",|( !only ITEM"),
    (&[Postgres, Redshift], "!variadic array"),
    (&[Generic, Postgres, Redshift, Duckdb], ") !. !*"),
    (&[Mssql], "!option !GROUP END"),
    (
        &[Mssql],
        "inner|left|right|full|outer !hash|loop|merge|remote join",
    ),
    (&[Mssql], "!+|-|*|/|% ="),
    (&[Mssql], "merge|into PATH !with !GROUP"),
    (&[Generic, Mysql], "!lock !in !share !mode"),
    (&[Generic, Mysql], "VALUE mod>% OPERAND"),
    (&[Generic, Mysql], "VALUE !sounds like"),
    (
        &[Generic, Mysql],
        "create|temporary|not table|exists PATH ^as select",
    ),
    (&[Generic, Sqlite, Duckdb], "as ?not !materialized ("),
    (&[Sqlite], "!indexed !by !PATH"),
    (&[Sqlite], "VALUE !not !indexed"),
    // Of what isn't null `is not 'x'` is `<> 'x'`.
    (&[Sqlite], "is><> !not LITERAL"),
    (&[Sqlite], "is>= LITERAL"),
    (&[Clickhouse, Duckdb], "!any|all|asof|positional join"),
    (
        &[Clickhouse, Duckdb],
        "!any|all|asof inner|left|right|full outer|semi|anti|join",
    ),
    (&[Clickhouse], "!global in"),
    (&[Clickhouse], "!global not in"),
    (&[Clickhouse], "as PATH !final"),
    (
        &[Duckdb],
        "!using !sample ?reservoir|bernoulli|system ?NUMBER ?% ?percent|rows ?GROUP ?repeatable ?GROUP",
    ),
    (&[Duckdb], "limit NUMBER ?percent ?%"),
    (&[Duckdb], "!by !name select|values|from|with"),
    (&[Bigquery], "( !model PATH ,"),
    (&[Databricks], "from|join !stream ITEM"),
    (
        &[Generic, Postgres, Redshift],
        "vacuum ?full ?freeze ?verbose ?analyze",
    ),
    // It names a schema.
    (&[Sqlite], "vacuum !PATH"),
];

const SIGNS: [(&str, Token); 11] = [
    (",", Token::Comma),
    ("(", Token::LParen),
    (")", Token::RParen),
    (".", Token::Period),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Mul),
    ("/", Token::Div),
    ("%", Token::Mod),
    ("=", Token::Eq),
    ("<>", Token::Neq),
];

/// What becomes of a token.
enum Change {
    Gone,
    Sign(&'static str),
    /// This word follows it.
    With(&'static str),
}

/// The tokens of a text of the dialect `of` as the grammar of another, or its own, can read them. Linear in their number.
pub(super) fn mended(
    tokens: Vec<TokenWithSpan>,
    grammar: Dialect,
    of: Dialect,
) -> Vec<TokenWithSpan> {
    let holds = |dialects: &[Dialect]| dialects.contains(&grammar) || dialects.contains(&of);
    let rules = RULES.iter().filter(|(dialects, _)| holds(dialects));
    let rules: Vec<&'static str> = rules.map(|(_, rule)| *rule).collect();
    let solid: Vec<(usize, &Token)> = tokens
        .iter()
        .map(|token| &token.token)
        .enumerate()
        .filter(|(_, token)| !matches!(token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let mut changes = BTreeMap::new();
    for at in 0..solid.len() {
        for rule in &rules {
            changes.extend(changed(rule, &solid[at..]).into_iter().flatten());
        }
    }
    if changes.is_empty() {
        return tokens;
    }
    let mut mended = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.into_iter().enumerate() {
        match changes.get(&at) {
            None => mended.push(token),
            Some(Change::Gone) => {}
            Some(Change::Sign(name)) => {
                let sign = SIGNS.iter().find(|(sign, _)| sign == name);
                mended.push(sign.map_or(token, |(_, sign)| TokenWithSpan::wrap(sign.clone())));
            }
            Some(Change::With(word)) => {
                let word = TokenWithSpan::wrap(Token::make_keyword(word));
                mended.extend([token, word]);
            }
        }
    }
    mended
}

/// What a rule changes where it holds at the beginning of some tokens, by their places in the text.
fn changed(rule: &'static str, tokens: &[(usize, &Token)]) -> Option<Vec<(usize, Change)>> {
    let mut rest = tokens;
    let mut changes = Vec::new();
    for step in rule.split(' ') {
        if let Some(word) = step.strip_prefix('^') {
            let before = (tokens.len() - rest.len()).checked_sub(1)?;
            changes.push((tokens.get(before)?.0, Change::With(word)));
            continue;
        }
        let dropped = step.strip_prefix(['!', '?']);
        let (look, sign) = match step.split_once('>') {
            Some((look, sign)) => (look, Some(sign)),
            None => (dropped.unwrap_or(step), None),
        };
        let length = match length(look, rest) {
            Some(length) => length,
            None if step.starts_with('?') => 0,
            None => return None,
        };
        let (found, after) = rest.split_at_checked(length)?;
        for (place, _) in found {
            if let Some(sign) = sign {
                changes.push((*place, Change::Sign(sign)));
            } else if dropped.is_some() {
                changes.push((*place, Change::Gone));
            }
        }
        rest = after;
    }
    Some(changes)
}

/// How many tokens at the beginning of some are what a rule looks for.
fn length(look: &str, tokens: &[(usize, &Token)]) -> Option<usize> {
    let Some((_, first)) = tokens.first() else {
        return (look == "END").then_some(0);
    };
    let is_found = match look {
        "END" => return (**first == Token::SemiColon).then_some(0),
        "PATH" => return path_length(tokens),
        "GROUP" => return group_length(tokens),
        "NUMBER" => matches!(first, Token::Number(..)),
        "LITERAL" => is_literal(first),
        "VALUE" => is_literal(first) || is_name(first) || **first == Token::RParen,
        "OPERAND" => is_literal(first) || is_name(first) || **first == Token::LParen,
        "ITEM" => is_item(first),
        look => look.split('|').any(|one| is_one(first, one)),
    };
    is_found.then_some(1)
}

/// Whether it is this word, without quotes, or this sign.
fn is_one(token: &Token, one: &str) -> bool {
    if let Token::Word(word) = token {
        return word.quote_style.is_none() && one.eq_ignore_ascii_case(&word.value);
    }
    SIGNS
        .iter()
        .any(|(name, sign)| *name == one && sign == token)
}

fn is_literal(token: &Token) -> bool {
    matches!(token, Token::Number(..) | Token::SingleQuotedString(_))
}

/// Whether it is a name, and no word of the language.
fn is_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword)
}

/// `from only where ..` has a table of that name, somewhere.
fn is_item(token: &Token) -> bool {
    let is_table = |word: &Word| {
        word.keyword != Keyword::AS && !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
    };
    *token == Token::LParen || matches!(token, Token::Word(word) if is_table(word))
}

/// `t`, `s.t`, `d.s.t`.
fn path_length(tokens: &[(usize, &Token)]) -> Option<usize> {
    let is_word = |at: usize| matches!(tokens.get(at), Some((_, Token::Word(_))));
    let is_point = |at: usize| matches!(tokens.get(at), Some((_, Token::Period)));
    let mut length = is_word(0).then_some(1)?;
    while is_point(length) && is_word(length + 1) && length < LONGEST_GROUP {
        length += 2;
    }
    Some(length)
}

fn group_length(tokens: &[(usize, &Token)]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, (_, token)) in tokens.iter().enumerate().take(LONGEST_GROUP) {
        if **token == Token::LParen {
            depth += 1;
        } else if **token == Token::RParen {
            depth = depth.checked_sub(1)?;
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
    }
    None
}
