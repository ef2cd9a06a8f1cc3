//! `/rescore`: score what a filter finds again, or under other criteria. Always plans first: how many, what it costs, how long; then
//! asks, then does it.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::form::Form;
use super::frame::Frame;
use super::page::{Fault, Page, go, html, is_mendable, refusal, with_status};
use super::site::Site;
use super::visitor::Visitor;
use super::words;
use crate::api::Problem;

/// The filter's fields that are text to the API.
const TEXTS: [&str; 9] = [
    "q",
    "status",
    "scored",
    "rating",
    "criteria",
    "tag",
    "agent",
    "alert_type",
    "missing_tool",
];

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/rescore", get(ask).post(plan))
        .route("/rescore/go", axum::routing::post(start))
}

#[derive(Template)]
#[template(path = "rescore.html")]
struct Ask {
    frame: Frame,
    fields: Vec<(String, String)>,
    with: String,
    /// What was filled in.
    filled: Vec<(String, String)>,
    /// Why it wasn't taken, HTML.
    refused: String,
}

impl Ask {
    /// What a field was filled in with.
    fn filled(&self, name: &str) -> &str {
        let found = self.filled.iter().find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Asks what to score, starting from the list's filters.
async fn ask(
    State(site): State<Site>,
    visitor: Visitor,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Page {
    html(&asking(&site, visitor, pairs, String::new()).await)
}

async fn asking(
    site: &Site,
    visitor: Visitor,
    pairs: Vec<(String, String)>,
    refused: String,
) -> Ask {
    let with = pairs.iter().find(|(name, _)| name == "with");
    let with = with.map_or_else(String::new, |(_, hash)| hash.clone());
    let (fields, filled): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(name, _)| is_filter(name));
    Ask {
        frame: Frame::of(site, visitor, "Sessions", "Score many sessions").await,
        fields: fields
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect(),
        with,
        filled,
        refused,
    }
}

/// The form again with what was filled in, if that is what was wrong; else the problem.
async fn refuse(site: &Site, form: Form, fault: Fault) -> Page {
    let problem = fault.problem();
    if form.visitor.piece || !is_mendable(problem) {
        return Err(fault);
    }
    let note = refusal(problem);
    let filled = form.rest();
    let page = asking(site, form.visitor, filled, note).await;
    with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

fn is_filter(name: &str) -> bool {
    TEXTS.contains(&name) || matches!(name, "min_score" | "max_score" | "from" | "to" | "ids")
}

#[derive(Debug, Deserialize)]
struct Plan {
    criteria_hash: String,
    matching: i64,
    to_score: i64,
    items: i64,
    skipped: Map<String, Value>,
    judges: Vec<Planned>,
    tokens_in: Range,
    tokens_out: Range,
    cost_usd: Option<Cost>,
    duration_s: Option<f64>,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Planned {
    judge: String,
}

#[derive(Debug, Deserialize)]
struct Range {
    expected: i64,
}

#[derive(Debug, Deserialize)]
struct Cost {
    low: f64,
    expected: f64,
    high: f64,
}

/// A plan, to be confirmed.
#[derive(Template)]
#[template(path = "rescore_plan.html")]
struct PlanPage {
    frame: Frame,
    fields: Vec<(String, String)>,
    short: String,
    matching: String,
    to_score: i64,
    items: String,
    skipped: Vec<(String, String)>,
    judges: String,
    tokens: String,
    cost: String,
    took: String,
    warnings: Vec<String>,
    key: String,
}

async fn plan(State(site): State<Site>, form: Form) -> Page {
    let plan = match planned(&site, &form).await {
        Ok(plan) => plan,
        Err(fault) => return refuse(&site, form, fault).await,
    };
    let skipped = plan.skipped.iter().filter_map(|(name, n)| {
        let n = n.as_i64().filter(|n| *n > 0)?;
        Some((name.replace('_', " "), words::grouped(n)))
    });
    let fields = pinned(&form, &plan);
    html(&PlanPage {
        fields,
        short: words::short(&plan.criteria_hash).to_owned(),
        matching: words::grouped(plan.matching),
        to_score: plan.to_score,
        items: words::grouped(plan.items),
        skipped: skipped.collect(),
        judges: plan
            .judges
            .iter()
            .map(|j| j.judge.as_str())
            .collect::<Vec<_>>()
            .join(", "),
        tokens: format!(
            "about {} in, {} out",
            words::grouped(plan.tokens_in.expected),
            words::grouped(plan.tokens_out.expected)
        ),
        cost: plan.cost_usd.map_or_else(
            || "not known: the judge's model has no price".to_owned(),
            |cost| {
                let [low, expected, high] =
                    [cost.low, cost.expected, cost.high].map(|usd| words::usd(Some(usd)));
                format!("about {expected} ({low} to {high})")
            },
        ),
        took: plan
            .duration_s
            .map_or_else(|| "not known yet".to_owned(), lasting),
        warnings: plan.warnings,
        key: Uuid::new_v4().to_string(),
        frame: Frame::of(&site, form.visitor, "Sessions", "Score many sessions").await,
    })
}

async fn planned(site: &Site, form: &Form) -> Result<Plan, Fault> {
    let mut body = request(form)?;
    body["dry_run"] = true.into();
    let caller = &form.visitor.caller;
    let done = site.door.post(caller, "/api/v1/rescore", None, &body);
    Ok(done.await?.json()?)
}

/// What was filled in, with the criteria and the count of the plan: what runs is what was shown, whatever has come since.
fn pinned(form: &Form, plan: &Plan) -> Vec<(String, String)> {
    let mut fields = form.rest();
    fields.retain(|(name, _)| !matches!(name.as_str(), "with" | "max"));
    fields.push(("with".to_owned(), plan.criteria_hash.clone()));
    fields.push(("max".to_owned(), plan.to_score.to_string()));
    fields
}

#[derive(Debug, Deserialize)]
struct Batch {
    batch_id: Uuid,
}

async fn start(State(site): State<Site>, form: Form) -> Page {
    let body = request(&form)?;
    let door = &site.door;
    let caller = &form.visitor.caller;
    let done = door
        .post(caller, "/api/v1/rescore", form.key(), &body)
        .await?;
    let batch: Batch = done.json()?;
    go(form.visitor.piece, &format!("/batches/{}", batch.batch_id))
}

/// What the form asks of POST `/api/v1/rescore`.
fn request(form: &Form) -> Result<Value, Fault> {
    let mut filter = Map::new();
    for name in TEXTS {
        if let Some(text) = form.text(name) {
            filter.insert(name.to_owned(), text.into());
        }
    }
    if let Some(ids) = form.text("ids") {
        let ids: Vec<&str> = ids.split(',').map(str::trim).collect();
        filter.insert("ids".to_owned(), ids.into());
    }
    for name in ["min_score", "max_score"] {
        if let Some(n) = form.read::<u64>(name, "a whole number from 0 to 100")? {
            filter.insert(name.to_owned(), n.into());
        }
    }
    for name in ["from", "to"] {
        if let Some(day) = form.text(name) {
            let at = if day.len() == 10 {
                format!("{day}T00:00:00Z")
            } else {
                day.to_owned()
            };
            filter.insert(name.to_owned(), at.into());
        }
    }
    let mut body = json!({"filter": filter, "force_rescore": form.ticked("force")});
    for (field, name) in [
        ("with", "criteria_hash"),
        ("name", "name"),
        ("purpose", "purpose"),
    ] {
        if let Some(text) = form.text(field) {
            body[name] = text.into();
        }
    }
    if let Some(max) = form.read::<u64>("max", "a whole number above 0")? {
        body["max"] = max.into();
    }
    if let Some(n) = form.read::<u64>("sample", "a whole number above 0")? {
        body["sample"] = json!({"size": n});
    }
    if let Some(budget) = form.read::<f64>("budget_usd", "an amount of USD such as 12.50")? {
        if budget <= 0.0 {
            let fault = Problem::of_field("budget_usd", "must be above 0; leave it empty for none");
            return Err(Box::new(fault).into());
        }
        body["budget_usd"] = budget.into();
    }
    Ok(body)
}

/// A duration for people.
fn lasting(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("about {s:.0} s"),
        s if s < 5_400.0 => format!("about {:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("about {:.1} h", s / 3_600.0),
        s => format!("about {:.1} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_in_their_own_units() {
        for (seconds, text) in [
            (12.0, "about 12 s"),
            (600.0, "about 10 min"),
            (9_000.0, "about 2.5 h"),
            (432_000.0, "about 5.0 days"),
        ] {
            assert_eq!(lasting(seconds), text);
        }
    }
}
