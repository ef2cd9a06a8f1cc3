//! Substitutes `${VAR}`, `${VAR:-default}` and `$$` in a text.

const MAX_DEPTH: usize = 16;

pub(super) struct SubstituteError {
    /// Text by which the line is found.
    pub(super) near: String,
    pub(super) message: String,
}

pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn in_text(text: &str, env: Env<'_>) -> Result<String, SubstituteError> {
    let mut reader = Substitution { rest: text, env };
    let mut result = String::with_capacity(text.len());
    reader.read(Some(&mut result), None, 0)?;
    Ok(result)
}

struct Substitution<'a> {
    rest: &'a str,
    env: Env<'a>,
}

impl<'a> Substitution<'a> {
    /// Reads to the end, or a default of the variable `open` to its `}`. Without `out`, skips the text: a default that isn't used.
    fn read(
        &mut self,
        mut out: Option<&mut String>,
        open: Option<&'a str>,
        depth: usize,
    ) -> Result<(), SubstituteError> {
        loop {
            let stop = |c| c == '$' || (c == '}' && open.is_some());
            let length = self.rest.find(stop).unwrap_or(self.rest.len());
            let (text, rest) = self.rest.split_at(length);
            push(&mut out, text);
            self.rest = rest;
            if rest.starts_with("${") {
                self.variable(out.as_deref_mut(), depth)?;
            } else if let Some(after) = rest.strip_prefix('$') {
                push(&mut out, "$");
                self.rest = after.strip_prefix('$').unwrap_or(after);
            } else if let Some(after) = rest.strip_prefix('}') {
                self.rest = after;
                return Ok(());
            } else {
                return open.map_or(Ok(()), |open| Err(unclosed(open)));
            }
        }
    }

    fn variable(
        &mut self,
        mut out: Option<&mut String>,
        depth: usize,
    ) -> Result<(), SubstituteError> {
        let whole = self.rest;
        let name = name_of(whole);
        if depth >= MAX_DEPTH {
            let message = format!("defaults are nested more than {MAX_DEPTH} levels deep");
            return Err(fault(whole, message));
        }
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            let message =
                "`${` must be followed by a variable's name; write `$${` for the text `${`";
            return Err(fault(whole, message));
        }
        let value = (self.env)(name);
        let after = &whole["${".len() + name.len()..];
        if let Some(rest) = after.strip_prefix('}') {
            self.rest = rest;
            if out.is_some() && value.is_none() {
                let message = format!(
                    "the environment variable {name} is not set; set it, or give a default: ${{{name}:-default}}"
                );
                return Err(fault(&whole[..whole.len() - rest.len()], message));
            }
            push(&mut out, &value.unwrap_or_default());
            return Ok(());
        }
        if after.is_empty() {
            return Err(unclosed(whole));
        }
        self.rest = after.strip_prefix(":-").ok_or_else(|| {
            let message = format!("`${{{name}` must be followed by `}}` or `:-default}}`");
            fault(whole, message)
        })?;
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            push(&mut out, &value);
            out = None;
        }
        self.read(out, Some(whole), depth + 1)
    }
}

fn push(out: &mut Option<&mut String>, text: &str) {
    if let Some(out) = out {
        out.push_str(text);
    }
}

/// Returns the name at the start of `${NAME..`.
fn name_of(whole: &str) -> &str {
    let inner = &whole["${".len()..];
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    &inner[..end.unwrap_or(inner.len())]
}

fn unclosed(whole: &str) -> SubstituteError {
    let name = name_of(whole);
    let message = format!("`${{{name}` has no closing `}}`; write `$${{` for the text `${{`");
    fault(whole, message)
}

/// Returns an error at the start of `rest`. Quotes at most 40 characters of one line.
fn fault(rest: &str, message: impl Into<String>) -> SubstituteError {
    let line = rest.lines().next().unwrap_or_default();
    SubstituteError {
        near: line.chars().take(40).collect(),
        message: message.into(),
    }
}
