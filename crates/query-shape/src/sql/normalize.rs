//! Drops or rewrites tokens of a dialect that the parser doesn't support, without changing a text's tables, conditions and groups.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use self::span::length;
use super::Dialect;

mod span;

/// A rule as a sequence of steps, separated by spaces. A step matches unquoted words (`inner|left`), signs, or a class of [`span`].
///
/// | step | action |
/// | --- | --- |
/// | `x` | keeps it |
/// | `!x` | drops it |
/// | `?x` | drops it if present |
/// | `~x` | keeps it if present |
/// | `x→y` | replaces it |
/// | `#x` | quotes it, so that it is a name |
/// | `@x` | replaces a text by its tokens |
/// | `^y` | adds a word or sign |
/// | `¬x` | requires its absence |
/// | `&` | repeats the steps after it |
struct Rule {
    dialects: Vec<Dialect>,
    once: Vec<Step>,
    repeated: Vec<Step>,
}

struct Step {
    action: Action,
    look: Vec<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Keep,
    KeepIfThere,
    Drop,
    DropIfThere,
    Replace(&'static str),
    Quote,
    Unwrap,
    Add(&'static str),
    Unless,
}

enum Piece {
    Own,
    Quoted,
    Unwrapped,
    New(&'static str),
    Copy(usize),
}

/// New tokens by the index of the old one.
type Changes = BTreeMap<usize, Vec<Piece>>;

/// A token other than white space, with its index in the text.
type Solid<'a> = (usize, &'a Token);

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let mut dialects = Vec::new();
    let mut rules = Vec::new();
    let lines = include_str!("normalize/rules.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("--")) {
        if let Some(rule) = line.strip_prefix("    ") {
            rules.push(Rule::read(rule, &dialects));
        } else {
            let is_named = |dialect: &Dialect| {
                line.split(' ')
                    .any(|it| [dialect.name(), "all"].contains(&it))
            };
            dialects = Dialect::ALL.into_iter().filter(is_named).collect();
        }
    }
    rules
});

impl Step {
    fn read(text: &'static str) -> Self {
        let mut rest = text.chars();
        let action = match rest.next() {
            Some('!') => Action::Drop,
            Some('?') => Action::DropIfThere,
            Some('~') => Action::KeepIfThere,
            Some('#') => Action::Quote,
            Some('@') => Action::Unwrap,
            Some('¬') => Action::Unless,
            Some('^') => Action::Add(rest.as_str()),
            Some(_) | None => Action::Keep,
        };
        // A bare action sign stands for itself.
        let (action, look) = match (text.split_once('→'), rest.as_str()) {
            (Some((look, new)), _) => (Action::Replace(new), look),
            (None, "") => (Action::Keep, text),
            (None, _) if action == Action::Keep => (action, text),
            (None, look) => (action, look),
        };
        Self {
            action,
            look: look.split('|').collect(),
        }
    }
}

impl Rule {
    fn read(text: &'static str, dialects: &[Dialect]) -> Self {
        let (once, repeated) = text.split_once(" & ").unwrap_or((text, ""));
        Self {
            dialects: dialects.to_vec(),
            once: once.split(' ').map(Step::read).collect(),
            repeated: repeated.split_terminator(' ').map(Step::read).collect(),
        }
    }

    fn may_hold(&self, words: &HashSet<String>) -> bool {
        let is_there = |look: &&'static str| {
            !look.starts_with(|c: char| c.is_ascii_lowercase()) || words.contains(*look)
        };
        self.once.iter().all(|step| match step.action {
            Action::Keep | Action::Drop | Action::Replace(_) | Action::Quote | Action::Unwrap => {
                step.look.iter().any(is_there)
            }
            Action::KeepIfThere | Action::DropIfThere | Action::Add(_) | Action::Unless => true,
        })
    }

    fn changes(&self, tokens: &[Solid<'_>], at: usize) -> Option<Vec<(usize, Vec<Piece>)>> {
        let mut changes = Vec::new();
        let mut end = follow(&self.once, tokens, at, &mut changes)?;
        while !self.repeated.is_empty() {
            let mut more = Vec::new();
            let Some(next) = follow(&self.repeated, tokens, end, &mut more) else {
                break;
            };
            changes.extend(more);
            end = next;
        }
        Some(changes)
    }
}

/// Applies the steps from a token on, and returns the index after the match.
fn follow(
    steps: &[Step],
    tokens: &[Solid<'_>],
    start: usize,
    changes: &mut Vec<(usize, Vec<Piece>)>,
) -> Option<usize> {
    let mut at = start;
    for step in steps {
        if let Action::Add(text) = step.action {
            let (place, _) = tokens.get(at.checked_sub(1)?)?;
            match changes.last_mut().filter(|(last, _)| last == place) {
                Some((_, pieces)) => pieces.push(Piece::New(text)),
                None => changes.push((*place, vec![Piece::Own, Piece::New(text)])),
            }
            continue;
        }
        let length = step.look.iter().find_map(|look| length(look, tokens, at));
        let found = match (length, step.action) {
            (Some(_), Action::Unless) => return None,
            (None, Action::Unless | Action::KeepIfThere | Action::DropIfThere) => continue,
            (length, _) => tokens.get(at..at + length?)?,
        };
        for (place, _) in found {
            let pieces = match step.action {
                Action::Drop | Action::DropIfThere => Vec::new(),
                Action::Replace(text) => vec![Piece::New(text)],
                Action::Quote => vec![Piece::Quoted],
                Action::Unwrap => vec![Piece::Unwrapped],
                Action::Keep | Action::KeepIfThere | Action::Unless | Action::Add(_) => continue,
            };
            changes.push((*place, pieces));
        }
        at += found.len();
    }
    Some(at)
}

/// Rewrites the tokens of a text in the dialect `of` for another grammar, or its own. O(n).
pub(super) fn normalized(
    tokens: Vec<TokenWithSpan>,
    grammar: Dialect,
    of: Dialect,
) -> Vec<TokenWithSpan> {
    let words = tokens.iter().filter_map(|token| span::word(&token.token));
    let words: HashSet<String> = words.map(str::to_ascii_lowercase).collect();
    let holds = |rule: &&Rule| {
        (rule.dialects.contains(&grammar) || rule.dialects.contains(&of)) && rule.may_hold(&words)
    };
    let rules: Vec<&Rule> = RULES.iter().filter(holds).collect();
    let solid: Vec<Solid<'_>> = tokens
        .iter()
        .map(|token| &token.token)
        .enumerate()
        .filter(|(_, token)| !matches!(token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let mut changes = Changes::new();
    for at in 0..solid.len() {
        for rule in &rules {
            // Tokens changed by a rule are skipped by later rules.
            let found = rule.changes(&solid, at).unwrap_or_default();
            if found.iter().all(|(place, _)| !changes.contains_key(place)) {
                changes.extend(found);
            }
        }
        if grammar == Dialect::Clickhouse {
            name_values(&solid, at, &mut changes);
        }
    }
    if changes.is_empty() {
        return tokens;
    }
    let mut normalized = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let Some(pieces) = changes.get(&at) else {
            normalized.push(token.clone());
            continue;
        };
        for piece in pieces {
            match piece {
                Piece::Own => normalized.push(token.clone()),
                Piece::Quoted => normalized.push(TokenWithSpan::wrap(Token::make_word(
                    &token.token.to_string(),
                    Some('"'),
                ))),
                Piece::Unwrapped => normalized.extend(unwrapped(&token.token, grammar)),
                Piece::New(text) => normalized.push(TokenWithSpan::wrap(span::token(text))),
                Piece::Copy(place) => normalized.extend(tokens.get(*place).cloned()),
            }
        }
    }
    normalized
}

/// Returns the tokens of the name in a string.
fn unwrapped(token: &Token, grammar: Dialect) -> Vec<TokenWithSpan> {
    let text = span::text(token).unwrap_or_default();
    let tokens = Tokenizer::new(grammar.grammar(), text).tokenize_with_location();
    tokens.unwrap_or_default()
}

/// Converts the values of `with 1 as x select ..` to common table expressions: `with x as (select 1 as x) select ..`.
fn name_values(tokens: &[Solid<'_>], with: usize, changes: &mut Changes) {
    let mut before = with;
    let mut opens = "with";
    while length(opens, tokens, before).is_some()
        && let Some(end) = length("EXPR", tokens, before + 1).map(|it| before + it)
        && let Some([(opening, _), .., (_, last_but_one), (name, last)]) = tokens.get(before..=end)
    {
        if span::is_one(last_but_one, "as") && matches!(last, Token::Word(_)) {
            let words = ["as", "(", "select"].map(Piece::New);
            let pieces = [Piece::Own, Piece::Copy(*name)].into_iter().chain(words);
            changes.insert(*opening, pieces.collect());
            changes.insert(*name, vec![Piece::Own, Piece::New(")")]);
        }
        (before, opens) = (end + 1, ",");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_dialect_and_an_effect() {
        for line in include_str!("normalize/rules.txt").lines() {
            let is_header = !line.is_empty() && !line.starts_with([' ', '-']);
            for name in line.split(' ').filter(|_| is_header) {
                let is_known = Dialect::ALL.iter().any(|dialect| dialect.name() == name);
                assert!(is_known || name == "all", "{line}");
            }
        }
        for rule in RULES.iter() {
            let keeps = |step: &Step| matches!(step.action, Action::Keep | Action::Unless);
            assert!(!rule.dialects.is_empty());
            assert!(!rule.once.iter().all(keeps), "{:?}", rule.once[0].look);
        }
    }
}
