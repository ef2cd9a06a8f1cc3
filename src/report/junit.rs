//! JUnit XML for CI servers, with one suite per kind, and per agent for `qas`.
//!
//! A miss is a `<failure>` with its breakdown and the judge's reasoning. An item without a score is an `<error>`. A simulated score is
//! `<skipped>` unless it is allowed, because it passes no gate. The document is streamed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use quick_xml::Writer;
use quick_xml::escape::partial_escape;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::item::{NO_SCORE, Status};
use super::plain::{cut, xml_lines};
use super::summary::{Figures, GroupNames, group_name};
use super::{Item, Meta, ReportError, Simulated, Source};
use crate::job::Kind;

/// Maximum characters of a text within an element.
const MAX_TEXT_CHARS: usize = 20_000;
const MAX_NAME_CHARS: usize = 500;

/// Elements of a case that didn't pass.
const FAILURE: &str = "failure";
const ERROR: &str = "error";
const SKIPPED: &str = "skipped";

type Xml<'a> = Writer<&'a mut dyn Write>;

/// Key of a suite: the kind, and the agent for `qas`.
type Key = (Kind, Option<String>);

#[derive(Debug, Clone, Copy, Default)]
struct CaseCounts {
    tests: u64,
    failures: u64,
    errors: u64,
    skipped: u64,
}

pub(super) fn write(
    out: &mut dyn Write,
    source: &(impl Source + ?Sized),
    (figures, meta): (&Figures, &Meta),
) -> Result<(), ReportError> {
    let mut names = GroupNames::default();
    let mut suites: BTreeMap<Key, CaseCounts> = BTreeMap::new();
    let mut all = CaseCounts::default();
    source.each(&mut |item| {
        let tag = tag(item, meta.simulated);
        all.add(tag);
        suites.entry(key(item, &mut names)).or_default().add(tag);
        Ok(())
    })?;
    let failed = |error: std::io::Error| ReportError::writing("the JUnit report", error);
    let mut xml = Writer::new_with_indent(out, b' ', 2);
    let head = BytesDecl::new("1.0", Some("UTF-8"), None);
    xml.write_event(Event::Decl(head)).map_err(failed)?;
    // The schema has no `skipped` here.
    let [name, tests, failures, errors, _] = all.attributes(meta.name.clone());
    let root = element("testsuites", [name, tests, failures, errors]);
    xml.write_event(Event::Start(root)).map_err(failed)?;
    for (suite, counts) in &suites {
        let name = suite_name(suite);
        let start = element("testsuite", counts.attributes(name.clone()));
        xml.write_event(Event::Start(start)).map_err(failed)?;
        properties(&mut xml, figures, meta).map_err(failed)?;
        // Uses the names of the first pass, so each item gets the same suite.
        source.each(&mut |item| {
            if key(item, &mut names) == *suite {
                case(&mut xml, item, (&name, meta.simulated)).map_err(failed)?;
            }
            Ok(())
        })?;
        xml.write_event(Event::End(BytesEnd::new("testsuite")))
            .map_err(failed)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuites")))
        .map_err(failed)?;
    writeln!(xml.get_mut()).map_err(failed)
}

impl CaseCounts {
    fn add(&mut self, tag: Option<&str>) {
        self.tests += 1;
        self.failures += u64::from(tag == Some(FAILURE));
        self.errors += u64::from(tag == Some(ERROR));
        self.skipped += u64::from(tag == Some(SKIPPED));
    }

    fn attributes(self, name: String) -> [(&'static str, String); 5] {
        [
            ("name", name),
            ("tests", self.tests.to_string()),
            ("failures", self.failures.to_string()),
            ("errors", self.errors.to_string()),
            ("skipped", self.skipped.to_string()),
        ]
    }
}

/// Returns the element within a case; `None`: it passed.
fn tag(item: &Item, simulated: Simulated) -> Option<&'static str> {
    let is_refused = item.simulated && simulated == Simulated::Refused;
    match item.status() {
        Status::Incomplete => Some(ERROR),
        Status::Pass | Status::Fail | Status::Scored if is_refused => Some(SKIPPED),
        Status::Fail => Some(FAILURE),
        Status::Pass | Status::Scored => None,
    }
}

fn key(item: &Item, names: &mut GroupNames) -> Key {
    let agent = item
        .about()
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

/// Returns the start of an element, with long attributes cut.
fn element<const N: usize>(
    name: &'static str,
    attributes: [(&'static str, String); N],
) -> BytesStart<'static> {
    let shown = attributes.into_iter().map(|(name, value)| {
        let value = xml_lines(&cut(&value, MAX_NAME_CHARS));
        (name, Cow::Owned(value))
    });
    BytesStart::new(name).with_attributes(shown)
}

/// Writes the properties of the report, which are repeated in each suite.
fn properties(xml: &mut Xml<'_>, figures: &Figures, meta: &Meta) -> std::io::Result<()> {
    let number =
        |number: Option<f64>| number.map_or_else(|| "none".to_owned(), |n| format!("{n:.6}"));
    let gate = figures.gate.as_ref();
    let gate = gate.map_or("not known", |gate_result| gate_result.decision.as_str());
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
    xml.write_event(Event::Start(BytesStart::new("properties")))?;
    for (name, value) in properties {
        let property = element("property", [("name", name.to_owned()), ("value", value)]);
        xml.write_event(Event::Empty(property))?;
    }
    xml.write_event(Event::End(BytesEnd::new("properties")))
}

fn case(
    xml: &mut Xml<'_>,
    item: &Item,
    (suite, simulated): (&str, Simulated),
) -> std::io::Result<()> {
    let (name, class) = (item.name(), suite.to_owned());
    let start = element("testcase", [("name", name), ("classname", class)]);
    let Some(tag) = tag(item, simulated) else {
        return xml.write_event(Event::Empty(start));
    };
    xml.write_event(Event::Start(start))?;
    if tag == SKIPPED {
        let message = format!("scored by a simulated judge: {}", item.one_line());
        xml.write_event(Event::Empty(element(tag, [("message", message)])))?;
        return xml.write_event(Event::End(BytesEnd::new("testcase")));
    }
    let (kind, message) = match tag {
        ERROR => item.fault(),
        _ => ("miss", item.one_line().into()),
    };
    let attributes = [("message", message.into_owned()), ("type", kind.to_owned())];
    let explained = explained(item);
    let text = cut(&explained, MAX_TEXT_CHARS);
    let text = BytesText::from_escaped(partial_escape(xml_lines(&text)));
    xml.write_event(Event::Start(element(tag, attributes)))?;
    xml.write_event(Event::Text(text))?;
    xml.write_event(Event::End(BytesEnd::new(tag)))?;
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

/// Returns the question and the judge's text on each component.
fn explained(item: &Item) -> String {
    let mut text = format!("{}\n", item.question());
    if let Some(error) = &item.error {
        text.push_str(&format!("{}\n", error.message));
    }
    if let Some(why) = item.unreadable() {
        text.push_str(&format!("The SQL can't be read: {why}\n"));
    }
    for (title, score, words) in item.breakdown() {
        let gap = if score == NO_SCORE { ": " } else { " " };
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
