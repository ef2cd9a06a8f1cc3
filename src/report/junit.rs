//! The report for CI servers: JUnit XML, a suite for each kind, of `qas` for each agent.
//!
//! A miss is a `<failure>` with its breakdown and the judge's reasoning; what has no score is an `<error>`, never a failure; what a
//! simulated judge scored is `<skipped>` unless that is allowed: it passes no gate. Written by hand, since a writer that holds the whole document
//! would hold all items.

use std::collections::BTreeMap;
use std::io::Write;

use super::body::{self, Status};
use super::plain::{cut, xml_attribute, xml_text};
use super::summary::{Figures, GroupNames, group_name};
use super::{Item, Meta, ReportError, Simulated, Source};
use crate::job::Kind;
use crate::score::about;

/// The most of one text within an element, characters.
const LONGEST: usize = 20_000;
/// The most of one attribute, characters.
const LONGEST_NAME: usize = 500;

/// A suite: the kind, and the agent where the kind has one.
type Key = (Kind, Option<String>);

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    tests: u64,
    failures: u64,
    errors: u64,
    skipped: u64,
}

/// How a case shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Passed,
    Failure,
    Error,
    Skipped,
}

/// Writes the document.
pub(super) fn write(
    out: &mut dyn Write,
    source: &(impl Source + ?Sized),
    (figures, meta): (&Figures, &Meta),
) -> Result<(), ReportError> {
    let mut names = GroupNames::default();
    let mut suites: BTreeMap<Key, Counts> = BTreeMap::new();
    let mut all = Counts::default();
    source.each(&mut |item| {
        let shown = shown(item, meta.simulated);
        all.add(shown);
        suites.entry(key(item, &mut names)).or_default().add(shown);
        Ok(())
    })?;
    let failed = |error: std::io::Error| ReportError::writing("the JUnit report", error);
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>").map_err(failed)?;
    let name = attribute(&meta.name);
    // The schema has no `skipped` here.
    let Counts {
        tests,
        failures,
        errors,
        ..
    } = all;
    writeln!(
        out,
        "<testsuites name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">"
    )
    .map_err(failed)?;
    for (suite, counts) in &suites {
        let name = attribute(&suite_name(suite));
        writeln!(out, "  <testsuite name=\"{name}\"{}>", counts.attributes()).map_err(failed)?;
        properties(out, figures, meta).map_err(failed)?;
        // The names are known from the first pass: the same item has the same suite.
        source.each(&mut |item| {
            if key(item, &mut names) == *suite {
                case(out, item, (&name, meta.simulated)).map_err(failed)?;
            }
            Ok(())
        })?;
        writeln!(out, "  </testsuite>").map_err(failed)?;
    }
    writeln!(out, "</testsuites>").map_err(failed)
}

impl Counts {
    fn add(&mut self, shown: Shown) {
        self.tests += 1;
        match shown {
            Shown::Passed => {}
            Shown::Failure => self.failures += 1,
            Shown::Error => self.errors += 1,
            Shown::Skipped => self.skipped += 1,
        }
    }

    fn attributes(self) -> String {
        format!(
            " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
            self.tests, self.failures, self.errors, self.skipped
        )
    }
}

fn shown(item: &Item, simulated: Simulated) -> Shown {
    let is_refused = match simulated {
        Simulated::Refused => item.simulated,
        Simulated::Allowed => false,
    };
    match Status::of(item) {
        Status::Incomplete => Shown::Error,
        Status::Pass | Status::Fail | Status::Scored if is_refused => Shown::Skipped,
        Status::Fail => Shown::Failure,
        Status::Pass | Status::Scored => Shown::Passed,
    }
}

fn key(item: &Item, names: &mut GroupNames) -> Key {
    let agent = about(item.kind)
        .is_grouped
        .then(|| names.bounded(group_name(item, "agent_used")).to_owned());
    (item.kind, agent)
}

fn suite_name((kind, agent): &Key) -> String {
    match agent {
        Some(agent) => format!("{kind}: {agent}"),
        None => kind.to_string(),
    }
}

fn attribute(text: &str) -> String {
    xml_attribute(&cut(text, LONGEST_NAME))
}

/// What holds for the whole report, the same in each suite.
fn properties(out: &mut dyn Write, figures: &Figures, meta: &Meta) -> std::io::Result<()> {
    let number =
        |number: Option<f64>| number.map_or_else(|| "none".to_owned(), |n| format!("{n:.6}"));
    let gate = figures.gate.as_ref();
    let gate = gate.map_or("not known", |judgement| judgement.decision.as_str());
    let cost = figures.usage.cost_usd;
    let cost = cost.map_or_else(|| "not known".to_owned(), |usd| format!("{usd:.6}"));
    let properties = [
        ("run", meta.run.clone().unwrap_or_default()),
        ("made_at", meta.made_at.to_rfc3339()),
        ("gate", gate.to_owned()),
        ("verdict", figures.verdict.as_str().to_owned()),
        ("items", figures.all.n.to_string()),
        ("scored", figures.all.scored.to_string()),
        ("unfinished", figures.unfinished.to_string()),
        ("coverage", number(figures.all.coverage)),
        ("mean", number(figures.all.mean)),
        ("pass_rate", number(figures.all.pass_rate)),
        ("judge_errors", figures.judge_errors.to_string()),
        ("simulated", figures.all.simulated.to_string()),
        ("tokens_in", figures.usage.tokens_in.to_string()),
        ("tokens_out", figures.usage.tokens_out.to_string()),
        ("cost_usd", cost),
    ];
    writeln!(out, "    <properties>")?;
    for (name, value) in properties {
        let value = attribute(&value);
        writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>")?;
    }
    writeln!(out, "    </properties>")
}

fn case(
    out: &mut dyn Write,
    item: &Item,
    (suite, simulated): (&str, Simulated),
) -> std::io::Result<()> {
    let name = attribute(&body::name(item));
    write!(out, "    <testcase name=\"{name}\" classname=\"{suite}\"")?;
    let shown = shown(item, simulated);
    let (element, kind, message) = match shown {
        Shown::Passed => return writeln!(out, "/>"),
        Shown::Failure => ("failure", "miss".to_owned(), body::one_line(item)),
        Shown::Error => {
            let (class, message) = body::fault(item);
            ("error", class.to_owned(), message.into_owned())
        }
        Shown::Skipped => {
            let message = format!("scored by a simulated judge: {}", body::one_line(item));
            let message = attribute(&message);
            return writeln!(out, "><skipped message=\"{message}\"/></testcase>");
        }
    };
    let (kind, message) = (attribute(&kind), attribute(&message));
    let text = xml_text(&cut(&explained(item), LONGEST));
    writeln!(
        out,
        "><{element} message=\"{message}\" type=\"{kind}\">{text}</{element}></testcase>"
    )
}

/// What was asked, and what was said of each component.
fn explained(item: &Item) -> String {
    let mut text = format!("{}\n", body::question(item));
    if let Some(error) = &item.error {
        text.push_str(&format!("{}\n", error.message));
    }
    if let Some(why) = body::unreadable(item) {
        text.push_str(&format!("The SQL can't be read: {why}\n"));
    }
    for (title, score, words) in body::breakdown(item) {
        let gap = if score == body::NO_SCORE { ": " } else { " " };
        let line = if words.is_empty() {
            format!("{title}: {score}")
        } else {
            format!("{title}: {score}{gap}{words}")
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
