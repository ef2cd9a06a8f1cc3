//! Text output of a batch: state, results, cost.

use crate::cli::analytics::without_price;
use crate::cli::outcome::Exit;
use crate::cli::output::{Column, Printable, Row, Text, optional_time, or_empty, time};
use crate::wire::words::{counted, duration};
use crate::wire::{
    Batch, BatchCounts, BatchOrigin, BatchPause, BatchProgress, BatchRetried, BatchState,
    BatchVerdict, PausedBy, ProviderBatch, ProviderBatchState, ProviderChunk,
};

/// Maximum number of listed sessions that were already being scored elsewhere.
const MAX_NAMES: usize = 5;

impl Row for Batch {
    const COLUMNS: &'static [Column<Self>] = &[
        ("batch", |it| it.batch_id.to_string()),
        ("name", |it| or_empty(it.name.as_deref())),
        ("kind", |it| it.kind.to_string()),
        ("state", brief),
        ("done", |it| {
            format!("{} of {}", done(&it.counts), it.counts.total)
        }),
        ("failed", |it| it.counts.failed.to_string()),
        ("spent", money),
        ("created", |it| time(it.times.created_at)),
    ];
}

impl Printable for Batch {
    fn text(&self, out: &mut Text) {
        let provider_batch = self.economy.as_ref();
        out.facts(&[
            ("batch", self.batch_id.to_string()),
            ("name", or_empty(self.name.as_deref())),
            ("kind", self.kind.to_string()),
            ("purpose", self.purpose.to_string()),
            ("criteria", or_empty(self.criteria_hash.as_deref())),
            ("asked by", self.created_by.clone()),
            ("created", time(self.times.created_at)),
            ("finished", optional_time(self.times.finished_at)),
            ("state", state_of(self)),
            ("items", items(&self.counts)),
            (
                "skipped",
                or_empty(self.skipped.map(|it| nonzero(&it.reasons()))),
            ),
            ("verdict", or_empty(self.verdict.map(verdict))),
            ("spent", money(self)),
            ("left", left(&self.progress)),
            ("economy", or_empty(provider_batch.map(provider_batch_text))),
        ]);
        let chunks = provider_batch.iter().flat_map(|it| &it.parts);
        let waited = self.in_progress.iter().take(MAX_NAMES).map(|session| {
            let (id, job) = (session.session_id, or_empty(session.job_id));
            format!("session {id} was being scored by job {job}")
        });
        let more =
            (self.in_progress.len() > MAX_NAMES).then(|| "and others; --json lists them".into());
        for words in chunks.map(chunk_text).chain(waited).chain(more) {
            out.line(format!("          {words}"));
        }
        if self.counts.failed > 0 {
            let id = self.batch_id;
            out.note(format!(
                "why they failed: gavel jobs list --batch {id} --state failed"
            ));
        }
    }
}

impl Printable for BatchRetried {
    fn text(&self, out: &mut Text) {
        let items = counted(self.queued_again, "item");
        out.line(format!("{items} queued again"));
        self.batch.text(out);
    }

    fn exit(&self) -> Exit {
        Exit::nothing_if(self.queued_again == 0)
    }
}

/// State of a batch in short.
fn brief(batch: &Batch) -> String {
    match (batch.state, &batch.paused) {
        (BatchState::Running | BatchState::Expanding, _) if batch.stopped.is_some() => {
            "running, stopped".to_owned()
        }
        (BatchState::Paused, Some(paused)) => format!("paused ({})", paused.by),
        (state, _) => state.to_string(),
    }
}

pub(super) fn state_of(batch: &Batch) -> String {
    match (batch.state, batch.origin, &batch.stopped) {
        (BatchState::Running, _, Some(stopped))
        | (BatchState::Expanding, BatchOrigin::Rescore, Some(stopped)) => {
            let until = stopped
                .until
                .map(|at| format!("; it resumes at {}", time(at)));
            format!(
                "running, but stopped: {}{}",
                stopped.message,
                until.unwrap_or_default()
            )
        }
        (BatchState::Expanding, BatchOrigin::Rescore, None) => {
            "running, and still collecting its sessions".to_owned()
        }
        (BatchState::Expanding, BatchOrigin::Suite, _) => "its items are being stored".to_owned(),
        (BatchState::Paused, _, _) => batch.paused.as_ref().map_or("paused".to_owned(), paused),
        (state, _, _) => state.to_string(),
    }
}

fn paused(paused: &BatchPause) -> String {
    let by = match paused.by {
        PausedBy::Budget => "its budget",
        PausedBy::Operator => "an operator",
    };
    match paused.reason.as_str() {
        "" => format!("paused by {by}"),
        reason => format!("paused by {by}: {reason}"),
    }
}

pub(super) fn done(counts: &BatchCounts) -> i64 {
    counts.succeeded + counts.failed + counts.cancelled
}

/// Formats the counts that aren't 0.
pub(in crate::cli) fn nonzero(counts: &[(i64, &str)]) -> String {
    let some = counts.iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = some.map(|(n, words)| format!("{n} {words}")).collect();
    words.join(", ")
}

fn items(counts: &BatchCounts) -> String {
    let parts = nonzero(&[
        (counts.succeeded, "scored"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.running, "running"),
        (counts.waiting, "waiting"),
        (counts.queued, "queued"),
    ]);
    let done = format!("{} of {} done", done(counts), counts.total);
    match parts.is_empty() {
        true => done,
        false => format!("{done}: {parts}"),
    }
}

fn verdict(verdict: BatchVerdict) -> String {
    let mut parts = vec![format!(
        "{} passed, {} did not",
        verdict.passed, verdict.failed
    )];
    parts.extend(verdict.mean.map(|mean| format!("mean {mean:.3}")));
    let rest = nonzero(&[
        (verdict.incomplete, "incomplete"),
        (verdict.unscored, "without a score that counts"),
    ]);
    if !rest.is_empty() {
        parts.push(rest);
    }
    if verdict.simulated {
        parts.push("SIMULATED".to_owned());
    }
    parts.join(", ")
}

pub(super) fn money(batch: &Batch) -> String {
    let spent = batch.spent_usd;
    let budget = batch
        .budget_usd
        .map_or(String::new(), |usd| format!(" of {usd} USD at most"));
    match u64::try_from(batch.unpriced_calls).unwrap_or(0) {
        0 => format!("{spent:.4} USD{budget}"),
        n if spent <= 0.0 => format!("unknown{}{budget}", without_price(n)),
        _ => format!("at least {spent:.4} USD{budget}, some calls have no price"),
    }
}

/// Number of remaining items and estimated time.
fn left(progress: &BatchProgress) -> String {
    let Some(eta) = progress.eta_s else {
        return String::new();
    };
    let rate = progress.rate_per_s;
    let rate = rate.map_or(String::new(), |rate| format!(" at {rate:.1} items/s"));
    format!("about {}{rate}", duration(eta))
}

fn provider_batch_text(batch: &ProviderBatch) -> String {
    let mut words = match batch.state {
        ProviderBatchState::Asked => "its replies are being fetched".to_owned(),
        ProviderBatchState::Collected => "its replies are here".to_owned(),
    };
    if batch.replied + batch.failed > 0 {
        words = format!(
            "{words}: {} fetched, {} to be called at the full price",
            batch.replied, batch.failed
        );
    }
    match &batch.waits_for {
        None => words,
        Some(reason) => format!("{words}; it waits: {reason}"),
    }
}

fn chunk_text(chunk: &ProviderChunk) -> String {
    let id = chunk.provider_id.as_ref();
    let mut words = format!(
        "{}: {}, {} of {} answered",
        id.map_or("a chunk".to_owned(), |id| format!("chunk {id}")),
        chunk.state,
        chunk.done,
        chunk.requests
    );
    if let Some(at) = chunk.submitted_at {
        words = format!("{words}, handed over {}", time(at));
    }
    match &chunk.error {
        None => words,
        Some(why) => format!("{words}: {why}"),
    }
}

pub(in crate::cli) fn dollars(text: &str) -> Result<f64, String> {
    let usd = text.trim().parse::<f64>().ok();
    usd.filter(|usd| usd.is_finite() && *usd >= 0.0)
        .ok_or_else(|| "give an amount of USD, such as 12.5".to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A running suite with three items; `change` overrides its fields.
    pub(in crate::cli) fn batch(change: &Value) -> Batch {
        let mut batch = json!({
            "batch_id": uuid::Uuid::nil(), "name": null, "kind": "query", "origin": "suite", "state": "running",
            "counts": {"total": 3, "queued": 0, "running": 0, "waiting": 0, "succeeded": 0, "failed": 0, "cancelled": 0},
            "verdict": null, "purpose": "score", "criteria_hash": null, "filter": null, "paused": null, "stopped": null,
            "expanded": true, "skipped": null, "in_progress": [], "economy": null,
            "progress": {"done": 0, "total": 3, "rate_per_s": null, "eta_s": null}, "budget_usd": null, "spent_usd": 0.0,
            "unpriced_calls": 0, "tokens": {"in": 0, "out": 0}, "cost_usd": null, "threshold": null, "created_by": "ann",
            "links": {"self": "", "jobs": "", "budget": ""}, "times": {"created_at": "2026-01-01T00:00:00Z", "finished_at": null},
        });
        for (field, value) in change.as_object().unwrap() {
            batch[field] = value.clone();
        }
        serde_json::from_value(batch).unwrap()
    }

    #[test]
    fn unpriced_calls_are_not_free() {
        for (change, words) in [
            (json!({}), "0.0000 USD"),
            (
                json!({"spent_usd": 1.5, "budget_usd": 2.0, "unpriced_calls": 3}),
                "at least 1.5000 USD of 2 USD at most, some calls have no price",
            ),
            (
                json!({"unpriced_calls": 3}),
                "unknown (3 calls without a price)",
            ),
        ] {
            assert_eq!(money(&batch(&change)), words);
        }
    }

    #[test]
    fn provider_batch_shows_waits_and_chunks() {
        let parts = json!([
            {"state": "submitted", "provider_id": "batch_7", "requests": 9, "done": 4, "submitted_at": "2026-01-01T00:00:00Z", "error": null},
            {"state": "failed", "provider_id": null, "requests": 2, "done": 0, "submitted_at": null, "error": "no"},
        ]);
        let economy = json!({"state": "asked", "replied": 3, "failed": 1, "waits_for": "the queue is stopped (paused)", "parts": parts});
        let batch = batch(&json!({"economy": economy})).economy.unwrap();
        assert_eq!(
            provider_batch_text(&batch),
            "its replies are being fetched: 3 fetched, 1 to be called at the full price; it waits: the queue is stopped (paused)"
        );
        let parts: Vec<String> = batch.parts.iter().map(chunk_text).collect();
        assert_eq!(
            parts,
            [
                "chunk batch_7: submitted, 4 of 9 answered, handed over 2026-01-01T00:00:00Z",
                "a chunk: failed, 0 of 2 answered: no"
            ]
        );
    }
}
