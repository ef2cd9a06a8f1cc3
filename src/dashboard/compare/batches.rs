//! Two batches side by side: what turned, then the means.

use askama::Template;
use serde::Deserialize;

use super::super::batches::BatchWords as _;
use super::super::form::segment;
use super::super::frame::Frame;
use super::super::page::{Page, html};
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words;
use super::{Pair, Row, class};
use crate::wire::Batch;

/// Two batches as the API compares them.
#[derive(Debug, Deserialize)]
struct BatchComparison {
    common: u64,
    pass_to_fail: Turned,
    fail_to_pass: Turned,
    lost_score: Turned,
    gained_score: Turned,
    only_a: u64,
    only_b: u64,
    n: u64,
    mean_a: Option<f64>,
    mean_b: Option<f64>,
    difference: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    parts: Vec<PartDifference>,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Turned {
    count: usize,
    items: Vec<TurnedItem>,
}

#[derive(Debug, Deserialize)]
struct TurnedItem {
    id: String,
    a: Option<f64>,
    b: Option<f64>,
    item_a: u64,
    item_b: u64,
}

#[derive(Debug, Deserialize)]
struct PartDifference {
    title: String,
    n: u64,
    mean_a: f64,
    mean_b: f64,
    difference: f64,
}

/// A share as a percentage; a dash where there is none.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), words::percent)
}

impl TurnedItem {
    fn before(&self) -> String {
        percent(self.a)
    }

    fn after(&self) -> String {
        percent(self.b)
    }
}

#[derive(Template)]
#[template(path = "compare_batches.html")]
struct BatchesPage {
    frame: Frame,
    pair: Pair,
    a: Batch,
    b: Batch,
    groups: Vec<Group>,
    rows: Vec<Row>,
    interval: String,
    found: BatchComparison,
}

/// Items that turned in one way.
struct Group {
    title: &'static str,
    class: &'static str,
    turned: Turned,
}

/// Draws the page of two batches.
pub(super) async fn compare(state: &PageState, user: SessionUser, pair: Pair) -> Page {
    let client = &state.client;
    let path = format!("/api/v1/batches/compare{}", pair.query());
    let of = |id: &str| format!("/api/v1/batches/{}", segment(id.trim()));
    let (a, b) = (of(&pair.a), of(&pair.b));
    let (a, b, found) = tokio::try_join!(
        client.get::<Batch>(&user.caller, &a),
        client.get::<Batch>(&user.caller, &b),
        client.get::<BatchComparison>(&user.caller, &path),
    )?;
    let title = format!(
        "{} broke, {} mended · Compare",
        found.pass_to_fail.count, found.fail_to_pass.count
    );
    let frame = Frame::of(state, user, "Batches", title).await;
    html(&BatchesPage::of(frame, pair, (a, b), found))
}

impl BatchesPage {
    fn of(frame: Frame, pair: Pair, (a, b): (Batch, Batch), mut found: BatchComparison) -> Self {
        let mut take = |title, class, which: fn(&mut BatchComparison) -> &mut Turned| {
            let none = Turned {
                count: 0,
                items: Vec::new(),
            };
            Group {
                title,
                class,
                turned: std::mem::replace(which(&mut found), none),
            }
        };
        let groups = vec![
            take("Passed before, misses now", "bad", |f| &mut f.pass_to_fail),
            take("Missed before, passes now", "ok", |f| &mut f.fail_to_pass),
            take("Lost its score", "warn", |f| &mut f.lost_score),
            take("Has a score now", "", |f| &mut f.gained_score),
        ];
        let mut rows = vec![Row {
            name: "Total".to_owned(),
            a: percent(found.mean_a),
            b: percent(found.mean_b),
            difference: found
                .difference
                .map_or("–".to_owned(), |d| words::points(100.0 * d)),
            class: found.difference.map_or("", |d| class(100.0 * d)),
            n: words::grouped(found.n),
        }];
        rows.extend(found.parts.iter().map(|part| Row {
            name: part.title.clone(),
            a: words::percent(part.mean_a),
            b: words::percent(part.mean_b),
            difference: words::points(100.0 * part.difference),
            class: class(100.0 * part.difference),
            n: words::grouped(part.n),
        }));
        let interval = match (found.low, found.high) {
            (Some(low), Some(high)) => format!(
                "The difference of the means lies between {} and {} points (95%).",
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
            groups,
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
    fn what_turned_stands_before_the_means() {
        let turned = |ids: &[&str]| -> Value {
            let items: Vec<Value> = ids
                .iter()
                .map(|id| json!({"id": id, "a": 0.95, "b": 0.2, "item_a": 1, "item_b": 2}))
                .collect();
            json!({"count": ids.len(), "items": items})
        };
        let found = json!({"common": 10, "pass_to_fail": turned(&["<script>q</script>"]), "fail_to_pass": turned(&[]),
            "lost_score": turned(&["unread"]), "gained_score": turned(&[]), "only_a": 0, "only_b": 1, "n": 9, "mean_a": 0.9, "mean_b": 0.85,
            "difference": -0.05, "low": -0.1, "high": 0.0, "warnings": ["w"],
            "parts": [{"name": "schema_match", "title": "Schema", "n": 9, "mean_a": 1.0, "mean_b": 0.9, "difference": -0.1}]});
        let batches = (batch(&json!({})), batch(&json!({"name": "other"})));
        let found = serde_json::from_value(found).unwrap();
        let page = BatchesPage::of(Frame::bare(), pair(), batches, found);
        let text = page.render().unwrap();
        assert!(text.find("Passed before").unwrap() < text.find("Schema").unwrap());
        for part in ["95%", "20%", "−5", "−10", "items/2", "unread"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<script>"), "{text}");
    }
}
