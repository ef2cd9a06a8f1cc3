//! Reads the modules and crates named in Rust text. Skips comments, literals and test items. It doesn't resolve types
//! or expand macros.

use std::collections::{BTreeMap, BTreeSet};

/// A path named by a file: `crate::..` for our modules, otherwise it starts with an external crate's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
}

/// A token: an identifier, a number, `::`, or one character of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Dependencies of one file of a package on the others, as paths from the package's root.
pub(crate) struct Links {
    pub(crate) named: BTreeSet<Vec<String>>,
    /// Re-exports of `pub use`, by their name here.
    pub(crate) offered: BTreeMap<String, Vec<String>>,
}

/// A path in the source, unresolved.
struct Written {
    path: Vec<String>,
    line: usize,
    name: Option<String>,
    offered: bool,
}

/// All paths named by the text of module `module` outside its test items, in order.
pub(crate) fn named(text: &str, module: &[&str]) -> Vec<Named> {
    let (written, mut ours) = written(text);
    for one in &written {
        if matches!(one.path[0].as_str(), "crate" | "gavel" | "self" | "super") {
            ours.extend(one.name.clone());
        }
    }
    let found = written.into_iter().map(|one| Named {
        path: one.path,
        line: one.line,
    });
    found
        .filter_map(|named| absolute(named, module, &ours))
        .collect()
}

/// Paths of its package named and re-exported by the text of module `module` outside its test items.
pub(crate) fn links(text: &str, module: &[&str]) -> Links {
    let (written, children) = written(text);
    let mut brought: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut named, mut offered) = (BTreeSet::new(), BTreeMap::new());
    for one in written {
        let first = &one.path[0];
        let mut path = match brought.get(first) {
            // Before imports, because a function may have a module's name.
            _ if children.contains(first) => [&["self".to_owned()], &one.path[..]].concat(),
            Some(brought) => [&["crate".to_owned()], &brought[..], &one.path[1..]].concat(),
            None => one.path,
        };
        path.pop_if(|last| last == "self");
        let line = one.line;
        let Some(found) = absolute(Named { path, line }, module, &BTreeSet::new()) else {
            continue;
        };
        if found.path[0] != "crate" {
            continue;
        }
        let path = found.path[1..].to_vec();
        if let Some(name) = one.name {
            brought.insert(name.clone(), path.clone());
            if one.offered {
                offered.insert(name, path);
                continue;
            }
        }
        named.insert(path);
    }
    Links { named, offered }
}

/// Paths of a text in order, and the modules that it declares.
fn written(text: &str) -> (Vec<Written>, BTreeSet<String>) {
    let tokens = tokens(text);
    let (mut found, mut children) = (Vec::new(), BTreeSet::new());
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "mod" if is_name(&tokens, at + 1) => {
                children.insert(tokens[at + 1].text.clone());
                at += 2;
            }
            "use" if !is(&tokens, at + 1, "<") => {
                let offered = at > 0 && (is(&tokens, at - 1, "pub") || is(&tokens, at - 1, ")"));
                let mut leaves = Vec::new();
                at = use_tree(&tokens, at + 1, &[], &mut leaves);
                found.extend(leaves.into_iter().map(|(path, name, line)| Written {
                    path,
                    line,
                    name: Some(name),
                    offered,
                }));
            }
            _ => {
                let (path, next) = inline_path(&tokens, at);
                found.extend(path.map(|named| Written {
                    path: named.path,
                    line: named.line,
                    name: None,
                    offered: false,
                }));
                at = next;
            }
        }
    }
    (found, children)
}

/// Tokens of a Rust text without comments, literals and items under `#[cfg(test)]`.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    without_tests(lex(text))
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}

fn is_name(tokens: &[Token], at: usize) -> bool {
    tokens.get(at).is_some_and(|token| {
        token
            .text
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    })
}

/// Walks one use tree from `at` to the token after it; a leaf is (path, imported name, line).
fn use_tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    leaves: &mut Vec<(Vec<String>, String, usize)>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut line = tokens.get(at).map_or(0, |token| token.line);
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while at < tokens.len() && !is(tokens, at, "}") {
                    at = use_tree(tokens, at, &path, leaves);
                    if is(tokens, at, ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "as" => {
                let alias = tokens.get(at + 1).map_or("", |token| &token.text);
                leaves.push((path, alias.to_owned(), line));
                return at + 2;
            }
            "," | "}" | ";" => break,
            segment => {
                line = tokens[at].line;
                path.push(segment.to_owned());
                at += 1;
            }
        }
    }
    let brought = path.iter().rev().find(|segment| *segment != "self");
    if let Some(brought) = brought.cloned() {
        leaves.push((path, brought, line));
    }
    // Callers continue at a separator; a `;` is consumed here so that the walk always advances.
    if is(tokens, at, ";") { at + 1 } else { at }
}

/// The path that starts at `at` outside a `use`, if any, and the index to continue at.
fn inline_path(tokens: &[Token], at: usize) -> (Option<Named>, usize) {
    let line = tokens[at].line;
    let attribute = at >= 2 && is(tokens, at - 1, "[") && is(tokens, at - 2, "#");
    let crate_item = at >= 2 && is(tokens, at - 1, "crate") && is(tokens, at - 2, "extern");
    let begins_path = is(tokens, at + 1, "::");
    if !is_name(tokens, at) || !(attribute || crate_item || begins_path) {
        return (None, at + 1);
    }
    let mut path = vec![tokens[at].text.clone()];
    let mut next = at + 1;
    while is(tokens, next, "::") && is_name(tokens, next + 1) {
        path.push(tokens[next + 1].text.clone());
        next += 2;
    }
    (Some(Named { path, line }), next)
}

/// Makes a path absolute; `None` for a path within the file or to its own crate's root items.
fn absolute(named: Named, module: &[&str], ours: &BTreeSet<String>) -> Option<Named> {
    let Named { path, line } = named;
    let supers = path
        .iter()
        .take_while(|segment| *segment == "super")
        .count();
    let (base, rest) = match path[0].as_str() {
        "crate" | "gavel" => (&module[..0], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (
            &module[..module.len().saturating_sub(supers)],
            &path[supers..],
        ),
        first if ours.contains(first) => return None,
        _ => return Some(Named { path, line }),
    };
    let path = std::iter::once("crate")
        .chain(base.iter().copied())
        .chain(rest.iter().map(String::as_str))
        .map(str::to_owned)
        .collect();
    Some(Named { path, line })
}

fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let inner = is(&tokens, at + 1, "!");
        let open = at + 1 + usize::from(inner);
        if is(&tokens, at, "#") && is(&tokens, open, "[") && is(&tokens, open + 1, "cfg") {
            let end = closing(&tokens, open);
            let words = || tokens[open..end].iter().map(|token| token.text.as_str());
            if words().any(|word| word == "test") && !words().any(|word| word == "not") {
                if inner {
                    return Vec::new();
                }
                at = after_item(&tokens, end);
                continue;
            }
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// Index after the closing bracket of the bracket at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The index after the item that starts at `at`, including its further attributes.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            ";" => return at + 1,
            "{" => return closing(tokens, at),
            "(" | "[" => at = closing(tokens, at),
            _ => at += 1,
        }
    }
    at
}

fn lex(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let peek = |at: usize| chars.get(at).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut line = 1;
    while at < chars.len() {
        let start = at;
        match chars[at] {
            '/' if peek(at + 1) == '/' => at = until(&chars, at, '\n'),
            '/' if peek(at + 1) == '*' => at = after_block_comment(&chars, at),
            '"' => at = after_string(&chars, at),
            '\'' => at = after_quote(&chars, at),
            c if c.is_alphanumeric() || c == '_' => {
                while peek(at).is_alphanumeric() || peek(at) == '_' {
                    at += 1;
                }
                let word: String = chars[start..at].iter().collect();
                let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
                let raw = matches!(word.as_str(), "r" | "br" | "cr");
                if raw && peek(at + hashes) == '"' {
                    at = after_raw_string(&chars, at + hashes, hashes);
                } else if word == "r" && hashes == 1 {
                    at += 1;
                } else {
                    tokens.push(Token { text: word, line });
                }
            }
            ':' if peek(at + 1) == ':' => {
                at += 2;
                let text = "::".to_owned();
                tokens.push(Token { text, line });
            }
            c => {
                at += 1;
                if !c.is_whitespace() {
                    let text = c.to_string();
                    tokens.push(Token { text, line });
                }
            }
        }
        line += chars[start..at].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

fn until(chars: &[char], from: usize, end: char) -> usize {
    let rest = chars[from..].iter();
    rest.take_while(|c| **c != end).count() + from
}

fn after_block_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn after_string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn after_raw_string(chars: &[char], quote: usize, hashes: usize) -> usize {
    let mut at = quote + 1;
    while at < chars.len() {
        let closes = chars[at] == '"'
            && chars[at + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes;
        at += 1;
        if closes {
            return at + hashes;
        }
    }
    at
}

/// After a character literal or a lifetime.
fn after_quote(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        return (until(chars, at + 3, '\'') + 1).min(chars.len());
    }
    if chars.get(at + 2) == Some(&'\'') {
        return at + 3;
    }
    at + 1
}
