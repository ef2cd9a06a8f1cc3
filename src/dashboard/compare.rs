//! `/compare?a=&b=`: two batches, two versions of the criteria, or two scores of a session side by side. What turned stands first.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use serde::Deserialize;
use uuid::Uuid;

use super::batches::{Batch, List};
use super::form::query;
use super::frame::Frame;
use super::page::{Fault, Page, html};
use super::score::Score;
use super::sessions::Badge;
use super::site::Site;
use super::visitor::Visitor;
use super::words;

/// How many of the last batches can be chosen.
const CHOICES: &str = "100";

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new().route("/compare", get(compare))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Pair {
    a: String,
    b: String,
}

impl Pair {
    fn query(&self) -> String {
        query(&[("a", &self.a), ("b", &self.b)])
    }

    fn swapped(&self) -> String {
        format!("/compare{}", query(&[("a", &self.b), ("b", &self.a)]))
    }

    /// Ids of batches and of scores are UUIDs; hashes aren't.
    fn ids(&self) -> Option<(Uuid, Uuid)> {
        let id = |text: &str| Uuid::try_parse(text.trim()).ok();
        Some((id(&self.a)?, id(&self.b)?))
    }
}

async fn compare(State(site): State<Site>, visitor: Visitor, Query(pair): Query<Pair>) -> Page {
    if pair.a.is_empty() || pair.b.is_empty() {
        return choose(&site, visitor, pair).await;
    }
    let Some((a, _)) = pair.ids() else {
        return criteria(&site, visitor, pair).await;
    };
    let batch = format!("/api/v1/batches/{a}");
    match site.door.find::<Batch>(&visitor.caller, &batch).await? {
        Some(_) => batches(&site, visitor, pair).await,
        None => scores(&site, visitor, pair).await,
    }
}

/// Something that can be chosen.
struct Choice {
    value: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Criteria {
    items: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    criteria_hash: String,
    kind: String,
    is_current: bool,
    scores: i64,
}

#[derive(Template)]
#[template(path = "compare_choose.html")]
struct ChoosePage {
    frame: Frame,
    pair: Pair,
    batches: Vec<Choice>,
    criteria: Vec<Choice>,
}

async fn choose(site: &Site, visitor: Visitor, pair: Pair) -> Page {
    let recent = format!("/api/v1/batches?limit={CHOICES}");
    let (recent, versions) = tokio::try_join!(
        site.door.get::<List>(&visitor.caller, &recent),
        site.door
            .get::<Criteria>(&visitor.caller, "/api/v1/scoring/criteria"),
    )?;
    let now = site.about.clock.now();
    let batch = |batch: Batch| Choice {
        value: batch.batch_id.to_string(),
        text: format!(
            "{} · {} · {} · {}",
            batch.title(),
            batch.kind_word(),
            batch.done(),
            words::moment(batch.times.created_at, now).ago
        ),
    };
    let version = |version: Version| Choice {
        text: format!(
            "{}{} · {}",
            words::short(&version.criteria_hash),
            if version.is_current { " (current)" } else { "" },
            words::counted(version.scores, "score")
        ),
        value: version.criteria_hash,
    };
    let cases = recent.items.into_iter().filter(|b| b.kind != "session");
    let versions = versions.items.into_iter().filter(|v| v.kind == "session");
    html(&ChoosePage {
        batches: cases.map(batch).collect(),
        criteria: versions.map(version).collect(),
        frame: Frame::of(site, visitor, "Batches", "Compare").await,
        pair,
    })
}

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

/// A figure of both sides.
struct Row {
    name: String,
    a: String,
    b: String,
    difference: String,
    class: &'static str,
    n: String,
}

/// Better is up, whatever the colour says.
fn class(difference: f64) -> &'static str {
    match words::points(difference).chars().next() {
        Some('+') => "up",
        Some('−') => "down",
        Some(_) | None => "",
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

async fn batches(site: &Site, visitor: Visitor, pair: Pair) -> Page {
    let door = &site.door;
    let path = format!("/api/v1/batches/compare{}", pair.query());
    let of = |id: &str| format!("/api/v1/batches/{}", super::form::segment(id.trim()));
    let (a, b) = (of(&pair.a), of(&pair.b));
    let (a, b, found) = tokio::try_join!(
        door.get::<Batch>(&visitor.caller, &a),
        door.get::<Batch>(&visitor.caller, &b),
        door.get::<BatchComparison>(&visitor.caller, &path),
    )?;
    let title = format!(
        "{} broke, {} mended · Compare",
        found.pass_to_fail.count, found.fail_to_pass.count
    );
    let frame = Frame::of(site, visitor, "Batches", title).await;
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
            n: found.n.to_string(),
        }];
        rows.extend(found.parts.iter().map(|part| Row {
            name: part.title.clone(),
            a: words::percent(part.mean_a),
            b: words::percent(part.mean_b),
            difference: words::points(100.0 * part.difference),
            class: class(100.0 * part.difference),
            n: part.n.to_string(),
        }));
        let interval = match (found.low, found.high) {
            (Some(low), Some(high)) => format!(
                "The difference of the means lies between {} and {} points (95 %).",
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

/// Two versions of the criteria as the API compares them.
#[derive(Debug, Deserialize)]
struct CriteriaComparison {
    a: String,
    b: String,
    n: u64,
    only_a: u64,
    only_b: u64,
    mean_a: Option<f64>,
    mean_b: Option<f64>,
    mean_difference: Option<Difference>,
    kendall_tau_b: Option<f64>,
    ratings: Table,
    changed: Option<f64>,
    movers: Vec<Mover>,
    simulated: bool,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Difference {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Table {
    labels: Vec<String>,
    table: Vec<Vec<u64>>,
}

#[derive(Debug, Deserialize)]
struct Mover {
    session_id: Uuid,
    a: u8,
    b: u8,
    difference: i16,
}

#[derive(Debug, Deserialize)]
struct Diff {
    parts: Vec<DiffPart>,
}

#[derive(Debug, Deserialize)]
struct DiffPart {
    part: String,
    diff: String,
}

impl Mover {
    /// Both totals with their words and colours.
    fn sides(&self) -> [(u8, &'static str, &'static str); 2] {
        [self.a, self.b].map(|total| {
            let (word, colour) = words::rating(total);
            (total, word, colour)
        })
    }

    fn points(&self) -> String {
        words::points(self.difference.into())
    }
}

#[derive(Template)]
#[template(path = "compare_criteria.html")]
struct CriteriaPage {
    frame: Frame,
    pair: Pair,
    found: CriteriaComparison,
    diff: Diff,
}

impl CriteriaPage {
    fn one(value: Option<f64>) -> String {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
    }

    fn two(value: Option<f64>) -> String {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
    }

    fn difference(&self) -> String {
        let Some(difference) = &self.found.mean_difference else {
            return "–".to_owned();
        };
        let value = words::points(difference.value);
        match (difference.low, difference.high) {
            (Some(low), Some(high)) => {
                format!(
                    "{value} ({} to {})",
                    words::points(low),
                    words::points(high)
                )
            }
            _ => value,
        }
    }

    /// Rows of the table of ratings, each with its word; those that stayed are marked, and those that moved.
    fn ratings(&self) -> Vec<(String, Vec<(u64, &'static str)>)> {
        let Table { labels, table } = &self.found.ratings;
        let rows = labels.iter().zip(table).enumerate();
        rows.map(|(at, (word, counts))| {
            let class = |(to, count): (usize, &u64)| match *count {
                count if to == at => (count, "hit"),
                0 => (0, ""),
                count => (count, "shade-1"),
            };
            let counts = counts.iter().enumerate().map(class);
            (word.replace('_', " "), counts.collect())
        })
        .collect()
    }
}

async fn criteria(site: &Site, visitor: Visitor, pair: Pair) -> Page {
    let compared = format!("/api/v1/scoring/criteria/compare{}", pair.query());
    let diff = format!("/api/v1/scoring/criteria/diff{}", pair.query());
    let (found, diff) = tokio::try_join!(
        site.door
            .get::<CriteriaComparison>(&visitor.caller, &compared),
        site.door.get::<Diff>(&visitor.caller, &diff),
    )?;
    let frame = Frame::of(site, visitor, "Criteria", "Compare criteria").await;
    html(&CriteriaPage {
        frame,
        pair,
        found,
        diff,
    })
}

#[derive(Template)]
#[template(path = "compare_scores.html")]
struct ScoresPage {
    frame: Frame,
    pair: Pair,
    a: Score,
    b: Score,
    rows: Vec<Row>,
}

impl ScoresPage {
    fn sides(&self) -> [(&'static str, &Score, Badge); 2] {
        [
            ("Before", &self.a, self.a.badge()),
            ("After", &self.b, self.b.badge()),
        ]
    }
}

async fn scores(site: &Site, visitor: Visitor, pair: Pair) -> Page {
    let read = async |id: &str| -> Result<Score, Fault> {
        let path = format!("/api/v1/scores/{}", super::form::segment(id.trim()));
        Ok(site.door.get::<Score>(&visitor.caller, &path).await?)
    };
    let (a, b) = (read(&pair.a).await?, read(&pair.b).await?);
    let frame = Frame::of(site, visitor, "Sessions", "Compare scores").await;
    html(&ScoresPage {
        rows: score_rows(&a, &b),
        frame,
        pair,
        a,
        b,
    })
}

/// The total, then every dimension that either has.
fn score_rows(a: &Score, b: &Score) -> Vec<Row> {
    let row = |name: &str, a: Option<f64>, b: Option<f64>| {
        let difference = a.zip(b).map(|(a, b)| b - a);
        let text = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| v.to_string());
        Row {
            name: name.replace('_', " "),
            a: text(a),
            b: text(b),
            difference: difference.map_or_else(|| "–".to_owned(), words::points),
            class: difference.map_or("", class),
            n: String::new(),
        }
    };
    let of = |score: &Score, name: &str| {
        let part = score.parts.iter().find(|part| part.name == name);
        part.map(|part| part.points)
    };
    let total = (f64::from(a.total), f64::from(b.total));
    let mut rows = vec![row("Total", Some(total.0), Some(total.1))];
    let more = b.parts.iter().filter(|part| of(a, &part.name).is_none());
    let parts = a.parts.iter().chain(more);
    rows.extend(parts.map(|part| row(&part.name, of(a, &part.name), of(b, &part.name))));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::batches::tests::batch;
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
            "lost_score": turned(&[]), "gained_score": turned(&[]), "only_a": 0, "only_b": 1, "n": 9, "mean_a": 0.9, "mean_b": 0.85,
            "difference": -0.05, "low": -0.1, "high": 0.0, "warnings": ["w"],
            "parts": [{"name": "schema_match", "title": "Schema", "n": 9, "mean_a": 1.0, "mean_b": 0.9, "difference": -0.1}]});
        let batches = (batch(&json!({})), batch(&json!({"name": "other"})));
        let found = serde_json::from_value(found).unwrap();
        let page = BatchesPage::of(Frame::bare(), pair(), batches, found);
        let text = page.render().unwrap();
        assert!(text.find("Passed before").unwrap() < text.find("Schema").unwrap());
        for part in ["95%", "20%", "−5", "−10", "items/2"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<script>"), "{text}");
    }

    fn score(total: u8, parts: &Value) -> Score {
        serde_json::from_value(json!({"score_id": Uuid::nil(), "session_id": Uuid::nil(), "job_id": Uuid::nil(),
            "total_score": total, "score_breakdown": parts, "score_reasoning": "r", "missing_tools": [],
            "alternative_approaches": [], "flags": [], "criteria_hash": "c".repeat(64), "is_current_criteria": true,
            "judge": {"provider": "p", "model": "m"}, "simulated": false, "scored_triggered_by": "ann",
            "scored_at": "2026-11-22T12:00:00Z", "usage": {"tokens_in": 1, "tokens_out": 1, "cost_usd": null}}))
        .unwrap()
    }

    #[test]
    fn scores_are_compared_by_each_dimension_that_either_has() {
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

    #[test]
    fn only_two_ids_are_ids() {
        let id = Uuid::nil().to_string();
        let pair = |a: &str, b: &str| Pair {
            a: a.to_owned(),
            b: b.to_owned(),
        };
        assert!(pair(&id, &id).ids().is_some());
        assert!(pair(&id, "current").ids().is_none());
        assert!(pair(&"a".repeat(64), &id).ids().is_none());
    }
}
