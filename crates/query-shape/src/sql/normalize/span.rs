//! Matches spans of tokens for the rules: words, signs and classes.

use sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::{Token, Word};

use super::Solid;

/// Maximum tokens of a bracket or expression to match. Options, hints and samples have fewer.
const LONGEST: usize = 128;

const SIGNS: [(&str, Token); 25] = [
    (",", Token::Comma),
    (";", Token::SemiColon),
    ("(", Token::LParen),
    (")", Token::RParen),
    ("[", Token::LBracket),
    ("]", Token::RBracket),
    ("{", Token::LBrace),
    ("}", Token::RBrace),
    (".", Token::Period),
    (":", Token::Colon),
    ("::", Token::DoubleColon),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Mul),
    ("/", Token::Div),
    ("%", Token::Mod),
    ("^", Token::Caret),
    ("!", Token::ExclamationMark),
    ("@", Token::AtSign),
    ("=", Token::Eq),
    ("<>", Token::Neq),
    ("=>", Token::RArrow),
    ("?", Token::Question),
    (">", Token::Gt),
    (">>", Token::ShiftRight),
];

/// Keywords that end an expression or a list of expressions.
const CLAUSES: &str = "select from where prewhere group having qualify window order sort cluster distribute limit \
    offset fetch settings format union intersect except minus join inner left right full cross \
    natural on using values set when into returning insert update delete";

pub(super) fn token(text: &str) -> Token {
    let sign = SIGNS.iter().find(|(sign, _)| *sign == text);
    sign.map_or_else(|| Token::make_keyword(text), |(_, sign)| sign.clone())
}

/// Returns an unquoted word.
pub(super) fn word(token: &Token) -> Option<&str> {
    if let Token::Word(word) = token {
        return word.quote_style.is_none().then_some(&word.value);
    }
    None
}

pub(super) fn text(token: &Token) -> Option<&str> {
    if let Token::SingleQuotedString(text)
    | Token::DoubleQuotedString(text)
    | Token::NationalStringLiteral(text)
    | Token::EscapedStringLiteral(text)
    | Token::UnicodeStringLiteral(text) = token
    {
        return Some(text);
    }
    None
}

/// Returns the number of tokens from `at` on that match `look`, or `None`.
///
/// Classes: `PATH` a qualified name, `LIST` of such names, `COLUMNS` a bracketed list, `ITEM` a name or bracket in table position, `NAME` a
/// name that isn't a keyword, `WORD` any word, `GROUP` parentheses with contents, `GROUPS` several of them, `INDEX` square brackets,
/// `TYPES` angle brackets, `OPTIONS` parentheses with `=>`, `NUMBER`, `TEXT`, `LITERAL`, `VALUE` the end of an operand, `OPERAND` the start
/// of one, `TERM` a short one, `EXPR` up to a comma or clause, `REST` up to a clause, `STATEMENT` up to the end if it contains no query,
/// `SOURCE` up to INSERT, `SETTINGS` and `VARIABLES` lists of these, `START` and `END` of a statement.
pub(super) fn length(look: &str, tokens: &[Solid<'_>], at: usize) -> Option<usize> {
    let rest = tokens.get(at..)?;
    let first = rest.first().map(|(_, token)| *token);
    let is = |found: bool| found.then_some(1);
    match look {
        "START" => {
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            before
                .is_none_or(|(_, token)| **token == Token::SemiColon)
                .then_some(0)
        }
        "END" => first
            .is_none_or(|token| *token == Token::SemiColon)
            .then_some(0),
        "PATH" => path(rest),
        "LIST" => list(rest, path),
        "COLUMNS" => in_brackets(rest, |inner| list(inner, path)),
        "GROUP" => bracket(rest, &Token::LParen),
        "GROUPS" => list(rest, |rest| bracket(rest, &Token::LParen)),
        "INDEX" => bracket(rest, &Token::LBracket),
        "TYPES" => types(rest),
        "OPTIONS" => rest
            .get(2)
            .filter(|(_, token)| **token == Token::RArrow)
            .and_then(|_| bracket(rest, &Token::LParen)),
        "TERM" => term(rest),
        "EXPR" => until(rest, |token| *token == Token::Comma || is_clause(token)),
        "REST" => until(rest, is_clause),
        "SOURCE" => {
            until(rest, |token| is_one(token, "insert")).filter(|length| rest.len() > *length)
        }
        "STATEMENT" => until(rest, |token| is_one(token, "select")),
        "SETTINGS" => list(rest, setting),
        "VARIABLES" => list(rest, |rest| variable(rest.first()?.1)),
        "NUMBER" => is(matches!(first?, Token::Number(..))),
        "TEXT" => is(text(first?).is_some()),
        "LITERAL" => is(is_literal(first?)),
        "VALUE" => is(is_literal(first?)
            || is_name(first?)
            || matches!(first?, Token::RParen | Token::RBracket)),
        "OPERAND" => is(is_literal(first?) || is_name(first?) || *first? == Token::LParen),
        "ITEM" => is(*first? == Token::LParen || is_table(first?)),
        "NAME" => is(is_name(first?)),
        "WORD" => is(matches!(first?, Token::Word(_))),
        one => is(is_one(first?, one)),
    }
}

pub(super) fn is_one(token: &Token, one: &str) -> bool {
    if let Token::Word(_) = token {
        return word(token).is_some_and(|word| one.eq_ignore_ascii_case(word));
    }
    if let Token::Placeholder(text) = token {
        return text == one;
    }
    SIGNS
        .iter()
        .any(|(name, sign)| *name == one && sign == token)
}

fn is_literal(token: &Token) -> bool {
    matches!(token, Token::Number(..)) || text(token).is_some()
}

/// Returns whether the token is a name other than a keyword.
fn is_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword)
}

/// Names such as `only` can be tables: `from only where ..`.
fn is_table(token: &Token) -> bool {
    let may_be = |word: &Word| {
        word.keyword != Keyword::AS
            && !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
            && !RESERVED_FOR_COLUMN_ALIAS.contains(&word.keyword)
    };
    matches!(token, Token::Word(word) if may_be(word))
}

fn is_clause(token: &Token) -> bool {
    CLAUSES.split(' ').any(|word| is_one(token, word))
}

fn variable(token: &Token) -> Option<usize> {
    matches!(token, Token::Word(word) if word.value.starts_with('@')).then_some(1)
}

/// `t`, `s.t`, `d.s.t`.
fn path(tokens: &[Solid<'_>]) -> Option<usize> {
    let is_word = |at: usize| matches!(tokens.get(at), Some((_, Token::Word(_))));
    let is_point = |at: usize| matches!(tokens.get(at), Some((_, Token::Period)));
    let mut length = is_table(tokens.first()?.1).then_some(1)?;
    while is_point(length) && is_word(length + 1) && length < LONGEST {
        length += 2;
    }
    Some(length)
}

fn list(tokens: &[Solid<'_>], item: impl Fn(&[Solid<'_>]) -> Option<usize>) -> Option<usize> {
    let mut length = item(tokens)?;
    while length < LONGEST
        && let Some((_, Token::Comma)) = tokens.get(length)
        && let Some(next) = tokens.get(length + 1..).and_then(&item)
    {
        length += 1 + next;
    }
    Some(length)
}

fn setting(tokens: &[Solid<'_>]) -> Option<usize> {
    let [(_, Token::Word(_)), (_, Token::Eq), value @ ..] = tokens else {
        return None;
    };
    let braces = || bracket(value, &Token::LBrace);
    Some(2 + term(value).or_else(braces)?)
}

/// `now()`, `'2026-01-01'`, `timestamp '2026-01-01' - interval 1 day`.
fn term(tokens: &[Solid<'_>]) -> Option<usize> {
    let mut length = 0;
    loop {
        let rest = tokens.get(length..)?;
        let (_, first) = rest.first()?;
        let literal = |at: usize| rest.get(at).is_some_and(|(_, token)| is_literal(token));
        length += if is_one(first, "interval") {
            3
        } else if literal(0) {
            1
        } else if let Some(named) = path(rest) {
            let argument = rest
                .get(named..)
                .and_then(|rest| bracket(rest, &Token::LParen));
            named + argument.unwrap_or(usize::from(literal(named)))
        } else {
            bracket(rest, &Token::LParen)?
        };
        match tokens.get(length) {
            Some((_, Token::Plus | Token::Minus)) if length < LONGEST => length += 1,
            Some(_) | None => return Some(length),
        }
    }
}

/// Matches brackets with exactly the contents matched by `inner`.
fn in_brackets(
    tokens: &[Solid<'_>],
    inner: impl Fn(&[Solid<'_>]) -> Option<usize>,
) -> Option<usize> {
    let length = bracket(tokens, &Token::LParen)?;
    (inner(tokens.get(1..)?)? + 2 == length).then_some(length)
}

fn bracket(tokens: &[Solid<'_>], opening: &Token) -> Option<usize> {
    tokens.first().filter(|(_, token)| *token == opening)?;
    let inner = until(tokens.get(1..)?, |_| false).unwrap_or_default();
    tokens
        .get(inner + 1)
        .filter(|(_, token)| is_closing(token))?;
    Some(inner + 2)
}

/// `<struct<a int64, b string>>`.
fn types(tokens: &[Solid<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, (_, token)) in tokens.iter().enumerate().take(LONGEST) {
        if **token == Token::Lt {
            depth += 1;
        } else if **token == Token::Gt {
            depth = depth.checked_sub(1)?;
        } else if **token == Token::ShiftRight {
            depth = depth.checked_sub(2)?;
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
    }
    None
}

fn is_closing(token: &Token) -> bool {
    matches!(token, Token::RParen | Token::RBracket | Token::RBrace)
}

/// Returns the number of tokens up to the first that satisfies `ends`, or to the end of the bracket or statement.
fn until(tokens: &[Solid<'_>], ends: impl Fn(&Token) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (length, (_, token)) in tokens.iter().enumerate().take(LONGEST) {
        if matches!(token, Token::LParen | Token::LBracket | Token::LBrace) {
            depth += 1;
        } else if depth == 0 && (is_closing(token) || **token == Token::SemiColon || ends(token)) {
            return (length > 0).then_some(length);
        } else if is_closing(token) {
            depth -= 1;
        }
    }
    (tokens.len() < LONGEST && depth == 0 && !tokens.is_empty()).then_some(tokens.len())
}
