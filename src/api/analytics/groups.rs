//! Scores grouped by agent, alert type and tag.

use std::collections::BTreeMap;

use axum::Json;

use super::{Counted, filter};
use crate::api::ApiState;
use crate::api::http::extract::Query;
use crate::api::http::problem::ApiResult;
use crate::store::{ScoreOf, TotalCount};
use crate::wire::words::counted as words_of;
use crate::wire::{ScoreGroup, ScoreGroups, ScoreSelection};

/// Number of newest sessions considered, so that a long period costs no more than a day.
const MAX_SESSIONS: u32 = 4_000;
const MAX_GROUPS: usize = 50;

/// Returns current scores by agent, alert type and tag, for the newest 4,000 sessions. Default: any criteria.
#[utoipa::path(
    get, path = "/api/v1/analytics/groups", tag = "analytics",
    params(ScoreSelection),
    responses(
        (status = 200, description = "The groups", body = ScoreGroups),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn groups(
    state: ApiState,
    Query(selection): Query<ScoreSelection>,
) -> ApiResult<ScoreGroups> {
    let filter = filter(&state, selection, None).await?;
    let analytics = state.store.analytics();
    let (mut scores, sessions) = tokio::try_join!(
        analytics.newest(&filter, MAX_SESSIONS),
        analytics.sessions_in(&filter)
    )?;
    let each = |score: &ScoreOf| TotalCount {
        criteria_hash: score.criteria_hash.clone(),
        day: None,
        made_by: score.made_by,
        total: score.total,
        scores: 1,
    };
    let counted = Counted::from_totals(&scores.iter().map(each).collect::<Vec<_>>());
    scores.retain(|score| score.made_by == counted.made_by);
    let mut warnings = counted.warnings();
    warnings.extend(counted.mixed_criteria_warning());
    if sessions > i64::from(MAX_SESSIONS) {
        warnings.push(format!(
            "limited to the newest {}",
            words_of(MAX_SESSIONS, "session")
        ));
    }
    Ok(Json(ScoreGroups {
        criteria_hash: filter.criteria_hash,
        agents: grouped(&scores, |score| score.agent.as_slice()),
        alert_types: grouped(&scores, |score| score.alert_type.as_slice()),
        tags: grouped(&scores, |score| &score.tags),
        scores: counted.scores,
        simulated: counted.is_simulated(),
        warnings,
    }))
}

/// Groups scores by name, those with most scores first.
fn grouped(scores: &[ScoreOf], names: impl Fn(&ScoreOf) -> &[String]) -> Vec<ScoreGroup> {
    let mut totals: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for score in scores {
        for name in names(score) {
            totals.entry(name).or_default().push(score.total);
        }
    }
    let group = |(name, totals): (&str, Vec<u8>)| {
        let scores = u32::try_from(totals.len()).unwrap_or(u32::MAX);
        Some(ScoreGroup {
            name: name.to_owned(),
            scores: scores.into(),
            mean: totals.iter().map(|total| f64::from(*total)).sum::<f64>() / f64::from(scores),
            min: *totals.iter().min()?,
            max: *totals.iter().max()?,
        })
    };
    let mut groups: Vec<ScoreGroup> = totals.into_iter().filter_map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.scores));
    groups.truncate(MAX_GROUPS);
    groups
}
