//! Comparison of two batches: changed items, then means.

use askama::Template;
use axum::Json;
use uuid::Uuid;

use super::super::batches::BatchView as _;
use super::super::figures::percent;
use super::super::frame::Frame;
use super::super::page::{Page, html};
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words;
use super::{ComparedValue, Pair, class};
use crate::api::batches::compare::{BatchPair, compare_batches};
use crate::api::{Path, Query, batches};
use crate::wire::{Batch, BatchComparison, TurnedItems};

#[derive(Template)]
#[template(path = "compare_batches.html")]
struct BatchesPage {
    frame: Frame,
    pair: Pair,
    a: Batch,
    b: Batch,
    rows: Vec<ComparedValue>,
    interval: String,
    found: BatchComparison,
}

pub(super) async fn compare(
    state: &PageState,
    user: SessionUser,
    pair: Pair,
    (a, b): (Uuid, Uuid),
) -> Page {
    let api = state.api(&user)?;
    let (a, b, Json(found)) = tokio::try_join!(
        batches::read(api.clone(), Path(a)),
        batches::read(api.clone(), Path(b)),
        compare_batches(api, Query(BatchPair { a, b })),
    )?;
    let title = format!(
        "{} broke, {} fixed · Compare",
        found.pass_to_fail.count, found.fail_to_pass.count
    );
    let frame = Frame::load(state, user, "Compare", title).await;
    html(&BatchesPage::new(frame, pair, (a, b), found))
}

impl BatchesPage {
    /// Changed items by kind of change, with label and CSS class.
    fn groups(&self) -> [(&'static str, &'static str, &TurnedItems); 4] {
        let found = &self.found;
        [
            ("Passed before, misses now", "bad", &found.pass_to_fail),
            ("Missed before, passes now", "ok", &found.fail_to_pass),
            ("Lost its score", "warn", &found.lost_score),
            ("Has a score now", "", &found.gained_score),
        ]
    }

    fn new(frame: Frame, pair: Pair, (a, b): (Batch, Batch), found: BatchComparison) -> Self {
        let mut rows = vec![ComparedValue {
            name: "Total".to_owned(),
            a: percent(found.mean_a),
            b: percent(found.mean_b),
            difference: found
                .difference
                .map_or("–".to_owned(), |d| words::points(100.0 * d)),
            class: found.difference.map_or("", |d| class(100.0 * d)),
            n: words::grouped(found.n),
        }];
        rows.extend(found.parts.iter().map(|part| ComparedValue {
            name: part.title.clone(),
            a: words::percent(part.mean_a),
            b: words::percent(part.mean_b),
            difference: words::points(100.0 * part.difference),
            class: class(100.0 * part.difference),
            n: words::grouped(part.n),
        }));
        let interval = match (found.low, found.high) {
            (Some(low), Some(high)) => format!(
                "The difference of the means is between {} and {} points (95%).",
                words::points(100.0 * low),
                words::points(100.0 * high)
            ),
            _ => String::new(),
        };
        Self {
            frame,
            pair,
            a,
            b,
            rows,
            interval,
            found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::batches::tests::batch;
    use super::*;
    use serde_json::{Value, json};

    fn pair() -> Pair {
        Pair {
            a: "x\"><script>".to_owned(),
            b: "y".to_owned(),
        }
    }

    #[test]
    fn changed_items_precede_means() {
        let turned = |ids: &[&str]| -> Value {
            let items: Vec<Value> = ids
                .iter()
                .map(|id| json!({"id": id, "a": 0.95, "b": 0.2, "item_a": 1, "item_b": 2}))
                .collect();
            json!({"count": ids.len(), "items": items})
        };
        let id = uuid::Uuid::nil();
        let found = json!({"a": id, "b": id, "common": 10, "pass_to_fail": turned(&["<script>q</script>"]), "fail_to_pass": turned(&[]),
            "lost_score": turned(&["unread"]), "gained_score": turned(&[]), "only_a": 0, "only_b": 1, "n": 9, "mean_a": 0.9, "mean_b": 0.85,
            "difference": -0.05, "low": -0.1, "high": 0.0, "warnings": ["w"],
            "parts": [{"name": "schema_match", "title": "Schema", "n": 9, "mean_a": 1.0, "mean_b": 0.9, "difference": -0.1}]});
        let batches = (batch(&json!({})), batch(&json!({"name": "other"})));
        let found = serde_json::from_value(found).unwrap();
        let page = BatchesPage::new(Frame::bare(), pair(), batches, found);
        let text = page.render().unwrap();
        assert!(text.find("Passed before").unwrap() < text.find("Schema").unwrap());
        for part in ["95%", "20%", "−5", "−10", "items/2", "unread"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<script>"), "{text}");
    }
}
