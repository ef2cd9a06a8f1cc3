//! `/batches`: list of batches, newest first, with progress and result.

use askama::Template;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::address::Filled;
use super::frame::Frame;
use super::page::{Page, html};
use super::state::PageState;
use super::upload::UploadForm;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::batches::{BatchesQuery, list_batches};
use crate::api::{self, Path, Query, read_query};
use crate::job::{Kind, Purpose};
use crate::wire::{Batch, BatchOrigin, BatchProgress, PageQuery};

const ROWS: u32 = 50;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/batches", get(list))
        .route("/batches/{id}/row", get(row))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BatchVerdict {
    /// PASS, FAIL or INCOMPLETE. SCORED if the batch has no threshold.
    pub(super) word: &'static str,
    pub(super) colour: &'static str,
    pub(super) why: String,
}

pub(super) trait BatchView {
    fn title(&self) -> String;
    fn kind_label(&self) -> String;
    /// Whether items can still finish.
    fn moves(&self) -> bool;
    /// Width of the progress bar, percent.
    fn width(&self) -> f64;
    /// `12 of 40`.
    fn done(&self) -> String;
    /// Cost so far. Unknown until the first call has finished: until then even the price may be missing.
    fn cost(&self) -> String;
    fn verdict(&self) -> BatchVerdict;
}

impl BatchView for Batch {
    fn title(&self) -> String {
        let own = self.name.as_deref();
        own.map_or_else(
            || {
                let what = match (self.purpose, self.origin) {
                    (Purpose::Preview, _) => "Preview",
                    (Purpose::Repeat, _) => "Repeats",
                    (Purpose::Jury, _) => "Jury",
                    (Purpose::Score, BatchOrigin::Rescore) => "Rescore",
                    (Purpose::Score, BatchOrigin::Suite) => "Batch",
                };
                let made = self.times.created_at.format("%Y-%m-%d %H:%M UTC");
                format!("{what} of {made}")
            },
            str::to_owned,
        )
    }

    fn kind_label(&self) -> String {
        words::kinds(&[self.kind])
    }

    fn moves(&self) -> bool {
        self.times.finished_at.is_none()
    }

    fn width(&self) -> f64 {
        let BatchProgress { done, total, .. } = self.progress;
        share(done, total).map_or(0.0, |share| 100.0 * share)
    }

    fn done(&self) -> String {
        let BatchProgress { done, total, .. } = self.progress;
        let more = if self.expanded { "" } else { "+" };
        format!(
            "{} of {}{more}",
            words::grouped(done),
            words::grouped(total)
        )
    }

    fn cost(&self) -> String {
        let asked = self.tokens.tokens_in > 0 || self.unpriced_calls > 0 || self.spent_usd > 0.0;
        if self.moves() && !asked {
            return "nothing yet".to_owned();
        }
        words::usd_at_least(Some(self.spent_usd), self.unpriced_calls)
    }

    fn verdict(&self) -> BatchVerdict {
        let counts = &self.counts;
        let open = self.progress.total - self.progress.done;
        let incomplete = |why: String| BatchVerdict {
            word: "INCOMPLETE",
            colour: "open",
            why,
        };
        if open > 0 || !self.expanded {
            return incomplete(format!("{} still to come", items(open)));
        }
        if counts.cancelled > 0 {
            return incomplete(format!("{} cancelled", items(counts.cancelled)));
        }
        let Some(verdict) = &self.verdict else {
            return match (counts.failed, counts.succeeded) {
                (0, 0) => incomplete("no item was scored".to_owned()),
                (0, scored) => BatchVerdict {
                    word: "SCORED",
                    colour: "well",
                    why: items(scored),
                },
                (failed, _) => incomplete(format!("{} without a score", items(failed))),
            };
        };
        let without = verdict.unscored + verdict.incomplete;
        if without > 0 {
            return incomplete(format!("{} without a score", items(without)));
        }
        if verdict.simulated {
            return incomplete("scores of a simulated judge cannot pass".to_owned());
        }
        if verdict.failed > 0 {
            return BatchVerdict {
                word: "FAIL",
                colour: "alarm",
                why: format!("{} missed", items(verdict.failed)),
            };
        }
        BatchVerdict {
            word: "PASS",
            colour: "well",
            why: format!("all of {}", items(verdict.passed)),
        }
    }
}

/// `3 items`.
pub(super) fn items(n: i64) -> String {
    words::counted(n, "item")
}

/// Share of a total, 0-1.
#[expect(
    clippy::cast_precision_loss,
    reason = "a batch has at most a million items"
)]
fn share(part: i64, of: i64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

#[derive(Template)]
#[template(path = "batch_row.html")]
pub(super) struct BatchListRow {
    pub(super) verdict: BatchVerdict,
    pub(super) created: Timestamp,
    pub(super) batch: Batch,
}

impl BatchListRow {
    pub(super) fn new(batch: Batch, now: DateTime<Utc>) -> Self {
        Self {
            verdict: batch.verdict(),
            created: words::timestamp(batch.times.created_at, now),
            batch,
        }
    }
}

#[derive(Template)]
#[template(path = "batches.html")]
struct BatchesPage {
    frame: Frame,
    filter: Filled,
    rows: Vec<BatchListRow>,
    next: Option<String>,
    first: Option<String>,
    form: Option<UploadForm>,
}

async fn list(State(state): State<PageState>, user: SessionUser, filter: Filled) -> Page {
    let (query, page): (BatchesQuery, PageQuery) = read_query(filter.pairs())?;
    let page = PageQuery {
        limit: Some(ROWS),
        ..page
    };
    let Json(found) = list_batches(state.api(&user)?, Query((query, page))).await?;
    let now = state.about.clock.now();
    let rows: Vec<BatchListRow> = found
        .items
        .into_iter()
        .map(|b| BatchListRow::new(b, now))
        .collect();
    let moves = rows.iter().any(|row| row.batch.moves());
    let at = |cursor: &str| format!("/batches{}", filter.page(cursor));
    html(&BatchesPage {
        next: found.next_cursor.as_deref().map(at),
        first: (!filter.of("cursor").is_empty()).then(|| at("")),
        form: user.may_enqueue().then(|| UploadForm::empty(&user)),
        frame: Frame::load(&state, user, "Batches", "Batches")
            .await
            .moving(moves),
        filter,
        rows,
    })
}

async fn row(State(state): State<PageState>, user: SessionUser, Path(id): Path<Uuid>) -> Page {
    let batch = api::batches::read(state.api(&user)?, Path(id)).await?;
    html(&BatchListRow::new(batch, state.about.clock.now()))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A finished batch with 40 cases; `fields` override its fields.
    pub(in crate::dashboard) fn batch(fields: &Value) -> Batch {
        let mut body = json!({
            "batch_id": "01900000-0000-7000-8000-000000000001", "name": "nightly", "kind": "query", "origin": "suite",
            "state": "completed", "purpose": "score", "criteria_hash": null, "filter": null, "paused": null, "expanded": true,
            "counts": {"total": 40, "queued": 0, "running": 0, "waiting": 0, "succeeded": 40, "failed": 0, "cancelled": 0},
            "verdict": {"passed": 40, "failed": 0, "incomplete": 0, "unscored": 0, "pass_rate": 1.0, "mean": 0.98, "coverage": 1.0,
                "simulated": false},
            "progress": {"done": 40, "total": 40, "rate_per_s": null, "eta_s": null},
            "budget_usd": null, "spent_usd": 1.25, "unpriced_calls": 0, "tokens": {"in": 1000, "out": 200}, "cost_usd": 1.25,
            "threshold": 0.9, "created_by": "ann", "links": {"self": "", "jobs": "", "budget": ""}, "stopped": null, "skipped": null,
            "in_progress": [], "economy": null, "times": {"created_at": "2026-11-22T12:00:00Z",
            "finished_at": "2026-11-22T12:05:00Z"}});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        serde_json::from_value(body).unwrap()
    }

    fn verdict(passed: i64, failed: i64, incomplete: i64, simulated: bool) -> Value {
        json!({"verdict": {"passed": passed, "failed": failed, "incomplete": incomplete, "unscored": 0, "pass_rate": null,
            "mean": null, "coverage": 1.0, "simulated": simulated}})
    }

    #[test]
    fn batch_passes_only_if_all_items_have_complete_real_scores() {
        let open = json!({"progress": {"done": 39, "total": 40, "rate_per_s": 1.0, "eta_s": 1.0}});
        let sessions = json!({"kind": "session", "verdict": null});
        for (fields, word, why) in [
            (verdict(40, 0, 0, false), "PASS", "all of 40 items"),
            (verdict(39, 1, 0, false), "FAIL", "1 item missed"),
            (
                verdict(38, 1, 1, false),
                "INCOMPLETE",
                "1 item without a score",
            ),
            (
                verdict(40, 0, 0, true),
                "INCOMPLETE",
                "scores of a simulated judge cannot pass",
            ),
            (open, "INCOMPLETE", "1 item still to come"),
            (sessions, "SCORED", "40 items"),
        ] {
            let verdict = batch(&fields).verdict();
            assert_eq!((verdict.word, verdict.why.as_str()), (word, why));
        }
    }

    #[test]
    fn unknown_cost_is_not_zero() {
        for (spent, unpriced, text) in [
            (1.25, 0, "1.25 USD"),
            (0.0, 3, "no price known"),
            (1.25, 3, "more than 1.25 USD"),
        ] {
            let batch = batch(&json!({"spent_usd": spent, "unpriced_calls": unpriced}));
            assert_eq!(batch.cost(), text);
        }
    }

    #[test]
    fn batch_names_are_escaped() {
        let batch = batch(&json!({"name": "<script>alert(1)</script>"}));
        let row = BatchListRow::new(batch, "2026-11-22T13:00:00Z".parse().unwrap());
        let text = row.render().unwrap();
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("40 of 40") && text.contains("PASS"), "{text}");
    }
}
