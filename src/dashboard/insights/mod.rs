//! `/insights`: criteria and agents over time. With too few scores there is a text instead of a chart.

mod calibration;
mod cost;
mod latency;
mod trust;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Deserialize;

use super::address::Address;
use super::chart::Chart;
use super::criteria::called;
use super::figures::{self, BY_RATING, days_ago, percent};
use super::frame::Frame;
use super::links::query;
use super::page::found;
use super::page::{Page, PageError, html};
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::analytics::{costs, distribution, groups, latency as latencies_of, names, trend};
use crate::api::ratings::agreement;
use crate::api::{ApiError, Params, criteria, problem};
use crate::wire::{
    AgreementReport, BatchCostList, CostList, CriteriaVersion, Distribution, LatencyList, NameItem,
    NameList, ScoreGroup, ScoreGroups, Trend,
};
use calibration::CalibrationSection;
pub(super) use trust::Trust;

/// Time ranges offered, days.
const DAYS: [i64; 4] = [14, 30, 90, 365];
const NAMES: &str = "15";
const GROUPS: usize = 15;
/// Maximum number of suites in the cost table.
const SUITES: &str = "15";

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
    fn sessions(&self, filter: &str, value: &str, from: &str) -> String {
        let criteria = match self.criteria() {
            "any" => "",
            named => named,
        };
        let day = from.get(..10).unwrap_or(from);
        let pairs = [(filter, value), ("criteria", criteria), ("from", day)];
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
        let chosen = |more: (&str, &str)| {
            let criteria = ("criteria", choice.criteria());
            Params::from_pairs(&[("from", from.as_str()), criteria, more])
        };
        let limit = ("limit", NAMES);
        let every = ("every", if days > 100 { "month" } else { "day" });
        let day = ("from", from.get(..10).unwrap_or(&from));
        let criteria = match choice.criteria() {
            "any" => "",
            named => named,
        };
        let agreement = agreement::read(api, Params::from_pairs(&[("criteria", criteria)]));
        let (distribution, trend, groups, missing, approaches, costs, suites, latencies, agreement) =
            tokio::try_join!(
                distribution::read(api, chosen(BY_RATING)),
                trend::read(api, chosen(every)),
                groups::read(
                    api,
                    Params::from_pairs(&[("from", &from), ("criteria", choice.criteria())])
                ),
                names::tools(api, chosen(limit)),
                names::ways(api, chosen(limit)),
                costs::read(api, Params::from_pairs(&[day])),
                costs::of_batches(api, Params::from_pairs(&[day, ("limit", SUITES)])),
                latencies_of::read(api, Params::from_pairs(&[day])),
                async { found(agreement.await) },
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
        let counted = [
            ("from", from.as_str()),
            ("criteria", choice.criteria()),
            BY_RATING,
        ];
        let lately = distribution::read(state.api(&user)?, Params::from_pairs(&counted)).await?;
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
    let stored = criteria::list(state.api(&user)?).await?.items;
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
        groups: by_kind(groups, |filter, name| choice.sessions(filter, name, &from)),
        group_warnings,
        missing: frequent(missing.items, |name| {
            choice.sessions("missing_tool", name, &from)
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
            choice.sessions("missing_tool", "kubectl logs", "2026-11-09T00:00:00Z")
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
