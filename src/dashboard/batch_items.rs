//! Items of a batch on its page: all sections by outcome, or one section with pagination.

use axum::Json;
use uuid::Uuid;

use super::links::query;
use super::markdown;
use super::page::PageError;
use super::session_item::{Badge, name_of, named};
use super::state::PageState;
use super::user::SessionUser;
use crate::api::batches::items::{ItemsQuery, list_items};
use crate::api::{ApiError, Path, Query, problem};
use crate::job::JobState;
use crate::wire::{Batch, BatchItem, ItemOutcome, Job, JobError, PageQuery, Purpose};

/// Maximum number of items per section if all sections are shown.
const ITEMS_PER_SECTION: u32 = 20;
const PAGE_SIZE: u32 = 50;

/// CSS class of an item's border, its symbol, and the symbol's label.
pub(super) fn sign(outcome: ItemOutcome) -> (&'static str, &'static str, &'static str) {
    match outcome {
        ItemOutcome::Passed => ("ok", "✓", "Passed"),
        ItemOutcome::Scored => ("ok", "✓", "Scored"),
        ItemOutcome::Missed => ("bad", "✗", "Missed"),
        ItemOutcome::Unscored => ("warn", "!", "Incomplete"),
        ItemOutcome::Cancelled => ("warn", "–", "Cancelled"),
        ItemOutcome::Open => ("", "…", "Not ended"),
    }
}

pub(super) struct ItemLine {
    pub(super) sign: (&'static str, &'static str, &'static str),
    pub(super) head: String,
    /// The case's name, if it isn't the heading.
    pub(super) name: String,
    pub(super) to: String,
    pub(super) lines: Vec<String>,
    pub(super) badge: Option<Badge>,
    pub(super) simulated: bool,
    pub(super) error: Option<JobError>,
    pub(super) waits: String,
    pub(super) reasoning: Option<String>,
}

/// Address of a session job's result: its own score, which may not be the session's current one, otherwise its judge calls.
pub(super) fn session_page(session: Uuid, job: &Job) -> String {
    match (job.score(), &job.error) {
        (Some(score), _) => Badge::from(score).to,
        (None, Some(_)) => format!("/jobs/{}/calls", job.job_id),
        (None, None) => format!("/sessions/{session}"),
    }
}

impl ItemLine {
    fn new(answer: BatchItem, batch: &Batch) -> Self {
        let outcome = answer.outcome;
        let own = format!("/batches/{}/items/{}", batch.batch_id, answer.item_no);
        // Each session of a jury has a score per judge.
        let judge = answer.job.judge.as_ref();
        let judge = judge.filter(|_| batch.purpose == Purpose::Jury);
        let judge = judge.map(|name| format!("Judge: {name}"));
        let badge = answer.job.score().map(Badge::from);
        let mut lines = answer.lines.into_iter();
        // The question is the heading and isn't repeated. The answer is below it.
        let head = if answer.question.is_empty() {
            lines.next().unwrap_or_else(|| answer.name.clone())
        } else {
            answer.question
        };
        let name = match answer.job.kind.is_case() && answer.name != head {
            true => answer.name,
            false => String::new(),
        };
        let to = match answer.job.subject_id {
            Some(session) => session_page(session, &answer.job),
            None => own,
        };
        let waits = match (&answer.job.wait, answer.job.state) {
            (Some(wait), _) => wait.text(answer.job.judge.as_deref()),
            (None, JobState::Running) => "waiting for the judge's reply".to_owned(),
            (None, _) => String::new(),
        };
        let error = answer
            .job
            .error
            .filter(|_| outcome == ItemOutcome::Unscored);
        let shows_why = matches!(outcome, ItemOutcome::Missed | ItemOutcome::Unscored);
        let is_shown = |said: &String| error.as_ref().is_some_and(|e| *said == e.message);
        let reasoning = answer.reasoning.filter(|said| shows_why && !is_shown(said));
        Self {
            sign: sign(outcome),
            to,
            // The badge shows a session's score. An error is shown once, below.
            lines: if badge.is_some() {
                judge.into_iter().collect()
            } else {
                lines
                    .filter(|line| !error.as_ref().is_some_and(|e| line.contains(&e.message)))
                    .filter(|line| !line.ends_with(&head))
                    .collect()
            },
            head,
            name,
            badge,
            simulated: answer.job.simulated,
            error,
            waits: if outcome == ItemOutcome::Open {
                waits
            } else {
                String::new()
            },
            reasoning: reasoning.map(|text| markdown::render(&text, answer.job.subject_id)),
        }
    }
}

pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) lines: Vec<ItemLine>,
    /// Link to the full section or to the next page.
    pub(super) more: Option<(String, &'static str)>,
    pub(super) first: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    All,
    Failures,
    One(ItemOutcome),
}

const SECTIONS: [(ItemOutcome, &str, &str); 6] = [
    (
        ItemOutcome::Missed,
        "Errors (missed)",
        "below the threshold, or not executed",
    ),
    (
        ItemOutcome::Unscored,
        "Without a score",
        "which is no verdict on the work: the judge failed, or a part could not be computed",
    ),
    (ItemOutcome::Passed, "Success", ""),
    (ItemOutcome::Scored, "Scored", ""),
    (ItemOutcome::Open, "Not ended", ""),
    (ItemOutcome::Cancelled, "Cancelled", ""),
];

impl Show {
    /// Parses the `show` parameter. Empty selects all sections.
    ///
    /// # Errors
    /// Unknown section; the message lists the known ones.
    pub(super) fn parse(asked: &str) -> Result<Self, ApiError> {
        let one = SECTIONS
            .iter()
            .find(|(outcome, ..)| outcome.as_str() == asked);
        match (asked, one) {
            ("" | "all", _) => Ok(Self::All),
            ("failures", _) => Ok(Self::Failures),
            (_, Some((outcome, ..))) => Ok(Self::One(*outcome)),
            (_, None) => {
                let names = SECTIONS.iter().map(|(outcome, ..)| outcome.as_str());
                let names: Vec<&str> = ["all", "failures"].into_iter().chain(names).collect();
                let message = format!("is invalid: use one of {}", names.join(", "));
                Err(problem::of_field("show", &message))
            }
        }
    }

    fn shows(self, outcome: ItemOutcome) -> bool {
        match self {
            Self::All => true,
            Self::Failures => matches!(outcome, ItemOutcome::Missed | ItemOutcome::Unscored),
            Self::One(one) => one == outcome,
        }
    }

    /// Options above the sections: label, address, whether it is selected.
    pub(super) fn choices(self, batch: &Batch) -> Vec<(&'static str, String, bool)> {
        let to = |show: &str| format!("/batches/{}{}", batch.batch_id, query(&[("show", show)]));
        let mut choices = vec![("All", to(""), self == Self::All)];
        let both = [ItemOutcome::Missed, ItemOutcome::Unscored].map(|one| may_have(batch, one));
        if both == [true, true] || self == Self::Failures {
            choices.push((
                "Missed or without a score",
                to("failures"),
                self == Self::Failures,
            ));
        }
        let sections = SECTIONS.iter().filter(|(o, ..)| may_have(batch, *o));
        choices.extend(sections.map(|(outcome, title, _)| {
            (*title, to(outcome.as_str()), self == Self::One(*outcome))
        }));
        choices
    }
}

/// Whether the batch's counts allow items with this outcome. Otherwise the query is skipped.
fn may_have(batch: &Batch, outcome: ItemOutcome) -> bool {
    let counts = &batch.counts;
    let sessions = !batch.kind.is_case();
    match outcome {
        ItemOutcome::Passed | ItemOutcome::Missed => counts.succeeded > 0 && !sessions,
        ItemOutcome::Scored => counts.succeeded > 0 && sessions,
        ItemOutcome::Unscored => {
            let verdict = batch.verdict.as_ref();
            counts.failed > 0 || verdict.is_some_and(|verdict| verdict.incomplete > 0)
        }
        ItemOutcome::Cancelled => counts.cancelled > 0,
        ItemOutcome::Open => counts.queued + counts.running + counts.waiting > 0,
    }
}

pub(super) struct ItemsView<'a> {
    pub(super) state: &'a PageState,
    pub(super) user: &'a SessionUser,
    pub(super) batch: &'a Batch,
}

impl ItemsView<'_> {
    /// Loads the selected sections that have items. A section selected by name is included even if empty.
    pub(super) async fn sections(
        &self,
        show: Show,
        cursor: &str,
    ) -> Result<Vec<Section>, PageError> {
        let alone = matches!(show, Show::One(_));
        let wanted = SECTIONS
            .into_iter()
            .filter(|(outcome, ..)| show.shows(*outcome))
            .filter(|(outcome, ..)| alone || may_have(self.batch, *outcome));
        let mut sections = Vec::new();
        for (outcome, title, about) in wanted {
            let section = self.section(outcome, alone.then_some(cursor)).await?;
            if alone || !section.lines.is_empty() {
                sections.push(Section {
                    title,
                    about,
                    ..section
                });
            }
        }
        Ok(sections)
    }

    async fn section(
        &self,
        outcome: ItemOutcome,
        alone: Option<&str>,
    ) -> Result<Section, PageError> {
        let batch = self.batch.batch_id;
        let limit = match alone {
            Some(_) => PAGE_SIZE,
            None => ITEMS_PER_SECTION,
        };
        let asked = PageQuery {
            cursor: alone.filter(|it| !it.is_empty()).map(str::to_owned),
            ..PageQuery::first(limit)
        };
        let of_outcome = ItemsQuery {
            outcome: Some(outcome),
        };
        let api = self.state.api(self.user)?;
        let Json(found) = list_items(api, Path(batch), Query((of_outcome, asked))).await?;
        let page = |cursor: &str| {
            let asked = query(&[("show", outcome.as_str()), ("cursor", cursor)]);
            format!("/batches/{batch}{asked}")
        };
        let more = found.next_cursor.map(|cursor| match alone {
            Some(_) => (page(&cursor), "Next page"),
            None => (page(""), "All of them"),
        });
        let sessions = found.items.iter().filter_map(|item| item.job.subject_id);
        let names = named(self.state, self.user, sessions).await?;
        let line = |item: BatchItem| {
            let session = item.job.subject_id;
            let line = ItemLine::new(item, self.batch);
            match session {
                Some(session) => ItemLine {
                    head: name_of(&names, &session),
                    ..line
                },
                None => line,
            }
        };
        Ok(Section {
            title: "",
            about: "",
            lines: found.items.into_iter().map(line).collect(),
            more,
            first: alone.filter(|at| !at.is_empty()).map(|_| page("")),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::batches::tests::batch;
    use super::*;
    use crate::tests::{job, score};
    use serde_json::{Value, json};

    /// An item of a query suite; `fields` override its fields.
    pub(in crate::dashboard) fn item(fields: &Value) -> Value {
        let mut body = json!({
            "item_no": 3, "outcome": "missed", "name": "q3", "question": "Which errors?",
            "lines": ["Query: Errors?", "Query executed (results: 2)", "Score: 50% (FAIL <90%)", "Schema: 100% | LLM: 40%"],
            "total": 0.5, "threshold": 0.9, "execution_error": null, "unreadable": null, "missing": [],
            "parts": [{"name": "schema_match", "title": "Schema", "score": 1.0, "words": null},
                {"name": "llm_grading", "title": "LLM", "score": 0.4, "words": "**Wrong** table"}],
            "reasoning": "**Wrong** table",
            "job": job(&json!({"kind": "query", "subject_id": null, "state": "succeeded", "judge": "main", "item_no": 3}))});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    fn line(fields: &Value) -> ItemLine {
        ItemLine::new(
            serde_json::from_value(item(fields)).unwrap(),
            &batch(&json!({})),
        )
    }

    #[test]
    fn missed_item_shows_the_reason() {
        let missed = line(&json!({}));
        assert_eq!(missed.sign.0, "bad");
        assert_eq!(missed.head, "Which errors?");
        assert_eq!(missed.lines.len(), 4);
        assert!(missed.reasoning.unwrap().contains("<strong>Wrong</strong>"));
        let passed = line(&json!({"outcome": "passed"}));
        assert!(passed.reasoning.is_none());
        let open = line(&json!({"outcome": "open", "lines": [], "question": "", "name": "q9"}));
        assert_eq!((open.head.as_str(), open.lines.len()), ("q9", 0));
    }

    #[test]
    fn error_message_is_shown_once() {
        let mut fields = item(
            &json!({"outcome": "unscored", "reasoning": "timed out", "lines": ["Query: Errors?", "Judge error: timed out", "Schema: 100%"]}),
        );
        fields["job"]["error"] =
            json!({"class": "transient", "message": "timed out", "remedy": "try again"});
        let line = line(&fields);
        assert_eq!(line.lines, ["Query: Errors?", "Schema: 100%"]);
        assert_eq!(line.error.unwrap().message, "timed out");
        assert!(line.reasoning.is_none());
    }

    #[test]
    fn session_item_shows_its_badge() {
        let mut fields = item(&json!({"outcome": "scored"}));
        fields["job"]["subject_id"] = json!(uuid::Uuid::nil());
        fields["job"]["result"] = score(&json!({"simulated": true}));
        let alone = line(&fields);
        assert!(alone.to.starts_with("/scores/0193"), "{}", alone.to);
        let badge = alone.badge.unwrap();
        assert_eq!(badge.total, Some((72, "adequate")));
        assert!(badge.simulated && alone.lines.is_empty());
        fields["job"]["result"] = json!(null);
        let ahead = line(&fields);
        assert!(ahead.to.starts_with("/sessions/"), "{}", ahead.to);
        fields["job"]["error"] =
            json!({"class": "unparsable", "message": "no JSON", "remedy": "see its reply"});
        let failed = line(&fields);
        assert!(failed.to.ends_with("/calls"), "{}", failed.to);
        fields["job"]["error"] = json!(null);
        fields["job"]["result"] = score(&json!({"simulated": true}));
        let jury = batch(&json!({"purpose": "jury"}));
        let one_of_several = ItemLine::new(serde_json::from_value(fields).unwrap(), &jury);
        assert_eq!(one_of_several.lines, ["Judge: main"]);
    }

    #[test]
    fn show_parameter_selects_sections() {
        assert_eq!(Show::parse("").unwrap(), Show::All);
        let strange = Show::parse("<script>").unwrap_err().problem();
        assert!(
            strange.errors[0].message.contains("failures, missed"),
            "{strange:?}"
        );
        assert_eq!(Show::parse("failures").unwrap(), Show::Failures);
        assert_eq!(
            Show::parse("unscored").unwrap(),
            Show::One(ItemOutcome::Unscored)
        );
        assert!(
            !Show::Failures.shows(ItemOutcome::Passed) && Show::Failures.shows(ItemOutcome::Missed)
        );
        let names: Vec<_> = Show::All
            .choices(&batch(&json!({})))
            .into_iter()
            .map(|c| c.0)
            .collect();
        assert_eq!(names, ["All", "Errors (missed)", "Success"]);
    }
}
