//! Plans a rescore without storing anything: counts found by the same scan as the batch, and an estimate.

use chrono::{DateTime, Utc};

use super::estimate::{Estimated, cost, tokens};
use super::sample::Sampler;
use super::{BacklogPlan, Enqueue, EnqueueError, Rescore, count};
use crate::job::Purpose;
use crate::store::{ClassifyRules, Disposition, Found, SessionFilter};
use crate::wire::{RescorePlan, Sample, Skipped, SkippedPlan};

/// Sample of the sessions whose prompts are counted.
const COUNTED: Sample = Sample { size: 200, seed: 0 };

struct Tally {
    max: u64,
    matching: u64,
    to_score: u64,
    beyond_max: u64,
    skipped: Skipped,
    counted: Sampler,
}

impl Tally {
    /// A batch stops scanning at its maximum.
    fn count(&mut self, found: &Found) {
        self.matching += 1;
        if self.to_score == self.max {
            self.beyond_max += 1;
            return;
        }
        found.disposition.count_in(&mut self.skipped);
        if found.disposition == Disposition::ToScore {
            self.to_score += 1;
            self.counted.offer(found.session_id);
        }
    }
}

impl Enqueue {
    /// Returns the plan of a request. Stores nothing. Errors: those of [`Enqueue::rescore`].
    pub async fn plan_rescore(&self, request: &Rescore) -> Result<RescorePlan, EnqueueError> {
        let plan = self.backlog_plan(request).await?;
        if request.budget_usd.is_some() {
            for judge in &plan.judges {
                self.check_price(judge)?;
            }
        }
        let now = self.clock.now();
        let stored = self
            .store
            .sessions()
            .count_stored(&request.filter.ids, now)
            .await?;
        let unknown = (request.filter.ids.len() as u64).saturating_sub(stored);
        let mut tally = Tally {
            max: request.max.unwrap_or(u64::MAX),
            matching: 0,
            to_score: 0,
            beyond_max: 0,
            skipped: Skipped {
                unknown: count(unknown),
                ..Skipped::default()
            },
            counted: Sampler::new(COUNTED),
        };
        let (not_sampled, sampled) = match request.sample {
            Some(sample) => {
                let (matching, ids) = self
                    .sample(&request.filter, &plan.rules, sample, now)
                    .await?;
                let not_sampled = matching - ids.len() as u64;
                let sampled = SessionFilter {
                    ids,
                    ..request.filter.clone()
                };
                // An empty list of ids would select all sessions.
                (
                    not_sampled,
                    Some(sampled).filter(|sampled| !sampled.ids.is_empty()),
                )
            }
            None => (0, Some(request.filter.clone())),
        };
        if let Some(sampled) = &sampled {
            self.walk(sampled, &plan.rules, now, &mut |found| tally.count(found))
                .await?;
        }
        let mut estimated = self
            .estimate(&plan, tally.to_score, tally.counted.into_ids(), now)
            .await?;
        if request.purpose == Purpose::Preview {
            let warning = self.comparison_warning(sampled.as_ref(), &plan, tally.max, now);
            estimated.warnings.extend(warning.await?);
        }
        let skipped = SkippedPlan {
            found: tally.skipped,
            not_sampled,
            beyond_max: tally.beyond_max,
        };
        let matching = tally.matching + not_sampled;
        Ok(report(
            request,
            plan,
            (matching, tally.to_score),
            skipped,
            estimated,
        ))
    }

    /// Returns a warning if some of a preview's first `max` sessions have no score under the current criteria, or if the candidate is the
    /// current version. `None`: all scores can be compared.
    async fn comparison_warning(
        &self,
        among: Option<&SessionFilter>,
        plan: &BacklogPlan,
        max: u64,
        now: DateTime<Utc>,
    ) -> Result<Option<String>, EnqueueError> {
        let current = self.current_criteria();
        if current.hash.0 == plan.rules.criteria_hash {
            return Ok(Some(SAME.to_owned()));
        }
        let Some(among) = among else {
            return Ok(None);
        };
        let rules = ClassifyRules {
            purpose: Purpose::Score,
            criteria_hash: current.hash.0.clone(),
            force: false,
            ..plan.rules.clone()
        };
        let (mut looked_at, mut without) = (0_u64, 0_u64);
        self.walk(among, &rules, now, &mut |found| {
            if looked_at == max || found.disposition == Disposition::NotScorable {
                return;
            }
            looked_at += 1;
            if found.disposition != Disposition::AlreadyCurrent {
                without += 1;
            }
        })
        .await?;
        Ok((without > 0).then(|| {
            format!(
                "{without} of the {looked_at} sessions have no score by the current criteria that the new one could be compared \
                 with: to take only sessions that have one, filter by criteria current (--scored-with current)"
            )
        }))
    }
}

const SAME: &str = "these are the current criteria, so a preview compares them with themselves: choose another version, or use \
    repeats to measure judge consistency";

fn report(
    request: &Rescore,
    plan: BacklogPlan,
    (matching, to_score): (u64, u64),
    skipped: SkippedPlan,
    estimated: Estimated,
) -> RescorePlan {
    let mut warnings = estimated.warnings;
    let cost_usd = estimated.cost_usd.map(cost);
    if let (Some(budget), Some(range)) = (request.budget_usd, cost_usd)
        && range.high > budget
    {
        warnings.push(format!(
            "it may cost up to {:.2} USD, and is paused at {budget} USD: raise budget_usd, or narrow the filter",
            range.high
        ));
    }
    RescorePlan {
        matching,
        to_score,
        skipped,
        items: to_score * plan.jobs_each(),
        judges: estimated.judges,
        tokens_in: tokens(estimated.tokens_in),
        tokens_out: tokens(estimated.tokens_out),
        cost_usd,
        estimate: estimated.how,
        duration_s: estimated.duration_s,
        pace: estimated.pace,
        criteria_hash: plan.rules.criteria_hash,
        warnings,
    }
}
