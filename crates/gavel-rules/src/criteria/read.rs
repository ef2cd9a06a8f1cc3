//! Parses a resolved definition into its typed form. Unknown keys are errors; errors contain the key and a fix.

use serde_json::{Map, Value};

use super::{Case, Criteria, CriteriaError, Dimension, Trim, default_dimensions};
use crate::about;
use crate::about::CriteriaForm;
use crate::nearest::{hint, nearest};
use crate::template::{Segment, segments};
use gavel_wire::{Kind, UnknownText};

const MAX_PROMPT: usize = 256 * 1024;
const MAX_NAME: usize = 255;

pub(super) struct Definition {
    pub(super) kind: Kind,
    pub(super) enabled: bool,
    pub(super) llm_provider: String,
    pub(super) llm_model: Option<String>,
    pub(super) judge_prompt: String,
    pub(super) answer_prompt: Option<String>,
    pub(super) dimensions: Vec<Dimension>,
    pub(super) trim: Trim,
    pub(super) case: Case,
}

pub(super) fn definition(value: &Value) -> Result<Definition, CriteriaError> {
    let file = object(value, ".")?;
    let kind = subject(file.get("kind"))?;
    let form = &about(kind).criteria;
    known_keys(file, &keys(form), "")?;
    let scoring = object(
        file.get("scoring")
            .ok_or_else(|| fault("scoring", "is missing: a map with llm_provider"))?,
        "scoring",
    )?;
    known_keys(
        scoring,
        &["enabled", "llm_provider", "llm_model"],
        "scoring.",
    )?;
    let llm_provider = judge_part(scoring.get("llm_provider"), "scoring.llm_provider")?
        .ok_or_else(|| {
            fault(
                "scoring.llm_provider",
                "is missing: the name of an entry in llm_providers.yaml, for example openai-default",
            )
        })?;
    Ok(Definition {
        kind,
        enabled: boolean(scoring.get("enabled"), "scoring.enabled")?.unwrap_or(true),
        llm_provider,
        llm_model: judge_part(scoring.get("llm_model"), "scoring.llm_model")?,
        judge_prompt: prompt(file.get("judge_prompt"), "judge_prompt", form.placeholders)?,
        answer_prompt: match form.answer_placeholders {
            [] => None,
            wanted => Some(prompt(file.get("answer_prompt"), "answer_prompt", wanted)?),
        },
        dimensions: match form.is_of_session {
            true => dimensions(file.get("dimensions"))?,
            false => Vec::new(),
        },
        trim: trim(file.get("judge"))?,
        case: match boolean(file.get("ignore_case"), "ignore_case")? {
            Some(false) => Case::Heeded,
            Some(true) | None => Case::Ignored,
        },
    })
}

fn keys(form: &CriteriaForm) -> Vec<&'static str> {
    [&["kind", "scoring", "judge_prompt"], form.keys].concat()
}

fn subject(value: Option<&Value>) -> Result<Kind, CriteriaError> {
    let text = text(value, "kind", "the name of a kind")?;
    text.map_or(Ok(Criteria::DEFAULT_KIND), |text| {
        text.parse()
            .map_err(|error: UnknownText| fault("kind", error.to_string()))
    })
}

fn trim(judge: Option<&Value>) -> Result<Trim, CriteriaError> {
    const PATH: &str = "judge.trim";
    let judge = match judge {
        None | Some(Value::Null) => return Ok(Trim::Auto),
        Some(judge) => object(judge, "judge")?,
    };
    known_keys(judge, &["trim"], "judge.")?;
    match text(judge.get("trim"), PATH, "auto or never")? {
        None | Some("" | "auto") => Ok(Trim::Auto),
        Some("never") => Ok(Trim::Never),
        Some(text) => Err(fault(PATH, format!("must be auto or never, not {text:?}"))),
    }
}

/// Returns the prompt at `path`, which must contain each of `wanted` once.
fn prompt(value: Option<&Value>, path: &str, wanted: &[&str]) -> Result<String, CriteriaError> {
    text(value, path, "text")?;
    let Some(prompt) = value.and_then(Value::as_str) else {
        return Err(fault(path, "is missing: the judge's instructions"));
    };
    let mut problem = None;
    if prompt.len() > MAX_PROMPT {
        problem = Some(format!(
            "holds {} bytes; at most {MAX_PROMPT}",
            prompt.len()
        ));
    } else if prompt.contains('\0') {
        problem = Some("holds a NUL character; remove it".to_owned());
    }
    match problem.or_else(|| misplaced(prompt, wanted)) {
        Some(problem) => Err(fault(path, problem)),
        None => Ok(prompt.to_owned()),
    }
}

fn misplaced(prompt: &str, wanted: &[&str]) -> Option<String> {
    let names = segments(prompt)
        .into_iter()
        .filter_map(|segment| match segment {
            Segment::Placeholder(name) => Some(name),
            Segment::Text(_) => None,
        });
    let found: Vec<&str> = names.collect();
    if let Some(unknown) = found.iter().find(|p| !wanted.contains(p)) {
        let hint = nearest(unknown, wanted.iter().copied()).map_or_else(
            || {
                let known = wanted.iter().map(|name| format!("{{{{{name}}}}}"));
                format!("known: {}", known.collect::<Vec<_>>().join(", "))
            },
            |known| format!("did you mean {{{{{known}}}}}?"),
        );
        return Some(format!(
            "holds the unknown placeholder {{{{{unknown}}}}}; {hint}"
        ));
    }
    wanted.iter().find_map(|wanted| {
        match found.iter().filter(|p| *p == wanted).count() {
            1 => None,
            0 => Some(format!(
                "lacks {{{{{wanted}}}}}: without it the judge doesn't see that part"
            )),
            // A second copy would double the cost of the evidence, and the judge couldn't know which one counts.
            n => Some(format!(
                "holds {{{{{wanted}}}}} {n} times; exactly one is allowed, as each copy is sent and paid for"
            )),
        }
    })
}

fn dimensions(value: Option<&Value>) -> Result<Vec<Dimension>, CriteriaError> {
    let items = match value {
        None | Some(Value::Null) => return Ok(default_dimensions()),
        Some(Value::Array(items)) => items,
        Some(other) => {
            let problem = format!("must be a list of {{name, max}}, not {}", kind(other));
            return Err(fault("dimensions", problem));
        }
    };
    let mut read: Vec<Dimension> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let dimension = dimension(item, &format!("dimensions.{index}"))?;
        if read.iter().any(|d| d.name == dimension.name) {
            let problem = format!("{:?} is there twice; names must differ", dimension.name);
            return Err(fault(format!("dimensions.{index}.name"), problem));
        }
        read.push(dimension);
    }
    match read.iter().map(|d| u64::from(d.max)).sum() {
        100_u64 => Ok(read),
        sum => {
            let problem = format!("the maxima sum up to {sum}; they must sum up to 100");
            Err(fault("dimensions", problem))
        }
    }
}

fn dimension(value: &Value, path: &str) -> Result<Dimension, CriteriaError> {
    let item = object(value, path)?;
    known_keys(item, &["name", "max"], &format!("{path}."))?;
    let at = format!("{path}.name");
    text(item.get("name"), &at, "text")?;
    let name = match item.get("name").and_then(Value::as_str) {
        Some(name) if is_dimension_name(name) => name.to_owned(),
        Some(name) => {
            let problem = format!(
                "{name:?} must begin with a-z, hold only a-z, 0-9 and _, and have at most 64 characters"
            );
            return Err(fault(at, problem));
        }
        None => return Err(fault(at, "is missing")),
    };
    let at = format!("{path}.max");
    let max = match item.get("max") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
        None => return Err(fault(at, "is missing")),
    };
    match max {
        Some(max) if max.fract() == 0.0 && (1.0..=100.0).contains(&max) => Ok(Dimension {
            name,
            max: max as u32,
        }),
        _ => Err(fault(at, "must be a whole number from 1 to 100")),
    }
}

fn is_dimension_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Parses the name of a provider entry or model; empty text means absent. The narrow alphabet rejects an unsubstituted
/// `${..}` in criteria that arrive without substitution.
fn judge_part(value: Option<&Value>, path: &str) -> Result<Option<String>, CriteriaError> {
    let Some(text) = text(value, path, "text")?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let well_formed = text.chars().count() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-/:@+".contains(c));
    match well_formed {
        true => Ok(Some(text.to_owned())),
        false if text.contains("${") => Err(fault(
            path,
            "holds `${`, which isn't substituted here; write the name out",
        )),
        false => Err(fault(
            path,
            format!(
                "isn't a name: it must begin with a letter or digit, hold only those and . _ - / : @ +, and have at most {MAX_NAME} characters"
            ),
        )),
    }
}

/// Parses text and trims it; null means absent.
fn text<'a>(
    value: Option<&'a Value>,
    path: &str,
    expected: &str,
) -> Result<Option<&'a str>, CriteriaError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim())),
        Some(other) => Err(fault(
            path,
            format!("must be {expected}, not {}", kind(other)),
        )),
    }
}

/// Parses a boolean or its text, because substitution yields text. Empty text means absent.
fn boolean(value: Option<&Value>, path: &str) -> Result<Option<bool>, CriteriaError> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Bool(flag)) => return Ok(Some(*flag)),
        Some(Value::String(text)) => text.trim().to_ascii_lowercase(),
        Some(Value::Number(number)) => number.to_string(),
        Some(other @ (Value::Array(_) | Value::Object(_))) => {
            let problem = format!("must be true or false, not {}", kind(other));
            return Err(fault(path, problem));
        }
    };
    match text.as_str() {
        "" => Ok(None),
        "true" | "1" | "yes" | "on" => Ok(Some(true)),
        "false" | "0" | "no" | "off" => Ok(Some(false)),
        _ => Err(fault(
            path,
            format!("must be true or false (also 1, 0, yes, no, on, off), not {text:?}"),
        )),
    }
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, CriteriaError> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Err(fault(path, "is empty; a map is expected")),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(fault(path, format!("must be a map, not {}", kind(other))))
        }
    }
}

fn known_keys(map: &Map<String, Value>, known: &[&str], prefix: &str) -> Result<(), CriteriaError> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let hint = hint(unknown, known.iter().copied());
            Err(fault(
                format!("{prefix}{unknown}"),
                format!("unknown key; {hint}"),
            ))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

pub(super) fn fault(path: impl Into<String>, message: impl Into<String>) -> CriteriaError {
    CriteriaError {
        path: path.into(),
        message: message.into(),
    }
}
