//! An item as lists and pages show it: what was asked, its parts, what was said of it. Draws nothing.

use super::body;
use super::live;
use super::{Item, Outcome};
use crate::score::{Component, about};

/// What people see of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// What the item calls itself, else its session's id, else its place.
    pub name: String,
    /// What was asked for, in the words of who asked; may be empty.
    pub question: String,
    /// The item in a few lines, as whoever watches a run sees it; empty while it hasn't ended.
    pub lines: Vec<String>,
    /// Why what was generated could not be executed.
    pub execution_error: Option<String>,
    /// Why what was generated can't be read, where none of its parts says so.
    pub unreadable: Option<String>,
    /// The parts that it has no score without, by their names in bodies.
    pub missing: Vec<&'static str>,
    /// What the total is held against, where the kind has that; 0-1.
    pub threshold: Option<f64>,
    /// The parts of its score, in the order of the kind's rules.
    pub parts: Vec<Part>,
    /// The judge's own words.
    pub reasoning: Option<String>,
}

/// A part of a score.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its name in bodies.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it is worth, 0-1 (of a session 0-100); `None`: it failed or wasn't run, and is in no mean.
    pub score: Option<f64>,
    /// Whether the body has it, with a score or without.
    pub is_there: bool,
    /// What was said of it, or why it has no score.
    pub words: Option<String>,
}

impl Shown {
    /// What people see of an item.
    pub fn of(item: &Item) -> Self {
        let has_ended =
            item.outcome != Outcome::Incomplete || item.result.is_some() || item.error.is_some();
        Self {
            name: body::name(item),
            question: body::question(item).to_owned(),
            lines: if has_ended {
                live::lines(item)
            } else {
                Vec::new()
            },
            execution_error: body::execution_error(item).map(str::to_owned),
            unreadable: body::unreadable(item).map(str::to_owned),
            missing: body::missing(item).map(|part| part.name).collect(),
            threshold: body::threshold(item),
            parts: parts(item).collect(),
            reasoning: body::reasoning(item).map(str::to_owned),
        }
    }
}

/// The total of a scored item: what comparisons are made of.
pub fn measured(item: &Item) -> Option<f64> {
    item.total
        .filter(|total| item.outcome == Outcome::Scored && total.is_finite())
}

/// Who judged an item: the judge's entry and the model that answered; `None`: nobody, or it stands elsewhere (sessions).
pub fn judge(item: &Item) -> Option<String> {
    body::judge(item)
}

/// The parts of an item's score; none without a body.
pub fn parts(item: &Item) -> impl Iterator<Item = Part> {
    let result = item.result.as_ref();
    let known: &[Component] = match result {
        Some(_) => about(item.kind).components,
        None => &[],
    };
    known.iter().map(move |part| Part {
        name: part.name,
        title: part.title,
        is_there: part.is_there(result),
        score: part.score(result),
        words: part.words(result).map(str::to_owned),
    })
}
