//! POST `/api/v1/rescore`: requests the scores of a backlog, or its plan.

use std::collections::BTreeSet;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::batches::body::{check_budget, check_name};
use crate::api::batches::{accepted, view};
use crate::api::criteria::named::{beginning, wanted};
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::params::NoQuery;
use crate::api::http::problem::ApiError;
use crate::enqueue::Rescore;
use crate::job::{Force, Priority, Purpose};
use crate::store::SessionFilter;
use crate::wire::{Batch, RequestFault, RescoreFilter, RescorePlan, RescoreRequest};

const MAX_IDS: usize = 100_000;
const MAX_SAMPLE: u64 = 100_000;
const ALLOWED_REPEATS: std::ops::RangeInclusive<u32> = 2..=20;
const ALLOWED_JURY_SIZES: std::ops::RangeInclusive<usize> = 2..=9;

pub(crate) const RESCORE: &str = "/api/v1/rescore";

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(post_rescore))
}

/// Requests the scores of the sessions that match a filter.
///
/// The response is a batch. It expands in steps while its items run, and continues after a restart. Sessions that are
/// being scored are skipped and listed. Sessions with a score by these criteria are skipped and counted. With `dry_run`
/// the response is the plan: sessions, tokens, cost and time; no batch is stored.
#[utoipa::path(
    post, path = RESCORE, tag = "batches",
    request_body(content = RescoreRequest, example = json!({
        "name": "spring", "filter": {"criteria": "not_current", "alert_type": "PodCrashLooping"}, "dry_run": true})),
    responses(
        (status = 200, description = "`dry_run`: the estimate of the batch", body = RescorePlan),
        (status = 202, description = "The batch", body = Batch, headers(
            ("Location" = String, description = "The batch"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 503, description = "judge-not-configured, scoring-disabled, database-unavailable"),
    ),
)]
async fn post_rescore(
    api: Authorized,
    _: NoQuery,
    ApiJson(body): ApiJson<RescoreRequest>,
) -> Result<Response, ApiError> {
    Ok(match body.dry_run {
        true => Json(plan(api, body).await?).into_response(),
        false => accepted(begin(api, body).await?),
    })
}

/// Returns the plan. Ignores `dry_run`.
pub(crate) async fn plan(api: Authorized, body: RescoreRequest) -> Result<RescorePlan, ApiError> {
    let request = read(&api, body).await?;
    let plan = api.enqueue.plan_rescore(&request).await;
    plan.map_err(|error| ApiError::from(error))
}

/// Stores the batch. Ignores `dry_run`.
pub(crate) async fn begin(api: Authorized, body: RescoreRequest) -> Result<Batch, ApiError> {
    let request = read(&api, body).await?;
    let batch = api.enqueue.rescore(request).await;
    let batch = batch.map_err(|error| ApiError::from(error))?;
    Ok(view::load(&api, batch).await?)
}

/// Checks a body. Returns all errors at once, except for criteria, name and budget.
async fn read(api: &Authorized, mut body: RescoreRequest) -> Result<Rescore, ApiError> {
    body.criteria_hash = wanted(api, body.criteria_hash).await?;
    if let Some(text) = body.filter.criteria.take() {
        body.filter.criteria = Some(beginning(api, "/filter/criteria", text).await?);
    }
    let current = api.enqueue.current_criteria();
    check_name(body.name.as_deref())?;
    check_budget(body.budget_usd)?;
    let mut faults = BodyErrors(Vec::new());
    let purpose = body.purpose.unwrap_or(Purpose::Score);
    faults.check(
        body.max != Some(0),
        "/max",
        "must be at least 1, or omitted",
    );
    if let Some(sample) = body.sample {
        let size = (1..=MAX_SAMPLE).contains(&sample.size);
        faults.check(size, "/sample/size", "must be 1-100000");
    }
    let repeats = repeats(body.repeats, purpose, &mut faults);
    let judges = jury(body.judges, purpose, &mut faults);
    let filter = filter(body.filter, &current.hash.0, &mut faults);
    if body.economy {
        check_batch_endpoint(body.priority, body.budget_usd, purpose, &mut faults);
    }
    faults.finish()?;
    Ok(Rescore {
        name: body.name,
        filter,
        criteria_hash: body.criteria_hash,
        purpose,
        force: Force::from_flag(body.force_rescore),
        max: body.max,
        budget_usd: body.budget_usd,
        priority: body.priority.unwrap_or(Priority::Bulk),
        sample: body.sample,
        repeats,
        judges,
        economy: body.economy,
        triggered_by: api.caller.requester()?,
        new_id: api.keyed_id.new_id(),
    })
}

/// Checks for options that are incompatible with the batch endpoint.
fn check_batch_endpoint(
    priority: Option<Priority>,
    budget_usd: Option<f64>,
    purpose: Purpose,
    faults: &mut BodyErrors,
) {
    let waits = priority != Some(Priority::Interactive);
    let message = "may need a day: omit it, or the priority interactive";
    faults.check(waits, "/economy", message);
    let message = "submits thousands of questions at once, which no budget can stop: omit one of them, and check the cost with a dry run";
    faults.check(budget_usd.is_none(), "/economy", message);
    let message = "is not for purpose jury: create a separate batch per judge";
    faults.check(purpose != Purpose::Jury, "/economy", message);
}

fn repeats(repeats: Option<u32>, purpose: Purpose, faults: &mut BodyErrors) -> u32 {
    match (repeats, purpose) {
        (Some(repeats), Purpose::Repeat) => {
            let fits = ALLOWED_REPEATS.contains(&repeats);
            faults.check(fits, "/repeats", "must be 2-20");
            repeats
        }
        (None, Purpose::Repeat) => {
            faults.add(
                "/repeats",
                "is missing: set the number of runs per session, 2-20",
            );
            1
        }
        (Some(_), Purpose::Score | Purpose::Preview | Purpose::Jury) => {
            faults.add(
                "/repeats",
                "is for purpose repeat: omit it, or set that purpose",
            );
            1
        }
        (None, Purpose::Score | Purpose::Preview | Purpose::Jury) => 1,
    }
}

fn jury(judges: Option<Vec<String>>, purpose: Purpose, faults: &mut BodyErrors) -> Vec<String> {
    match (judges, purpose) {
        (Some(judges), Purpose::Jury) => {
            let fits = ALLOWED_JURY_SIZES.contains(&judges.len());
            faults.check(fits, "/judges", "must name 2-9 judges");
            let mut seen = BTreeSet::new();
            for (place, judge) in judges.iter().enumerate() {
                if !seen.insert(judge) {
                    let message = format!("names {judge:?} again: each judge has one vote");
                    faults.add(&format!("/judges/{place}"), &message);
                }
            }
            judges
        }
        (None, Purpose::Jury) => {
            faults.add(
                "/judges",
                "is missing: name 2-9 of the judges that are set up",
            );
            Vec::new()
        }
        (Some(_), Purpose::Score | Purpose::Preview | Purpose::Repeat) => {
            faults.add(
                "/judges",
                "is for purpose jury: omit it, or set that purpose",
            );
            Vec::new()
        }
        (None, Purpose::Score | Purpose::Preview | Purpose::Repeat) => Vec::new(),
    }
}

fn filter(words: RescoreFilter, current: &str, faults: &mut BodyErrors) -> SessionFilter {
    for (name, score) in [
        ("min_score", words.min_score),
        ("max_score", words.max_score),
    ] {
        let fits = score.is_none_or(|score| score <= 100);
        faults.check(fits, &format!("/filter/{name}"), "must be 0-100");
    }
    let between = words.min_score.zip(words.max_score);
    let fits = between.is_none_or(|(least, most)| least <= most);
    faults.check(fits, "/filter/min_score", "must not be more than max_score");
    let between = words.from.zip(words.to);
    let fits = between.is_none_or(|(from, to)| from <= to);
    faults.check(fits, "/filter/from", "must not be later than to");
    let criteria = text(words.criteria, "criteria", faults);
    let (criteria_hash, criteria_not) = match criteria.as_deref() {
        None => (None, None),
        Some("current") => (Some(current.to_owned()), None),
        Some("not_current") => (None, Some(current.to_owned())),
        Some(hash) => {
            let fits = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
            let message =
                "must be not_current, current, or a hash of 64 hex digits, at least its first 8";
            faults.check(fits, "/filter/criteria", message);
            (Some(hash.to_ascii_lowercase()), None)
        }
    };
    SessionFilter {
        q: text(words.q, "q", faults),
        status: words.status,
        scored: words.scored,
        rating: words.rating,
        min_score: words.min_score,
        max_score: words.max_score,
        criteria_hash,
        criteria_not,
        missing_tool: text(words.missing_tool, "missing_tool", faults),
        tag: text(words.tag, "tag", faults),
        agent: text(words.agent, "agent", faults),
        alert_type: text(words.alert_type, "alert_type", faults),
        rated: words.rated,
        from: words.from,
        to: words.to,
        ids: ids(words.ids, faults),
    }
}

/// Returns a text of the filter. Empty counts as absent, as in a query.
fn text(word: Option<String>, name: &str, faults: &mut BodyErrors) -> Option<String> {
    let word = word.filter(|word| !word.is_empty())?;
    let fits = !word.chars().any(char::is_control);
    faults.check(
        fits,
        &format!("/filter/{name}"),
        "contains control characters",
    );
    Some(word)
}

fn ids(ids: Option<Vec<Uuid>>, faults: &mut BodyErrors) -> Vec<Uuid> {
    let Some(mut ids) = ids else {
        return Vec::new();
    };
    if ids.is_empty() {
        let message =
            "names no session: name at least one, or omit it to select by the other filters";
        faults.add("/filter/ids", message);
    }
    if ids.len() > MAX_IDS {
        let message = format!("names {} sessions; at most {MAX_IDS}", ids.len());
        faults.add("/filter/ids", &message);
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}

struct BodyErrors(Vec<RequestFault>);

impl BodyErrors {
    fn add(&mut self, pointer: &str, message: &str) {
        self.0.push(RequestFault {
            pointer: pointer.to_owned(),
            message: message.to_owned(),
        });
    }

    fn check(&mut self, fits: bool, pointer: &str, message: &str) {
        if !fits {
            self.add(pointer, message);
        }
    }

    fn finish(self) -> Result<(), ApiError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(ApiError::Invalid(self.0))
    }
}
