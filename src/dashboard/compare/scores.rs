//! Comparison of two scores of a session.

use std::collections::HashMap;

use askama::Template;
use axum::Json;
use uuid::Uuid;

use super::super::frame::Frame;
use super::super::page::{Page, PageError, html};
use super::super::score::ScoreDetail;
use super::super::session_item::{Badge, name_of, named};
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words::{self, Timestamp};
use super::{ComparedValue, Pair, class};
use crate::api::{Path, scores};

#[derive(Template)]
#[template(path = "compare_scores.html")]
struct ScoresPage {
    frame: Frame,
    names: HashMap<Uuid, (String, Timestamp)>,
    pair: Pair,
    a: ScoreDetail,
    b: ScoreDetail,
    rows: Vec<ComparedValue>,
}

impl ScoresPage {
    fn sides(&self) -> [(&'static str, &ScoreDetail, Badge); 2] {
        [
            ("Before", &self.a, self.a.badge.clone()),
            ("After", &self.b, self.b.badge.clone()),
        ]
    }
}

pub(super) async fn compare(
    state: &PageState,
    user: SessionUser,
    pair: Pair,
    (a, b): (Uuid, Uuid),
) -> Page {
    let now = state.about.clock.now();
    let read = async |id: Uuid| -> Result<ScoreDetail, PageError> {
        let Json(version) = scores::one_score(state.api(&user)?, Path(id)).await?;
        Ok(ScoreDetail::from_version(version, now))
    };
    let (a, b) = (read(a).await?, read(b).await?);
    let sessions = [a.answer.session_id, b.answer.session_id];
    let names = named(state, &user, sessions.into_iter()).await?;
    let frame = Frame::load(state, user, "Compare", "Compare scores").await;
    html(&ScoresPage {
        names,
        rows: score_rows(&a, &b),
        frame,
        pair,
        a,
        b,
    })
}

/// Rows of the total and of each dimension that either score has.
fn score_rows(a: &ScoreDetail, b: &ScoreDetail) -> Vec<ComparedValue> {
    let row = |name: &str, a: Option<f64>, b: Option<f64>| {
        let difference = a.zip(b).map(|(a, b)| b - a);
        let text = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| v.to_string());
        ComparedValue {
            name: name.replace('_', " "),
            a: text(a),
            b: text(b),
            difference: difference.map_or_else(|| "–".to_owned(), words::points),
            class: difference.map_or("", class),
            n: String::new(),
        }
    };
    let of = |score: &ScoreDetail, name: &str| {
        let part = score.parts.iter().find(|part| part.name == name);
        part.map(|part| part.points)
    };
    let total = (
        f64::from(a.answer.total_score),
        f64::from(b.answer.total_score),
    );
    let mut rows = vec![row("Total", Some(total.0), Some(total.1))];
    let more = b.parts.iter().filter(|part| of(a, &part.name).is_none());
    let parts = a.parts.iter().chain(more);
    rows.extend(parts.map(|part| row(&part.name, of(a, &part.name), of(b, &part.name))));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn score(total: u8, parts: &Value) -> ScoreDetail {
        let change = json!({"total_score": total, "score_breakdown": parts});
        let version = serde_json::from_value(crate::tests::score(&change));
        ScoreDetail::from_version(version.unwrap(), "2026-11-22T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn compares_dimensions_of_both_scores() {
        let a = score(70, &json!({"flow": 20.0, "tools": 10.0}));
        let b = score(64, &json!({"flow": 22.5, "outcome": 9.0}));
        let rows = score_rows(&a, &b);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.difference.as_str(), row.class))
            .collect();
        assert_eq!(
            rows,
            [
                ("Total", "−6", "down"),
                ("flow", "+2.5", "up"),
                ("tools", "–", ""),
                ("outcome", "–", "")
            ]
        );
    }
}
