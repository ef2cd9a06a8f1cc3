//! `/insights`: criteria and agents over time. With too few scores there is a text instead of a chart.

mod calibration;
mod cost;
mod latency;
mod trust;

use askama::Template;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::address::Address;
use super::chart::Chart;
use super::criteria::called;
use super::figures::{self, by_rating, days_ago, percent};
use super::frame::Frame;
use super::links::query;
use super::page::found;
use super::page::{Page, PageError, html};
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::analytics::costs::{DaysQuery, UsageQuery, batch_costs, costs};
use crate::api::analytics::distribution::distribution;
use crate::api::analytics::groups::groups;
use crate::api::analytics::latency::latency;
use crate::api::analytics::names::{approaches, missing_tools};
use crate::api::analytics::trend::{TrendQuery, trend};
use crate::api::ratings::agreement::{CriteriaQuery, get_agreement};
use crate::api::{ApiError, Query, criteria, problem};
use crate::wire::{
    AgreementReport, BatchCostList, CostList, CriteriaVersion, Distribution, LatencyList,
    LimitQuery, NameItem, NameList, Period, ScoreGroup, ScoreGroups, ScoreSelection, Trend,
};
use calibration::CalibrationSection;
pub(super) use trust::Trust;

/// Time ranges offered, days.
const DAYS: [i64; 4] = [14, 30, 90, 365];
const NAMES: u32 = 15;
const GROUPS: usize = 15;
/// Maximum number of suites in the cost table.
const SUITES: u32 = 15;

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/insights", get(insights))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Choice {
    criteria: String,
    days: String,
    suite: String,
}

impl Choice {
    /// Criteria filter of all numbers on the page. Defaults to any.
    fn criteria(&self) -> &str {
        match self.criteria.as_str() {
            "" => "any",
            chosen => chosen,
        }
    }

    /// Address of the session list with the sessions that a bar counts.
    fn sessions(&self, filter: &str, value: &str, from: DateTime<Utc>) -> String {
        let criteria = match self.criteria() {
            "any" => "",
            named => named,
        };
        let day = from.format("%Y-%m-%d").to_string();
        let pairs = [
            (filter, value),
            ("criteria", criteria),
            ("from", day.as_str()),
        ];
        format!("/sessions{}", query(&pairs))
    }

    /// Time range, days. Defaults to 90.
    fn days(&self) -> Result<i64, ApiError> {
        if self.days.is_empty() {
            return Ok(90);
        }
        let days = self.days.parse();
        days.ok().filter(|days| DAYS.contains(days)).ok_or_else(|| {
            let fault = "is no choice of this page: 14, 30, 90 or 365";
            problem::of_field("days", fault)
        })
    }
}

struct SessionGroup {
    name: String,
    scores: String,
    mean: String,
    width: f64,
    range: String,
    to: String,
}

impl SessionGroup {
    fn new(group: ScoreGroup, to: String) -> Self {
        Self {
            scores: words::grouped(group.scores),
            mean: format!("{:.1}", group.mean),
            width: group.mean,
            range: format!("{}-{}", group.min, group.max),
            name: group.name,
            to,
        }
    }
}

struct Frequent {
    name: String,
    sessions: String,
    share: String,
    width: f64,
    to: String,
}

#[derive(Template)]
#[template(path = "insights.html")]
struct Insights {
    frame: Frame,
    choice: Choice,
    stored: Vec<CriteriaVersion>,
    days: i64,
    scores: u64,
    warnings: Vec<String>,
    distribution: Option<Chart>,
    trend: Option<Chart>,
    groups: Vec<(&'static str, Vec<SessionGroup>)>,
    group_warnings: Vec<String>,
    missing: Vec<Frequent>,
    approaches: Vec<Frequent>,
    calibration: CalibrationSection,
    costs: Option<Chart>,
    suites: BatchCostList,
    spent: String,
    calls: String,
    latencies: LatencyList,
    trust: Vec<Trust>,
}

impl Insights {
    /// Criteria offered for selection: value in the address, label.
    fn versions(&self) -> impl Iterator<Item = (&str, String)> {
        let all = [("any", "any".to_owned()), ("current", "current".to_owned())];
        let stored = self.stored.iter().filter(|version| !version.kind.is_case());
        let stored = stored.map(|version| (version.criteria_hash.as_str(), called(version)));
        all.into_iter().chain(stored)
    }
}

struct Analytics {
    distribution: Distribution,
    trend: Trend,
    groups: ScoreGroups,
    missing: NameList,
    approaches: NameList,
    costs: CostList,
    suites: BatchCostList,
    latencies: LatencyList,
    agreement: Option<AgreementReport>,
}

impl Analytics {
    async fn read(
        state: &PageState,
        user: &SessionUser,
        choice: &Choice,
    ) -> Result<Self, PageError> {
        let (api, days) = (state.api(user)?, choice.days()?);
        let from = days_ago(state.about.clock.now(), days);
        let selection = ScoreSelection {
            criteria: Some(choice.criteria().to_owned()),
            from: Some(from),
            to: None,
        };
        let every = if days > 100 {
            Period::Month
        } else {
            Period::Day
        };
        let days = DaysQuery {
            from: Some(from.date_naive()),
            to: None,
        };
        let agreed = CriteriaQuery {
            criteria: selection.criteria.clone().filter(|it| it != "any"),
        };
        let few = LimitQuery { limit: Some(NAMES) };
        let suites = LimitQuery {
            limit: Some(SUITES),
        };
        let chosen = || selection.clone();
        let agreement = get_agreement(api.clone(), Query(agreed));
        let (
            Json(distribution),
            Json(trend),
            Json(groups),
            Json(missing),
            Json(approaches),
            Json(costs),
            Json(suites),
            Json(latencies),
            agreement,
        ) = tokio::try_join!(
            distribution(api.clone(), Query((chosen(), by_rating()))),
            trend(
                api.clone(),
                Query((chosen(), TrendQuery { every: Some(every) }))
            ),
            groups(api.clone(), Query(chosen())),
            missing_tools(api.clone(), Query((chosen(), few))),
            approaches(api.clone(), Query((chosen(), few))),
            costs(api.clone(), Query((UsageQuery::default(), days))),
            batch_costs(api.clone(), Query((days, suites))),
            latency(api.clone(), Query(days)),
            async { Ok(found(agreement.await)?.map(|Json(agreement)| agreement)) },
        )?;
        Ok(Self {
            distribution,
            trend,
            groups,
            missing,
            approaches,
            costs,
            suites,
            latencies,
            agreement,
        })
    }
}

async fn insights(
    State(state): State<PageState>,
    user: SessionUser,
    Address(mut choice): Address<Choice>,
) -> Page {
    if choice.days.is_empty() {
        let from = days_ago(state.about.clock.now(), choice.days()?);
        let selection = ScoreSelection {
            criteria: Some(choice.criteria().to_owned()),
            from: Some(from),
            to: None,
        };
        let counted = Query((selection, by_rating()));
        let Json(lately) = distribution(state.api(&user)?, counted).await?;
        if lately.scores < figures::ENOUGH {
            "365".clone_into(&mut choice.days);
        }
    }
    let figures = Box::pin(Analytics::read(&state, &user, &choice)).await?;
    let Analytics {
        distribution,
        trend,
        groups,
        missing,
        approaches,
        costs,
        suites,
        latencies,
        agreement,
    } = figures;
    let calibration = CalibrationSection::read(&state, &user, choice.suite.trim()).await?;
    let stored = criteria::list_criteria(state.api(&user)?).await?.0.items;
    // Warnings of the page aren't repeated per section.
    let mut group_warnings = groups.warnings.clone();
    group_warnings.retain(|warning| !distribution.warnings.contains(warning));
    let total = &costs.total;
    let days = choice.days()?;
    let from = days_ago(state.about.clock.now(), days);
    html(&Insights {
        frame: Frame::load(&state, user, "Insights", "Insights").await,
        days,
        scores: distribution.scores,
        distribution: figures::histogram(&distribution),
        warnings: distribution.warnings,
        trend: figures::means(&trend),
        groups: by_kind(groups, |filter, name| choice.sessions(filter, name, from)),
        group_warnings,
        missing: frequent(missing.items, |name| {
            choice.sessions("missing_tool", name, from)
        }),
        approaches: frequent(approaches.items, |_| String::new()),
        spent: words::usd_at_least(total.cost_usd, total.unpriced_calls),
        calls: format!(
            "{}, {} without a good reply, {} without a price",
            words::counted(total.calls, "call"),
            words::grouped(total.failed_calls),
            words::grouped(total.unpriced_calls)
        ),
        costs: cost::chart(&costs),
        suites,
        latencies,
        calibration,
        trust: agreement.map_or_else(Vec::new, |report| {
            report.scales.into_iter().map(Trust::new).collect()
        }),
        stored,
        choice,
    })
}

/// Groups by their kind, in page order. Kinds without groups are omitted.
fn by_kind(
    found: ScoreGroups,
    to: impl Fn(&str, &str) -> String,
) -> Vec<(&'static str, Vec<SessionGroup>)> {
    let kinds = [
        ("agent", "agent", found.agents),
        ("alert type", "alert_type", found.alert_types),
        ("tag", "tag", found.tags),
    ];
    let kinds = kinds
        .into_iter()
        .filter(|(_, _, groups)| !groups.is_empty());
    kinds
        .map(|(word, filter, groups)| {
            let groups = groups.into_iter().take(GROUPS);
            let group = |group: ScoreGroup| {
                let to = to(filter, &group.name);
                SessionGroup::new(group, to)
            };
            (word, groups.map(group).collect())
        })
        .collect()
}

fn frequent(names: Vec<NameItem>, to: impl Fn(&str) -> String) -> Vec<Frequent> {
    names
        .into_iter()
        .map(|name| Frequent {
            to: to(&name.name),
            sessions: words::grouped(name.sessions),
            share: percent(name.share),
            width: 100.0 * name.share.unwrap_or_default(),
            name: name.name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tool_links_to_its_sessions() {
        let of = |criteria: &str| {
            let choice = Choice {
                criteria: criteria.to_owned(),
                ..Choice::default()
            };
            let from = "2026-11-09T00:00:00Z".parse().unwrap();
            choice.sessions("missing_tool", "kubectl logs", from)
        };
        let any = "/sessions?missing_tool=kubectl+logs&from=2026-11-09";
        assert_eq!(of(""), any);
        assert_eq!(of("any"), any);
        assert_eq!(
            of("current"),
            "/sessions?missing_tool=kubectl+logs&criteria=current&from=2026-11-09"
        );
    }
}
