//! Configured tokens, stored as digests, compared in constant time and never logged. A reload replaces them in all clones.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::auth::{MAX_NAME, Scope};
use crate::config::AuthSettings;

/// Minimum length of a token, bytes, because shorter ones can be guessed.
const SHORTEST: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) digest: [u8; 32],
}

/// The tokens of a process, shared by clones.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Arc<RwLock<Arc<[Token]>>>);

impl Tokens {
    /// Loads the tokens of the settings. Errors name the line and the remedy, but not the token.
    pub(super) fn load(&self, settings: &AuthSettings) -> Result<(), String> {
        *self.0.write() = read(settings)?;
        Ok(())
    }

    /// Replaces the tokens for all new requests, and returns their number. On error the current tokens stay.
    pub fn reload(&self, settings: &AuthSettings) -> Result<usize, String> {
        let new = read(settings)?;
        // Trust in proxies and host names depends on whether tokens exist.
        if new.is_empty() != self.is_empty() {
            return Err(
                "auth.tokens: the first token, and the removal of the last one, need a restart"
                    .to_owned(),
            );
        }
        let count = new.len();
        *self.0.write() = new;
        Ok(count)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    pub(super) fn named(&self, name: &str) -> Option<Token> {
        let tokens = self.0.read();
        tokens.iter().find(|token| token.name == name).cloned()
    }

    /// Compares all tokens, so that the duration reveals no token.
    pub(super) fn find(&self, sent: &[u8]) -> Option<Token> {
        let digest: [u8; 32] = Sha256::digest(sent).into();
        let tokens = self.0.read().clone();
        let (mut found, mut place) = (Choice::from(0), 0_u64);
        for (i, token) in (0_u64..).zip(tokens.iter()) {
            let equal = token.digest.ct_eq(&digest);
            place.conditional_assign(&i, equal);
            found |= equal;
        }
        let place = usize::try_from(place).ok()?;
        bool::from(found)
            .then(|| tokens.get(place).cloned())
            .flatten()
    }
}

fn read(settings: &AuthSettings) -> Result<Arc<[Token]>, String> {
    let mut lines: Vec<(String, String)> = settings
        .tokens
        .iter()
        .enumerate()
        .map(|(i, line)| (format!("auth.tokens, entry {}", i + 1), line.to_string()))
        .collect();
    if !settings.tokens_file.is_empty() {
        lines.extend(lines_of_file(Path::new(&settings.tokens_file))?);
    }
    let mut tokens: Vec<Token> = Vec::new();
    for (place, line) in lines {
        let token = parse_token(&line).map_err(|fault| format!("{place}: {fault}"))?;
        if tokens.iter().any(|other| other.name == token.name) {
            return Err(format!("{place}: the name {:?} is duplicated", token.name));
        }
        if tokens.iter().any(|other| other.digest == token.digest) {
            return Err(format!(
                "{place}: {:?} has another entry's token",
                token.name
            ));
        }
        tokens.push(token);
    }
    Ok(tokens.into())
}

fn lines_of_file(path: &Path) -> Result<Vec<(String, String)>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("reading auth.tokens_file {}: {error}", path.display()))?;
    Ok(text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            (
                format!("{}:{}", path.display(), i + 1),
                line.trim().to_owned(),
            )
        })
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect())
}

fn parse_token(line: &str) -> Result<Token, String> {
    let mut parts = line.trim().splitn(3, ':');
    let (Some(name), Some(scopes), Some(token)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("must be name:scopes:token, e.g. ci:read,enqueue:TOKEN".to_owned());
    };
    let (name, token) = (name.trim(), token.trim());
    if name.is_empty() || name.chars().any(char::is_control) || name.chars().count() > MAX_NAME {
        return Err("the name must be 1-255 printable characters".to_owned());
    }
    if token.len() < SHORTEST {
        return Err(format!(
            "{name:?} has a token of fewer than {SHORTEST} characters, which can be guessed: make one with `gavel tokens new`"
        ));
    }
    let mut widest = None;
    for scope in scopes.split(',').map(str::trim) {
        let scope = Scope::parse(scope).ok_or_else(|| {
            format!("{name:?} has the scope {scope:?}; known: read, enqueue, admin")
        })?;
        widest = widest.max(Some(scope));
    }
    Ok(Token {
        name: name.to_owned(),
        scope: widest.unwrap_or(Scope::Read),
        digest: Sha256::digest(token.as_bytes()).into(),
    })
}
