//! POST `/api/v1/rescore`: requests the scores of a backlog, or its plan.

use std::collections::BTreeSet;

use axum::Json;
use axum::response::{IntoResponse as _, Response};

use crate::api::batches::body::{check_budget, check_name};
use crate::api::batches::{accepted, view};
use crate::api::criteria::named::{resolve, wanted};
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::problem::ApiError;
use crate::enqueue::Rescore;
use crate::job::{Force, Priority, Purpose};
use crate::wire::{Batch, RequestFault, RescorePlan, RescoreRequest};

const MAX_SAMPLE: u64 = 100_000;
const ALLOWED_REPEATS: std::ops::RangeInclusive<u32> = 2..=20;
const ALLOWED_JURY_SIZES: std::ops::RangeInclusive<usize> = 2..=9;

pub(crate) const RESCORE: &str = "/api/v1/rescore";

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
pub(crate) async fn post_rescore(
    api: Authorized,
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
    Ok(api.enqueue.plan_rescore(&request).await?)
}

/// Stores the batch. Ignores `dry_run`.
pub(crate) async fn begin(api: Authorized, body: RescoreRequest) -> Result<Batch, ApiError> {
    let request = read(&api, body).await?;
    let batch = api.enqueue.rescore(request).await?;
    Ok(view::load(&api, batch).await?)
}

/// Checks a body. Returns all errors at once, except for criteria, name and budget.
async fn read(api: &Authorized, mut body: RescoreRequest) -> Result<Rescore, ApiError> {
    body.criteria_hash = wanted(api, body.criteria_hash).await?;
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
    for fault in body.filter.faults() {
        faults.add(&format!("/filter{}", fault.pointer), &fault.message);
    }
    if body.economy {
        check_batch_endpoint(body.priority, body.budget_usd, purpose, &mut faults);
    }
    faults.finish()?;
    resolve(api, "/filter", &mut body.filter).await?;
    body.filter.ids.sort_unstable();
    body.filter.ids.dedup();
    Ok(Rescore {
        name: body.name,
        filter: body.filter,
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
