//! `/batches/{id}/items/{n}`: one case with its question, the expected and the generated answer, result rows, partial scores and the
//! judge's reasons.

use askama::Template;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::batch_items;
use super::batches::BatchView as _;
use super::frame::Frame;
use super::item_diff::{Sides, sides};
use super::item_rows::ResultRows;
use super::markdown;
use super::page::found;
use super::page::{Page, html, redirect};
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::{Path, batches, jobs};
use crate::job::Kind;
use crate::score::about;
use crate::wire::{Batch, BatchItem, BatchItemDetail, Call, ItemOutcome, ItemPart, JobResult};

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/batches/{id}/items/{item_no}", get(item))
}

struct Bar {
    title: String,
    score: String,
    width: f64,
    weight: String,
    words: String,
}

/// Names of matched, missing and additional columns.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Columns {
    matched: Vec<String>,
    missing: Vec<String>,
    extra: Vec<String>,
}

#[derive(Template)]
#[template(path = "batch_item.html")]
struct ItemPage {
    frame: Frame,
    batch: Batch,
    item: BatchItem,
    prompt: String,
    sign: (&'static str, &'static str, &'static str),
    total: String,
    sides: Option<Sides>,
    columns: Columns,
    rows: Option<ResultRows>,
    bars: Vec<Bar>,
    reasoning: Option<String>,
    calls: Vec<Call>,
    payload: String,
    cost: String,
    previous: Option<i64>,
    next: Option<i64>,
}

async fn item(
    State(state): State<PageState>,
    user: SessionUser,
    Path((id, item_no)): Path<(Uuid, u32)>,
) -> Page {
    let api = state.api(&user)?;
    let (batch, Json(detail)) = tokio::try_join!(
        batches::read(api.clone(), Path(id)),
        batches::items::get_item(api.clone(), Path((id, item_no)))
    )?;
    if let Some(session) = detail.item.job.subject_id {
        return redirect(
            user.fragment,
            &batch_items::session_page(session, &detail.item.job),
        );
    }
    let calls = found(jobs::read_with_calls(&api, detail.item.job.job_id).await)?;
    let item = &detail.item;
    let (_, _, word) = batch_items::sign(item.outcome);
    let title = format!("{word} · {} · {}", item.name, batch.title());
    let moves = item.outcome == ItemOutcome::Open;
    let frame = Frame::load(&state, user, "Batches", title).await;
    let calls = calls.and_then(|job| job.calls).unwrap_or_default();
    html(&ItemPage::new(frame.moving(moves), batch, detail, calls))
}

impl ItemPage {
    fn has_weights(&self) -> bool {
        self.bars.iter().any(|bar| !bar.weight.is_empty())
    }

    /// The judge's name. `None` for the simulated judge, because a badge next to it already marks it.
    fn judge(&self) -> Option<&str> {
        let job = &self.item.job;
        let judge = job.judge.as_deref();
        judge.filter(|name| !(job.simulated && *name == "simulated"))
    }

    fn new(frame: Frame, batch: Batch, detail: BatchItemDetail, calls: Vec<Call>) -> Self {
        let BatchItemDetail { item, payload } = detail;
        let fields = about(batch.kind).sides;
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let sides = match (text(fields.expected), text(fields.generated)) {
            (None, None) => None,
            (expected, generated) => Some(sides(
                expected.unwrap_or_default(),
                generated.unwrap_or_default(),
            )),
        };
        let result = match &item.job.result {
            Some(JobResult::Kept(result)) => Some(result),
            Some(JobResult::Session(_)) | None => None,
        };
        Self {
            frame,
            sign: batch_items::sign(item.outcome),
            total: item.total.map_or_else(String::new, words::percent),
            sides,
            columns: columns(batch.kind, result),
            rows: ResultRows::new(
                payload.get(fields.expected_rows),
                payload.get(fields.generated_rows),
            ),
            bars: item
                .parts
                .iter()
                .map(|part| bar(part, batch.kind, result))
                .collect(),
            reasoning: item
                .reasoning
                .as_deref()
                .map(|text| markdown::render(text, None)),
            calls,
            payload: serde_json::to_string_pretty(&payload).unwrap_or_default(),
            cost: words::usd(item.job.usage.cost_usd),
            previous: (item.item_no > 0).then(|| item.item_no - 1),
            next: (item.item_no + 1 < batch.progress.total).then(|| item.item_no + 1),
            prompt: text("prompt")
                .or(text("question"))
                .unwrap_or_default()
                .to_owned(),
            batch,
            item,
        }
    }
}

fn bar(part: &ItemPart, kind: Kind, result: Option<&Value>) -> Bar {
    let component = about(kind).component(&part.name);
    let weight = component.and_then(|component| component.weight(result));
    // The judge's reasons have a separate section.
    let gives_reasons = component.is_some_and(|component| component.gives_reasons());
    Bar {
        title: part.title.clone(),
        score: part
            .score
            .map_or_else(|| "no score".to_owned(), words::percent),
        width: part
            .score
            .map_or(0.0, |score| (100.0 * score).clamp(0.0, 100.0)),
        weight: weight.map_or_else(String::new, words::percent),
        words: part
            .words
            .clone()
            .filter(|_| !gives_reasons)
            .unwrap_or_default(),
    }
}

fn columns(kind: Kind, result: Option<&Value>) -> Columns {
    let compared = about(kind).columns_in(result);
    let columns = compared.map(Columns::deserialize).and_then(Result::ok);
    columns.unwrap_or_default()
}

impl Columns {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch_items::tests::item;
    use super::super::batches::tests::batch;
    use super::*;
    use serde_json::json;

    fn page(payload: &Value) -> String {
        let mut answer =
            item(&json!({"name": "<script>n</script>", "reasoning": "a <script>r</script>"}));
        answer["job"]["result"] = json!({"components": {"schema_match": {"score": 1.0, "weight": 0.25,
            "details": {"matched": ["a"], "missing": ["<b>"], "extra": []}}}});
        let call = crate::tests::call(&json!({"reply": "<script>c"}));
        let page = ItemPage::new(
            Frame::bare(),
            batch(&json!({"name": "<script>b</script>"})),
            BatchItemDetail {
                item: serde_json::from_value(answer).unwrap(),
                payload: payload.clone(),
            },
            vec![serde_json::from_value(call).unwrap()],
        );
        page.render().unwrap()
    }

    #[test]
    fn renders_a_case_with_diff_and_rows() {
        let text = page(
            &json!({"prompt": "Errors?", "generated_kql": "T | take 2", "expected_kql": "T | take 1",
            "generated_results": [{"a": 1}], "expected_results": [{"a": 1}, {"a": 2}]}),
        );
        for part in [
            "<del>1</del>",
            "<ins>2</ins>",
            "Errors?",
            "25%",
            "50%",
            "Schema",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn simulated_judge_is_labelled_once() {
        for (name, told) in [("simulated", 0), ("rehearsal", 1)] {
            let mut answer = item(&json!({}));
            answer["job"]["judge"] = name.into();
            answer["job"]["simulated"] = true.into();
            let detail = BatchItemDetail {
                item: serde_json::from_value(answer).unwrap(),
                payload: json!({}),
            };
            let page = ItemPage::new(Frame::bare(), batch(&json!({})), detail, Vec::new());
            let text = page.render().unwrap();
            assert_eq!(text.matches(&format!("· {name}")).count(), told, "{text}");
            assert_eq!(text.matches(">simulated</span>").count(), 1, "{text}");
        }
    }

    #[test]
    fn case_content_is_escaped() {
        let bad = "<script>alert(1)</script>";
        let text = page(
            &json!({"prompt": bad, "generated_kql": bad, "expected_kql": "x", "generated_results": [{bad: bad}],
            "expected_results": [[bad]], "more": bad}),
        );
        assert_eq!(
            text.matches("<script").count(),
            text.matches("<script src=\"/assets/").count(),
            "{text}"
        );
        assert!(
            !text.contains("<b>&lt;") && text.contains("&#60;b&#62;"),
            "{text}"
        );
    }

    #[test]
    fn renders_payloads_of_unknown_shape() {
        for payload in [
            json!(null),
            json!([1]),
            json!({"generated_results": 5, "expected_results": "x"}),
        ] {
            assert!(page(&payload).contains(">Payload<"));
        }
    }
}
