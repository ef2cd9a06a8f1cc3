//! Substitutes `${VAR}`, `${VAR:-default}` and `$$` in a text.

const MAX_DEPTH: usize = 16;

pub(super) struct SubstituteError {
    /// Variable without a value, if that is the reason.
    pub(super) unset: Option<String>,
    /// Text by which the line is found.
    pub(super) near: String,
    pub(super) message: String,
}

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn in_text(text: &str, env: Env<'_>) -> Result<String, SubstituteError> {
    let mut reader = Substitution { rest: text, env };
    let mut result = String::with_capacity(text.len());
    reader.until_end(&mut result)?;
    Ok(result)
}

struct Substitution<'a> {
    rest: &'a str,
    env: Env<'a>,
}

impl Substitution<'_> {
    fn until_end(&mut self, out: &mut String) -> Result<(), SubstituteError> {
        while let Some(at) = self.rest.find('$') {
            out.push_str(&self.rest[..at]);
            self.rest = &self.rest[at..];
            self.dollar(Some(out), 0)?;
        }
        out.push_str(self.rest);
        Ok(())
    }

    /// Reads on from a `$`. Without `out`, skips the text: a default that isn't used.
    fn dollar(&mut self, out: Option<&mut String>, depth: usize) -> Result<(), SubstituteError> {
        if self.rest.starts_with("${") {
            return self.variable(out, depth);
        }
        let taken = if self.rest.starts_with("$$") { 2 } else { 1 };
        self.rest = &self.rest[taken..];
        if let Some(out) = out {
            out.push('$');
        }
        Ok(())
    }

    fn variable(&mut self, out: Option<&mut String>, depth: usize) -> Result<(), SubstituteError> {
        let whole = self.rest;
        let inner = &whole[2..];
        let length = inner
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(inner.len());
        let name = &inner[..length];
        if depth >= MAX_DEPTH {
            return Err(fault(
                whole,
                format!("defaults are nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(fault(
                whole,
                "`${` must be followed by a variable's name; write `$${` for the text `${`",
            ));
        }
        let value = (self.env)(name);
        let after = &inner[length..];
        if let Some(rest) = after.strip_prefix('}') {
            self.rest = rest;
            return match (out, value) {
                (None, _) => Ok(()),
                (Some(out), Some(value)) => {
                    out.push_str(&value);
                    Ok(())
                }
                (Some(_), None) => Err(SubstituteError {
                    unset: Some(name.to_owned()),
                    near: format!("${{{name}}}"),
                    message: format!(
                        "the environment variable {name} is not set; set it, or give a default: ${{{name}:-default}}"
                    ),
                }),
            };
        }
        let Some(default) = after.strip_prefix(":-") else {
            let message = if after.is_empty() {
                unclosed(name)
            } else {
                format!("`${{{name}` must be followed by `}}` or `:-default}}`")
            };
            return Err(fault(whole, message));
        };
        self.rest = default;
        let value = value.filter(|value| !value.is_empty());
        match (out, value) {
            (Some(out), Some(value)) => {
                out.push_str(&value);
                self.default(None, depth + 1)
            }
            (out, _) => self.default(out, depth + 1),
        }
        .map_err(|inner| match inner {
            DefaultError::Inner(fault) => fault,
            DefaultError::Unclosed => fault(whole, unclosed(name)),
        })
    }

    fn default(&mut self, mut out: Option<&mut String>, depth: usize) -> Result<(), DefaultError> {
        loop {
            let at = self.rest.find(['$', '}']).ok_or(DefaultError::Unclosed)?;
            let (text, rest) = self.rest.split_at(at);
            self.rest = rest;
            if let Some(out) = out.as_deref_mut() {
                out.push_str(text);
            }
            if let Some(rest) = self.rest.strip_prefix('}') {
                self.rest = rest;
                return Ok(());
            }
            self.dollar(out.as_deref_mut(), depth)
                .map_err(DefaultError::Inner)?;
        }
    }
}

enum DefaultError {
    Inner(SubstituteError),
    Unclosed,
}

fn unclosed(name: &str) -> String {
    format!("`${{{name}` has no closing `}}`; write `$${{` for the text `${{`")
}

/// Returns an error at the start of `rest`. Quotes at most 40 characters of one line.
fn fault(rest: &str, message: impl Into<String>) -> SubstituteError {
    SubstituteError {
        unset: None,
        near: rest
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(40)
            .collect(),
        message: message.into(),
    }
}
