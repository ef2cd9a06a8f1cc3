//! Plan of a rescore, as calculated by the API: counts, tokens, cost, duration, and the effect of each option.

use super::super::form::Form;
use super::super::frame::Frame;
use super::super::words;
use crate::wire::{CostRange, RescorePlan};
use askama::Template;

#[derive(Template)]
#[template(path = "rescore_plan.html")]
pub(super) struct PlanPage {
    frame: Frame,
    fields: Vec<(String, String)>,
    criteria: String,
    matching: String,
    to_score: u64,
    items: String,
    skipped: Vec<(String, &'static str)>,
    judges: String,
    tokens: String,
    cost: String,
    took: String,
    effects: Vec<(&'static str, String)>,
    warnings: Vec<String>,
    key: String,
}

const NOTHING_TO_PREVIEW: &str = "A preview needs sessions with a score by the current criteria, to compare with. No chosen session has one. \
    Score some by the current criteria first, or filter the list of sessions differently and press Score many.";

impl PlanPage {
    pub(super) fn new(
        frame: Frame,
        form: &Form,
        (plan, criteria): (RescorePlan, String),
        key: String,
    ) -> Self {
        let skipped = plan.skipped.reasons().into_iter();
        let skipped = skipped.filter(|(n, _)| *n > 0);
        let judges: Vec<&str> = plan.judges.iter().map(|j| j.judge.as_str()).collect();
        let fields = pinned(form, &plan);
        let is_empty_preview = plan.to_score == 0 && form.text("purpose") == Some("preview");
        let nothing = is_empty_preview.then(|| NOTHING_TO_PREVIEW.to_owned());
        Self {
            criteria,
            matching: words::grouped(plan.matching),
            to_score: plan.to_score,
            items: words::grouped(plan.items),
            skipped: skipped.map(|(n, why)| (words::grouped(n), why)).collect(),
            effects: effects(form, plan.to_score, judges.len()),
            judges: judges.join(", "),
            tokens: format!(
                "about {} in, {} out",
                words::grouped(plan.tokens_in.expected),
                words::grouped(plan.tokens_out.expected)
            ),
            cost: plan
                .cost_usd
                .as_ref()
                .map_or_else(|| "unknown: a judge's model has no price".to_owned(), text),
            took: took(form, plan.duration_s),
            warnings: plan.warnings.into_iter().chain(nothing).collect(),
            fields,
            key,
            frame,
        }
    }
}

/// Form fields plus the plan's criteria and count, so that the request runs exactly the shown plan even if data has changed since.
fn pinned(form: &Form, plan: &RescorePlan) -> Vec<(String, String)> {
    let mut fields = form.rest();
    fields.retain(|(name, _)| !matches!(name.as_str(), "with" | "max"));
    fields.push(("with".to_owned(), plan.criteria_hash.clone()));
    fields.push(("max".to_owned(), plan.to_score.to_string()));
    fields
}

fn text(cost: &CostRange) -> String {
    let [low, expected, high] =
        [cost.low, cost.expected, cost.high].map(|usd| words::usd(Some(usd)));
    format!("about {expected} ({low} to {high})")
}

/// One sentence per selected option.
fn effects(form: &Form, sessions: u64, judges: usize) -> Vec<(&'static str, String)> {
    let sessions = words::counted(sessions, "session");
    let purpose = match form.text("purpose") {
        Some("preview") => "a preview: current scores stay unchanged".to_owned(),
        Some("repeat") => format!(
            "repeats: each of {sessions} {} times by the same judge without the cache, at that multiple of the cost; current scores stay unchanged",
            form.text("repeats").unwrap_or_default()
        ),
        Some("jury") => format!(
            "a jury: each of {sessions} once by each of {judges} judges, at the cost of all of them; cached replies are free; current scores stay unchanged"
        ),
        Some(_) | None => {
            "new current scores; replaced scores stay in each session's history".to_owned()
        }
    };
    let mut effects = vec![("What for", purpose)];
    if form.ticked("economy") {
        let text = "the judge's batch endpoint answers within a day; its lower price is in the cost above. It can't be stopped by a budget";
        effects.push(("Provider batch", text.to_owned()));
    }
    effects
}

/// Expected duration, or that it is unknown.
fn took(form: &Form, seconds: Option<f64>) -> String {
    match (seconds, form.ticked("economy")) {
        (_, true) => "within a day, when the provider has replied".to_owned(),
        (Some(seconds), false) => format!("{}, at the present pace", lasting(seconds)),
        (None, false) => "not yet known".to_owned(),
    }
}

fn lasting(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "less than a second".to_owned(),
        s => format!("about {}", words::duration(s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_durations() {
        for (seconds, text) in [
            (0.3, "less than a second"),
            (12.0, "about 12 s"),
            (600.0, "about 10 min"),
            (9_000.0, "about 2.5 h"),
            (432_000.0, "about 5.0 days"),
        ] {
            assert_eq!(lasting(seconds), text);
        }
    }
}
