//! Parses a resolved definition into its typed form. Unknown keys are errors; errors contain the key and a fix.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Case, Criteria, Dimension, Trim, default_dimensions};
use crate::about;
use crate::config_file::{FileError, Lenient, Scalar, decode};
use crate::nearest::nearest;
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

#[derive(Default, Deserialize)]
#[serde(default, expecting = "a map")]
struct File {
    kind: Lenient<Kind>,
    scoring: Option<Scoring>,
    judge_prompt: Option<String>,
    answer_prompt: Option<String>,
    dimensions: Option<Vec<DimensionEntry>>,
    judge: Option<JudgeOptions>,
    ignore_case: Lenient<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
struct Scoring {
    enabled: Lenient<bool>,
    llm_provider: Lenient<String>,
    llm_model: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
struct JudgeOptions {
    trim: Lenient<Trim>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
struct DimensionEntry {
    name: Option<String>,
    max: Lenient<f64>,
}

impl Scalar for Kind {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: UnknownText| error.to_string())
    }
}

impl Scalar for Trim {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: UnknownText| error.to_string())
    }
}

pub(super) fn definition(value: &Value) -> Result<Definition, FileError> {
    let keys = value.as_object().map(Map::keys);
    let keys = keys.ok_or_else(|| FileError::new(".", "expected a map"))?;
    let file: File = decode("", value)?;
    let kind = file.kind.or(Criteria::DEFAULT_KIND);
    let form = &about(kind).criteria;
    let known = [&["kind", "scoring", "judge_prompt"], form.keys].concat();
    if let Some(key) = keys.into_iter().find(|key| !known.contains(&key.as_str())) {
        return Err(FileError::unknown_key(key.clone(), key, &known));
    }
    let scoring = file
        .scoring
        .ok_or_else(|| FileError::new("scoring", "is missing: a map with llm_provider"))?;
    let llm_provider = judge_part(scoring.llm_provider.0, "scoring.llm_provider")?.ok_or_else(|| {
        FileError::new(
            "scoring.llm_provider",
            "is missing: the name of an entry in llm_providers.yaml, for example openai-default",
        )
    })?;
    Ok(Definition {
        kind,
        enabled: scoring.enabled.or(true),
        llm_provider,
        llm_model: judge_part(scoring.llm_model.0, "scoring.llm_model")?,
        judge_prompt: prompt(file.judge_prompt, "judge_prompt", form.placeholders)?,
        answer_prompt: match form.answer_placeholders {
            [] => None,
            wanted => Some(prompt(file.answer_prompt, "answer_prompt", wanted)?),
        },
        dimensions: match (form.is_of_session, file.dimensions) {
            (false, _) => Vec::new(),
            (true, None) => default_dimensions(),
            (true, Some(entries)) => dimensions(entries)?,
        },
        trim: file
            .judge
            .and_then(|judge| judge.trim.0)
            .unwrap_or(Trim::Auto),
        case: match file.ignore_case.0 {
            Some(false) => Case::Heeded,
            Some(true) | None => Case::Ignored,
        },
    })
}

/// Returns the prompt at `path`, which must contain each of `wanted` once.
fn prompt(given: Option<String>, path: &str, wanted: &[&str]) -> Result<String, FileError> {
    let prompt =
        given.ok_or_else(|| FileError::new(path, "is missing: the judge's instructions"))?;
    let problem = if prompt.len() > MAX_PROMPT {
        Some(format!(
            "holds {} bytes; at most {MAX_PROMPT}",
            prompt.len()
        ))
    } else if prompt.contains('\0') {
        Some("holds a NUL character; remove it".to_owned())
    } else {
        misplaced(&prompt, wanted)
    };
    problem.map_or(Ok(prompt), |problem| Err(FileError::new(path, problem)))
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

fn dimensions(entries: Vec<DimensionEntry>) -> Result<Vec<Dimension>, FileError> {
    let mut read: Vec<Dimension> = Vec::new();
    for (index, DimensionEntry { name, max }) in entries.into_iter().enumerate() {
        let fault = |key: &str, problem: String| {
            Err(FileError::new(format!("dimensions.{index}.{key}"), problem))
        };
        let Some(name) = name else {
            return fault("name", "is missing".to_owned());
        };
        if !is_dimension_name(&name) {
            let rule =
                "must begin with a-z, hold only a-z, 0-9 and _, and have at most 64 characters";
            return fault("name", format!("{name:?} {rule}"));
        }
        if read.iter().any(|d| d.name == name) {
            return fault(
                "name",
                format!("{name:?} is there twice; names must differ"),
            );
        }
        match max.0 {
            Some(max) if max.fract() == 0.0 && (1.0..=100.0).contains(&max) => {
                let max = max as u32;
                read.push(Dimension { name, max });
            }
            Some(_) => return fault("max", "must be a whole number from 1 to 100".to_owned()),
            None => return fault("max", "is missing".to_owned()),
        }
    }
    match read.iter().map(|d| u64::from(d.max)).sum() {
        100_u64 => Ok(read),
        sum => {
            let problem = format!("the maxima sum up to {sum}; they must sum up to 100");
            Err(FileError::new("dimensions", problem))
        }
    }
}

fn is_dimension_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Checks the name of a provider entry or model. The narrow alphabet rejects an unsubstituted
/// `${..}` in criteria that arrive without substitution.
fn judge_part(given: Option<String>, path: &str) -> Result<Option<String>, FileError> {
    let Some(text) = given else {
        return Ok(None);
    };
    let well_formed = text.chars().count() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-/:@+".contains(c));
    match well_formed {
        true => Ok(Some(text)),
        false if text.contains("${") => Err(FileError::new(
            path,
            "holds `${`, which isn't substituted here; write the name out",
        )),
        false => Err(FileError::new(
            path,
            format!(
                "isn't a name: it must begin with a letter or digit, hold only those and . _ - / : @ +, and have at most {MAX_NAME} characters"
            ),
        )),
    }
}
